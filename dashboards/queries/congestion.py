"""Defines the queries of the Congestion dashboard: pauses, marks, queues, imbalance, and findings under their roots."""

from dashboards.limits import DETECT
from dashboards.queries.groups import group_rates, groups
from dashboards.queries.presence import SHOWS_COLLAPSE, SHOWS_STORMS
from dashboards.queries.query import (
    DEVICES,
    IN_PODS,
    IN_RANGE,
    KNOWN,
    LINKS,
    NONE,
    OF_ALL_PORTS,
    OPEN,
    PORTS,
    WORKS,
    Hours,
    Query,
    finding_times,
    lane_gauges,
    lane_minutes,
    lane_readings,
    minutes,
    readings,
    usable,
    words,
)

_IS_CONGESTION = "startsWith(detector, 'congestion/')"
# None is zero only if what shows one is read.
COUNTS = Query(
    f"""SELECT if({WORKS}, incasts, NULL) AS incast,
    if({WORKS} AND (storms > 0 OR {SHOWS_STORMS}), storms, NULL) AS pfc_storm,
    if({WORKS}, imbalances, NULL) AS imbalance,
    if({WORKS} AND (collapses > 0 OR {SHOWS_COLLAPSE}), collapses, NULL) AS collapse
FROM (
    SELECT countIf(detector = 'congestion/incast') AS incasts, countIf(detector = 'congestion/pfc-storm') AS storms,
        countIf(detector = 'congestion/imbalance') AS imbalances, countIf(detector = 'congestion/collapse') AS collapses
    FROM {KNOWN} WHERE {OPEN}
)""",
    ("incast", "pfc_storm", "imbalance", "collapse"),
)
# Pauses are counted by direction: a received pause slows the device, a sent pause slows its neighbor.
_KIND = f"(SELECT device, kind FROM ({DEVICES}))"


_GROUP_PODS = f"kind != '' AND if(pod = '', '{NONE}', pod) IN (${{pod:singlequote}})"
_PFC, _PAUSE = "'pfc_rx_frames', 'pfc_tx_frames'", ["pause_rx_frames", "pause_tx_frames"]


def _pauses(lanes: str, ports: str) -> str:
    """Return the pause frames of each priority (PFC), and of the whole port (IEEE 802.3x, index -1)."""
    return f"""(
    SELECT device, row, source, `index`, metric = 'pfc_rx_frames' AS is_paused, sampled_at, elapsed_s, grown
    FROM {lanes}
    UNION ALL SELECT device, row, source, -1, one.1, sampled_at, elapsed_s, one.2 FROM (
        SELECT *, arrayJoin([(1, grown_pause_rx_frames), (0, grown_pause_tx_frames)]) AS one
        FROM {ports}
    ) WHERE one.2 IS NOT NULL
)"""


