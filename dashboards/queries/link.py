"""Defines the queries of the Link dashboard: both ends of one link, and the expected values.

A person types `link`, or a link of another board sets it; without it, the board shows the link with the worst open
finding, so that it is never blank.
"""

from dashboards.queries.presence import presence
from dashboards.queries.query import (
    DECIDED,
    KNOWN,
    LASTS,
    LEVEL,
    LINKS,
    OBSERVED_S,
    OPEN,
    REASON,
    STATE,
    USABLE,
    VALID,
    Query,
    finding_times,
    findings_where,
    gauges,
    lane_gauges,
    lane_readings,
    port_states,
    rates,
    remediation_times,
    states_over_time,
    words,
)

SUBJECT = Query(
    f"""SELECT subject FROM (
    SELECT ${{link:sqlstring}} AS subject, 0 AS place, 0 AS level, now() AS since WHERE subject != ''
    UNION ALL SELECT subject_id AS subject, 1 AS place, {LEVEL} AS level, started_at AS since FROM {KNOWN}
    WHERE {OPEN} AND startsWith(subject_id, 'link:')
    UNION ALL SELECT subject_id AS subject, 2 AS place, {LEVEL} AS level, started_at AS since FROM {KNOWN}
    WHERE {VALID} AND startsWith(subject_id, 'link:')
    UNION ALL (SELECT subject, 3 AS place, 0 AS level, now() AS since FROM ({LINKS}) ORDER BY subject LIMIT 1)
) ORDER BY place, level DESC, since DESC LIMIT 1""",
    ("subject",),
)

_IS_LINK = "subject_id = ${subject:sqlstring}"
_ENDS = f"""
        SELECT side, concat(side, ' ', device, '/', port) AS end, concat(side, ' ') AS place, device, port, role, rail,
            plane, pod, speed_bps
        FROM (
            SELECT *, arrayJoin([('A', a_device, a_port), ('Z', z_device, z_port)]) AS one, one.1 AS side,
                one.2 AS device, one.3 AS port
            FROM ({LINKS}) WHERE subject = ${{subject:sqlstring}}
        )"""
_AT_ENDS = f"(device, row) IN (SELECT device, port FROM ({_ENDS}))"
_FEW = f"device IN (SELECT device FROM ({_ENDS})) AND {_AT_ENDS}"
_STATE = "multiIf(admin_up = 0, 'shut', oper_up = 0, 'down', oper_up = 1, 'up', '')"