_PAUSES = _pauses(
    lane_readings(_PFC, IN_PODS, wide=True, hours=Hours.GROUPS),
    readings(_PAUSE, IN_PODS, wide=True, hours=Hours.GROUPS),
)
_PAUSED_GROUPS = "\n    UNION ALL".join(
    group_rates(
        statistic,
        [
            ("concat(kind, ' is paused')", f"{counter}_rx_frames_per_s"),
            ("concat(kind, ' pauses')", f"{counter}_tx_frames_per_s"),
        ],
        _GROUP_PODS,
    )
    for statistic, counter in (("lanes", "pfc"), ("counters", "pause"))
)
PAUSED = Query(
    f"""SELECT time, series, avg(rate) AS frames FROM (
    SELECT time, series, sum(rate) AS rate FROM (
        SELECT $__timeInterval(sampled_at) AS time, concat(kinds.kind, if(is_paused, ' is paused', ' pauses')) AS
            series, readings.device, row, `index`, sum(grown) / sum(elapsed_s) AS rate
        FROM {_PAUSES} AS readings
        INNER JOIN {_KIND} AS kinds USING device
        WHERE grown >= 0 AND {OF_ALL_PORTS} GROUP BY time, series, device, row, `index`
    ) GROUP BY time, series
    UNION ALL SELECT time, series, sum(rate) AS rate FROM ({_PAUSED_GROUPS}
    ) GROUP BY time, series
) GROUP BY time, series ORDER BY time, series""",
    ("time", "series", "frames"),
    series=True,
)
_MOST_S = 600
_SINCE = f"$__toTime - INTERVAL {_MOST_S} SECOND"
_GREW = "(pause_rx_frames_increase > 0 OR pause_tx_frames_increase > 0)"
_RECENT_PAUSES = _pauses(
    lane_minutes(_PFC, f"{IN_PODS} AND increase > 0", _SINCE), minutes(_PAUSE, f"{IN_PODS} AND {_GREW}", _SINCE)
)
# For a port with several sources, the highest count is shown; growth over a longer gap is divided by the gap.
MOST_PAUSED = Query(
    f"""SELECT most.device AS device, most.row AS port, if(priority < 0, NULL, priority) AS priority,
    if(is_paused, 'is paused', 'pauses') AS direction, frames, links.subject AS subject
FROM (
    SELECT device, row, source, `index` AS priority, is_paused,
        sum(grown) / greatest(sum(elapsed_s), {_MOST_S}) AS frames
    FROM {_RECENT_PAUSES} AS readings
    WHERE grown > 0 GROUP BY device, row, source, priority, is_paused ORDER BY frames DESC, device, row LIMIT 100
) AS most
LEFT JOIN ({PORTS}
) AS links ON links.device = most.device AND links.port = most.row
ORDER BY frames DESC, device, port LIMIT 1 BY device, port, priority, direction LIMIT 30""",
    ("device", "port", "priority", "direction", "frames", "subject"),
)
_MARKS = (
    ("'ECN marked by switches'", "port_ecn_marked_packets"),
    ("'ECN marked, received by NICs'", "roce_ecn_marked_packets"),
    ("'CNP sent'", "cnp_sent"), ("'CNP handled'", "cnp_handled"),
)  # fmt: skip
MARKED = Query(
    f"""SELECT time, series, avg(rate) AS rate FROM (
    SELECT time, metric.1 AS series, sum(metric.2) AS rate FROM (
        SELECT $__timeInterval(sampled_at) AS time, device, row, source, arrayJoin([
            {", ".join(f"({name}, sum(grown_{column}))" for name, column in _MARKS)}
        ]) AS metric_sum, (metric_sum.1, metric_sum.2 / sum(elapsed_s)) AS metric
        FROM {readings([column for _, column in _MARKS], IN_PODS, wide=True, hours=Hours.GROUPS)} AS readings
        WHERE {OF_ALL_PORTS} GROUP BY time, device, row, source
    ) WHERE metric.2 >= 0 GROUP BY time, series
    UNION ALL {group_rates("counters", [(name, f"{column}_per_s") for name, column in _MARKS], _GROUP_PODS)}
) GROUP BY time, series ORDER BY time, series""",
    ("time", "series", "rate"),
    series=True,
)
_DISCARDED = [
    (f"concat(kind, ' discards {way}')", f"{column}_per_s")
    for way, column in (("in", "rx_discards"), ("out", "tx_discards"))
]
DISCARDS = Query(
    f"""SELECT time, series, avg(rate) AS rate FROM (
    SELECT time, metric.1 AS series, sum(metric.2) AS rate FROM (
        SELECT $__timeInterval(sampled_at) AS time, device, row, source, arrayJoin([
            ('in', sum(grown_rx_discards)), ('out', sum(grown_tx_discards))
        ]) AS metric_sum, (concat(any(kinds.kind), ' discards ', metric_sum.1), metric_sum.2 / sum(elapsed_s)) AS
            metric
        FROM {readings(["rx_discards", "tx_discards"], IN_PODS, wide=True, hours=Hours.GROUPS)} AS readings
        INNER JOIN {_KIND} AS kinds USING device
        WHERE {OF_ALL_PORTS} GROUP BY time, device, row, source
    ) WHERE metric.2 >= 0 GROUP BY time, series
    UNION ALL {group_rates("counters", _DISCARDED, _GROUP_PODS)}
) GROUP BY time, series ORDER BY time, series""",
    ("time", "series", "rate"),
    series=True,
)
_DROPPED = "metric = 'queue_dropped_packets'"
QUEUES = Query(
    f"""SELECT device, row AS port, `index` AS queue, maxIf(value, metric = 'queue_depth_bytes') AS depth,
    maxIf(value, metric = 'queue_watermark_bytes') AS watermark,
    sumIf(value, {_DROPPED}) / nullIf(uniqExactIf(source, {_DROPPED}), 0) AS dropped
FROM (
    SELECT device, row, source, metric, `index`, highest AS value
    FROM {lane_gauges("'queue_depth_bytes', 'queue_watermark_bytes'", IN_PODS, wide=True)} WHERE at >= $__fromTime
    UNION ALL SELECT device, row, source, metric, `index`, toFloat64(grown) AS value
    FROM {lane_readings("'queue_dropped_packets'", IN_PODS, wide=True)}
    WHERE grown >= 0 AND {usable(wide=True)}
) GROUP BY device, port, queue ORDER BY dropped DESC, watermark DESC, depth DESC LIMIT 30""",
    ("device", "port", "queue", "depth", "watermark", "dropped"),
)
_UPLINKS = f"""
    SELECT $__timeInterval(sampled_at) AS time, device, row, 8 * sum(grown_tx_bytes) / sum(elapsed_s) AS bps
    FROM {readings(["tx_bytes"], IN_PODS, wide=True, hours=Hours.GROUPS)} AS readings
    INNER JOIN (
        SELECT a_device, a_port FROM ({LINKS}) WHERE role = 'fabric-link'
    ) AS uplinks ON uplinks.a_device = readings.device AND uplinks.a_port = readings.row
    WHERE {usable(wide=True)} AND grown_tx_bytes >= 0 GROUP BY time, device, row"""