ENDS = Query(
    f"""SELECT ends.side AS side, ends.device AS device, ends.port AS port,
    if(latest.state = '', 'unobserved', latest.state) AS state, ends.role AS role, ends.rail AS rail,
    ends.plane AS plane, ends.pod AS pod, ends.speed_bps AS speed_bps, modules.part AS part, modules.serial AS serial,
    modules.firmware AS firmware, nullIf(latest.last, toDateTime64(0, 9, 'UTC')) AS last_sample
FROM ({_ENDS}
) AS ends
LEFT JOIN (
    SELECT device, row, argMax({_STATE}, sampled_at) AS state, max(sampled_at) AS last
    FROM samples WHERE {_FEW} AND $__timeFilter(sampled_at) AND oper_up IS NOT NULL
        AND sampled_at > $__toTime - INTERVAL 1 HOUR
    GROUP BY device, row
) AS latest ON latest.device = ends.device AND latest.row = ends.port
LEFT JOIN (
    SELECT device, component.1 AS name, argMax(component.2, observed_at) AS part,
        argMax(component.3, observed_at) AS serial, argMax(component.4, observed_at) AS firmware
    FROM (
        SELECT device, observed_at, arrayJoin(arrayZip(
            components.name, components.part_number, components.serial, components.firmware
        )) AS component
        FROM facts WHERE device IN (SELECT device FROM ({_ENDS})) AND observed_at <= $__toTime
    ) GROUP BY device, name
) AS modules ON modules.device = ends.device AND modules.name = ends.port
ORDER BY side""",
    (
        "side", "device", "port", "state", "role", "rail", "plane", "pod", "speed_bps", "part", "serial", "firmware",
        "last_sample",
    ),
)  # fmt: skip
# A reading is valid until the next one, for a minute at most: a port that SNMP reads every 30 s has no gaps.
STATES = states_over_time(
    f"SELECT end AS place FROM ({_ENDS})",
    f"""
        SELECT ends.end AS place, toUnixTimestamp(sampled_at) AS begin,
            greatest(
                begin, least(begin + {OBSERVED_S}, leadInFrame(begin, 1, toUInt32(begin + {OBSERVED_S})) OVER next) - 1
            ) AS end, multiIf(admin_up = 0, 1, oper_up = 0, 3, 0) AS level
        FROM samples INNER JOIN ({_ENDS}
        ) AS ends ON ends.device = samples.device AND ends.port = samples.row
        WHERE {_FEW} AND $__timeFilter(sampled_at) AND arrived_at >= $__fromTime AND oper_up IS NOT NULL
        WINDOW next AS (PARTITION BY place ORDER BY sampled_at ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)
        UNION ALL SELECT ends.end AS place, toUInt32(toUnixTimestamp(at)) AS begin, begin AS end, toUInt8(3) AS level
        FROM events INNER JOIN ({_ENDS}
        ) AS ends ON ends.device = events.device AND ends.port = events.port
        WHERE kind = 'link_down' AND $__timeFilter(at)""",
    "end",
)
FINDINGS = findings_where(_IS_LINK)
FINDING_TIMES = finding_times(_IS_LINK)
REMEDIATION_TIMES = remediation_times(_IS_LINK)
REMEDIATIONS = Query(
    f"""SELECT decided_at, {words("action")} AS action, {STATE} AS state, actor, {REASON} AS why
FROM {DECIDED} WHERE {_IS_LINK} ORDER BY decided_at DESC LIMIT 50""",
    ("decided_at", "action", "state", "actor", "why"),
)
_COUNTED = rates(
    _ENDS,
    (("times down", "link_down_events", 1), ("transitions", "link_transitions", 1)),
    _FEW,
    counts=True,
)
# Of an end whose source has no such counter, as by SNMP, the readings in which it is down for the first time.
FLAPS = Query(
    f"""WITH (SELECT groupUniqArray(left(series, 1)) FROM ({_COUNTED.sql})) AS counted
SELECT time, series, rate FROM (
    SELECT time, series, rate FROM ({_COUNTED.sql})
    UNION ALL SELECT $__timeInterval(begin_at) AS time, concat(ends.place, 'seen down') AS series,
        toFloat64(sum(goes_down)) AS rate
    FROM (
        SELECT device, row, toDateTime(begin, 'UTC') AS begin_at, is_down AND NOT lagInFrame(is_down, 1, is_down) OVER (
            PARTITION BY device, row ORDER BY begin ROWS BETWEEN 1 PRECEDING AND CURRENT ROW
        ) AS goes_down
        FROM {port_states(_FEW)}
    ) AS states INNER JOIN ({_ENDS}
    ) AS ends ON ends.device = states.device AND ends.port = states.row
    WHERE NOT has(counted, ends.side)
    GROUP BY time, series
) ORDER BY time, series""",
    ("time", "series", "rate"),
    series=True,
)
BER = gauges(_ENDS, (("pre-FEC BER", "pre_fec_ber"), ("post-FEC BER", "post_fec_ber")), _FEW)
FEC = rates(
    _ENDS,
    (
        ("corrected bits", "fec_corrected_bits", 1), ("corrected codewords", "fec_corrected_codewords", 1),
        ("uncorrected codewords", "fec_uncorrected_codewords", 1),
    ),
    _FEW,
)  # fmt: skip
# The newest forecast of link/degrading, from the level at the newest evidence to the limit.
FORECASTS = f"""
        SELECT subject_id, id, severity, summary, toUnixTimestamp(observed_at) AS begin_s, metric, value, target,
            toUnixTimestamp(reached) AS at_s, toUnixTimestamp(ifNull(earliest, reached)) AS earliest_s,
            toUnixTimestamp(ifNull(latest, reached)) AS latest_s, a_device, a_port, z_device, z_port, pod, site
        FROM (
            SELECT *, arrayFirst(one -> JSONExtractString(one, 'comparison') = 'trend' AND JSONHas(one, 'expected'),
                    JSONExtractArrayRaw(json, 'evidence')) AS trend,
                JSONExtractString(trend, 'metric') AS metric, JSONExtractFloat(trend, 'observed') AS value,
                JSONExtractFloat(trend, 'expected') AS target,
                parseDateTime64BestEffortOrNull(JSONExtractString(json, 'forecast', 'at'), 3, 'UTC') AS reached,
                parseDateTime64BestEffortOrNull(JSONExtractString(json, 'forecast', 'earliest'), 3, 'UTC') AS earliest,
                parseDateTime64BestEffortOrNull(JSONExtractString(json, 'forecast', 'latest'), 3, 'UTC') AS latest
            FROM {KNOWN} WHERE {OPEN} AND detector = 'link/degrading'
        ) WHERE trend != '' AND reached IS NOT NULL"""
FORECAST = Query(
    f"""SELECT metric, value, target AS threshold, toDateTime(assumeNotNull(at_s), 'UTC') AS reaches,
    concat({LASTS.format("earliest_in_s")}, ' to ', {LASTS.format("latest_in_s")}) AS within, id
FROM (
    SELECT *, greatest(toInt64(earliest_s) - toUnixTimestamp($__toTime), 0) AS earliest_in_s,
        greatest(toInt64(latest_s) - toUnixTimestamp($__toTime), 0) AS latest_in_s
    FROM ({FORECASTS})
) WHERE {_IS_LINK} ORDER BY at_s""",
    ("metric", "value", "threshold", "reaches", "within", "id"),
)


def _course(metric: str) -> Query:
    """Return the forecast course of a metric as a straight line on its panel's axis: BER in decades, light in decibels.

    The bounds of the interval are the courses that reach the limit at the earliest and at the latest time.
    """
    return Query(
        f"""SELECT toDateTime(slot, 'UTC') AS time, course.1 AS series, if(is_log, exp10(level), level) AS value
FROM (
    SELECT slot, is_log, course, begin_level + (end_level - begin_level)
        * least((slot - begin_s) / greatest(toFloat64(course.2) - begin_s, 1), 1) AS level
    FROM (
        SELECT metric = 'pre_fec_ber' AS is_log, toUInt32(begin_s) AS begin_s,
            if(is_log, log10(value), value) AS begin_level, if(is_log, log10(target), target) AS end_level,
            arrayJoin(range(toUInt32(begin_s), toUInt32(least(latest_s, toUnixTimestamp($__toTime))) + 1,
                toUInt32(greatest($__interval_s, 10)))) AS slot,
            arrayJoin([('forecast', at_s), ('interval low', latest_s), ('interval high', earliest_s)]) AS course
        FROM ({FORECASTS}
        ) WHERE {_IS_LINK} AND metric = '{metric}'
    )
) ORDER BY time, series""",
        ("time", "series", "value"),
        series=True,
    )