# Compares with the mean of the uplinks in use, like the detector congestion/imbalance.
_UNEVEN = f"""
    SELECT time, device, max(abs(bps - middle)) / middle AS uneven
    FROM (
        SELECT *, avg(bps) OVER (PARTITION BY time, device) AS middle FROM (
            SELECT *, max(bps) OVER (PARTITION BY time, device) AS most FROM ({_UPLINKS}
            )
        ) WHERE bps > {DETECT.imbalance.unused} * most
    ) WHERE middle > 0 GROUP BY time, device, middle
    UNION ALL SELECT $__timeInterval(bucket) AS time, device, avg(uplinks_uneven) AS uneven
    FROM {groups("uplinks", _GROUP_PODS)} GROUP BY time, device"""
IMBALANCE = Query(
    f"""SELECT time, device AS series, uneven FROM ({_UNEVEN}
) WHERE device IN (
    SELECT device FROM ({_UNEVEN}
    ) GROUP BY device ORDER BY max(uneven) DESC LIMIT 10
) ORDER BY time, series""",
    ("time", "series", "uneven"),
    series=True,
)
# Below each root finding are its child findings, then the affected hosts.
TREE = Query(
    f"""SELECT line.2 AS what, line.3 AS severity, line.4 AS since, {words("line.5")} AS cause, line.6 AS id FROM (
    SELECT arrayJoin(arrayConcat(
        [(if(parent_id = '', (root, 0, ''), (root, 1, id)), concat(if(parent_id = '', '', '   └ '), detector, ': ',
            summary), severity, started_at, cause, id)],
        arrayMap(host -> (if(parent_id = '', (root, 2, host), (root, 1, concat(id, host))),
            concat(if(parent_id = '', '   └ ', '        └ '), 'victim ', host), '', started_at, '', id),
            arraySlice(arraySort(hosts), 1, 16))
    )) AS line
    FROM (SELECT *, if(parent_id = '', id, parent_id) AS root FROM {KNOWN} WHERE {IN_RANGE})
    WHERE {_IS_CONGESTION} OR root IN (
        SELECT parent_id FROM {KNOWN} WHERE {IN_RANGE} AND {_IS_CONGESTION} AND parent_id != ''
    )
) ORDER BY line.1 LIMIT 200""",
    ("what", "severity", "since", "cause", "id"),
)
FINDING_TIMES = finding_times(_IS_CONGESTION)