BER_COURSE = _course("pre_fec_ber")
LIGHT_COURSE = _course("rx_power_dbm")
LIGHT = Query(
    f"""SELECT $__timeInterval(at) AS time, concat(ends.place, if(metric = 'rx_power_dbm', 'received', 'sent'),
    if(`index` < 0, '', concat(' lane ', toString(`index`)))) AS series, min(lowest) AS power
FROM {lane_gauges("'rx_power_dbm', 'tx_power_dbm'", _FEW)} AS readings INNER JOIN ({_ENDS}
) AS ends ON ends.device = readings.device AND ends.port = readings.row
WHERE at >= $__fromTime
GROUP BY time, series ORDER BY time, series""",
    ("time", "series", "power"),
    series=True,
)
# The module's own alarm limits, if a collector reads them; two points make a line.
LIGHT_LIMITS = Query(
    f"""SELECT arrayJoin([$__fromTime, $__toTime]) AS time, concat(place, limit.1) AS series, limit.2 AS power FROM (
    SELECT ends.place AS place, arrayJoin(JSONExtractKeysAndValues(limits, 'Float64')) AS limit FROM (
        SELECT device, component.1 AS name, argMax(component.2, observed_at) AS limits FROM (
            SELECT device, observed_at, arrayJoin(arrayZip(components.name, components.limits)) AS component
            FROM facts WHERE device IN (SELECT device FROM ({_ENDS})) AND observed_at <= $__toTime
        ) GROUP BY device, name
    ) AS modules INNER JOIN ({_ENDS}
    ) AS ends ON ends.device = modules.device AND ends.port = modules.name
) WHERE startsWith(limit.1, 'rx_power') ORDER BY time, series""",
    ("time", "series", "power"),
    series=True,
)
ERRORS = rates(
    _ENDS,
    (
        ("FCS", "rx_fcs_errors", 1), ("symbol", "rx_symbol_errors", 1), ("PCS", "pcs_symbol_errors", 1),
        ("received", "rx_errors", 1), ("recoveries", "link_error_recoveries", 1),
        ("discards in", "rx_discards", 1), ("discards out", "tx_discards", 1),
        ("uncorrected symbols", "uncorrected_symbols", 1),
    ),
    _FEW,
)  # fmt: skip
# LLR of Ultra Ethernet, and PLR of InfiniBand.
RETRIES = rates(
    _ENDS,
    (
        ("LLR replays", "llr_tx_replays", 1), ("LLR received damaged", "llr_rx_bad", 1),
        ("LLR damaged earlier", "llr_rx_poisoned", 1), ("LLR lost", "llr_tx_discards", 1),
        ("PLR retries", "plr_tx_retries", 1), ("PLR received damaged", "plr_rx_errors", 1),
    ),
    _FEW,
)  # fmt: skip
TRIMMED = rates(
    _ENDS,
    (
        ("trimmed", "trimmed_packets", 1), ("trimmed, then sent", "trimmed_tx_packets", 1),
        ("trimmed, then dropped", "trimmed_dropped_packets", 1),
    ),
    _FEW,
)  # fmt: skip
WAITS = rates(_ENDS, (("waits", "tx_wait_bytes", 8),), _FEW)
CREDITS = Query(
    f"""SELECT $__timeInterval(at) AS time, concat(ends.place, 'credits', if(`index` < 0, '', concat(' channel ',
    toString(`index`)))) AS series, max(highest) AS used
FROM {lane_gauges("'credits_used'", _FEW)} AS readings INNER JOIN ({_ENDS}
) AS ends ON ends.device = readings.device AND ends.port = readings.row
WHERE at >= $__fromTime
GROUP BY time, series ORDER BY time, series""",
    ("time", "series", "used"),
    series=True,
)
TRAFFIC = rates(_ENDS, (("receives", "rx_bytes", 8), ("sends", "tx_bytes", 8)), _FEW)
SPEED = Query(
    f"""SELECT arrayJoin([$__fromTime, $__toTime]) AS time, 'nominal' AS series, toFloat64(any(speed_bps)) AS bps
FROM ({_ENDS}
) HAVING count() > 0 AND bps > 0 ORDER BY time""",
    ("time", "series", "bps"),
    series=True,
)
# A limit alone would look like a reading.
WAITS_LIMIT = Query(f"SELECT * FROM ({SPEED.sql}) WHERE (SELECT count() FROM ({WAITS.sql})) > 0", SPEED.columns, True)
# The rates of pause frames, for ports without a counter of the pause time.
PAUSE = rates(
    _ENDS,
    (
        ("pause received", "pause_rx_frames", 1), ("pause sent", "pause_tx_frames", 1),
    ),
    _FEW,
)  # fmt: skip
PFC = Query(
    f"""SELECT $__timeInterval(sampled_at) AS time, concat(ends.place, if(startsWith(metric, 'pfc_rx'), 'is paused',
    'pauses'), ' priority ', toString(`index`)) AS series, sum(grown) / sum(elapsed_s) / 1e6 AS paused
FROM {lane_readings("'pfc_rx_pause_useconds', 'pfc_tx_pause_useconds'", _FEW)} AS readings INNER JOIN ({_ENDS}
) AS ends ON ends.device = readings.device AND ends.port = readings.row
WHERE grown >= 0 AND {USABLE}
GROUP BY time, series ORDER BY time, series""",
    ("time", "series", "paused"),
    series=True,
)
HAS_OPTICS = presence(
    (
        "pre_fec_ber", "post_fec_ber", "fec_corrected_bits", "fec_corrected_codewords", "fec_uncorrected_codewords",
        "llr_tx_replays", "llr_rx_bad", "llr_rx_poisoned", "llr_tx_discards", "plr_tx_retries", "plr_rx_errors",
    ),
    ("rx_power_dbm", "tx_power_dbm"),
    _FEW,
)  # fmt: skip
HAS_PAUSES = presence(
    (
        "pause_rx_frames", "pause_tx_frames", "tx_wait_bytes", "trimmed_packets", "trimmed_tx_packets",
        "trimmed_dropped_packets",
    ),
    ("pfc_rx_pause_useconds", "pfc_tx_pause_useconds", "credits_used"),
    _FEW,
)  # fmt: skip
