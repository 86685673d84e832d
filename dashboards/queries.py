"""Defines the queries of the dashboards, with the columns that each panel relies on.

Times are those of Grafana's picker ($__fromTime, $__toTime), not now(), so that the board shows any moment of the past
as it shows the present; only the sink's own delay is against the clock. A time series has its time first, then the
name of the series, then the value.
"""

from dataclasses import dataclass

NONE = "(none)"
"""The pod label of findings without a pod, so that the pod variable includes them."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query; `series` where Grafana is to draw it over time."""

    sql: str
    columns: tuple[str, ...]
    series: bool = False


# A device without a pod, such as a spine, has its own name in a finding, by which the pipeline partitions.
_POD = f"if(pod IN ('', a_device, z_device), '{NONE}', pod)"
_CHOSEN = f"""{_POD} IN (${{pod:singlequote}}) AND severity IN (${{severity:singlequote}})
    AND ${{device:sqlstring}} IN ('', a_device, z_device) AND ${{rail:sqlstring}} IN ('', ifNull(toString(rail), ''))
    AND ${{team:sqlstring}} IN ('', team) AND (${{job:sqlstring}} = '' OR has(jobs, ${{job:sqlstring}}))"""
# What was known at the picker's end: a finding that was resolved afterwards, with an end before it, was open then.
_KNOWN = """(
    SELECT * FROM findings
    WHERE (id, revision) IN (SELECT id, max(revision) FROM findings WHERE arrived_at <= $__toTime GROUP BY id)
    LIMIT 1 BY id
)"""
_OPEN = (
    "status != 'retracted' AND NOT shadow AND started_at <= $__toTime"
    " AND (resolved_at IS NULL OR resolved_at > $__toTime)"
)
# Without it a count of zero proves nothing: stages report progress every second, the sink writes it within 30 s.
_WORKS = """(
    SELECT count() > 0 FROM progress WHERE arrived_at > $__toTime - INTERVAL 120 SECOND AND arrived_at <= $__toTime
)"""
# Without the last bucket, which is incomplete and would dip.
_WHOLE = "arrived_at < toStartOfInterval($__toTime, INTERVAL $__interval_s second)"
_LEVEL = "transform(severity, ['critical', 'warning', 'info'], [3, 2, 1], 0)"
# One version of the inventory: the one in effect last at the picker's end.
_DEVICES = (
    "SELECT name AS device, any(pod) AS pod FROM inventory_devices WHERE digest = (SELECT argMax(digest, effective_at)"
    " FROM inventory_devices WHERE effective_at <= $__toTime) GROUP BY name"
)
_LINKS = (
    "SELECT pod, ifNull(rail, -1) AS lane FROM inventory_links WHERE digest = (SELECT argMax(digest, effective_at)"
    " FROM inventory_links WHERE effective_at <= $__toTime)"
)
# Silent means what telemetry/stale means: longer than three times its cadence, and 30 s at least.
_SOURCES = f"""
    SELECT devices.pod AS pod, devices.device AS device, if(status.source = '', '{NONE}', status.source) AS source,
        latest.last AS last_sample, dateDiff('second', latest.last, $__toTime) AS silent_s,
        greatest(3 * status.cadence_ns / 1e9, 30) AS limit_s, status.reachable AS reachable, status.error AS error
    FROM ({_DEVICES}) AS devices
    LEFT JOIN (
        SELECT device, source, argMax(cadence_ns, at) AS cadence_ns, argMax(reachable, at) AS reachable,
            argMax(error, at) AS error
        FROM collector_status WHERE at <= $__toTime GROUP BY device, source
    ) AS status ON status.device = devices.device
    LEFT JOIN (
        SELECT device, source, max(sampled_at) AS last FROM sample_messages
        WHERE arrived_at >= $__fromTime AND sampled_at <= $__toTime GROUP BY device, source
    ) AS latest ON latest.device = devices.device AND latest.source = status.source
    WHERE if(devices.pod = '', '{NONE}', devices.pod) IN (${{pod:singlequote}})"""

PODS = Query(
    f"""SELECT DISTINCT if(pod = '', '{NONE}', pod) AS pod FROM (
    SELECT pod FROM inventory_devices
    UNION ALL SELECT {_POD} AS pod FROM findings WHERE arrived_at >= $__fromTime
) ORDER BY pod""",
    ("pod",),
)
CRITICAL_COUNT = Query(
    f"""SELECT if({_WORKS}, count(), NULL) AS critical FROM {_KNOWN}
WHERE {_OPEN} AND {_CHOSEN} AND severity = 'critical' AND parent_id = ''""",
    ("critical",),
)
OTHER_COUNT = Query(
    f"""SELECT if({_WORKS}, countIf(severity = 'warning' AND parent_id = ''), NULL) AS warning,
    if({_WORKS}, countIf(severity = 'info' AND parent_id = ''), NULL) AS info,
    if({_WORKS}, countIf(parent_id != ''), NULL) AS explained
FROM {_KNOWN} WHERE {_OPEN} AND {_CHOSEN}""",
    ("warning", "info", "explained"),
)
# Of the sources that a collector has reported; devices without any are counted beside them.
COVERAGE_COUNT = Query(
    f"""SELECT if(countIf(source != '{NONE}') = 0, NULL,
    countIf(silent_s <= limit_s AND source != '{NONE}') / countIf(source != '{NONE}')) AS seen FROM ({_SOURCES}
)""",
    ("seen",),
)
UNCOLLECTED = Query(
    f"""SELECT if(count() = 0, NULL, countIf(source = '{NONE}')) AS devices FROM ({_SOURCES}
)""",
    ("devices",),
)
SINK_DELAY = Query(
    """SELECT dateDiff('millisecond', max(newest), now64(3)) / 1000 AS delay FROM (
    SELECT max(arrived_at) AS newest FROM progress WHERE arrived_at >= $__fromTime
    UNION ALL SELECT max(arrived_at) AS newest FROM sample_messages WHERE arrived_at >= $__fromTime
) WHERE newest > toDateTime64(0, 3, 'UTC') HAVING count() > 0""",
    ("delay",),
)
REJECTED_COUNT = Query(
    f"SELECT if({_WORKS}, count(), NULL) AS rejected FROM rejected WHERE $__timeFilter(arrived_at)", ("rejected",)
)

# Below the board's base URL: the finding's own link if it is there, else the page. Without one, the finding's board.
_RUNBOOK = """multiIf(${runbooks:sqlstring} = '', concat('/d/railsight-finding?var-finding=', id),
        startsWith(runbook_url, ${runbooks:sqlstring}), runbook_url,
        concat(${runbooks:sqlstring}, 'docs/runbooks/', replaceRegexpAll(detector, '[^a-z]', '-'), '.md'))"""
_ACKNOWLEDGED = """
    SELECT subject_id AS finding_id, argMax(actor, newest) AS actor FROM (
        SELECT id, argMax(kind, kafka_offset) AS kind, argMax(subject_id, kafka_offset) AS subject_id,
            argMax(actor, kafka_offset) AS actor, argMax(until, kafka_offset) AS until, max(kafka_offset) AS newest
        FROM controls WHERE arrived_at <= $__toTime GROUP BY id
    ) WHERE kind = 'acknowledge' AND (until IS NULL OR until > $__toTime) GROUP BY finding_id"""
OPEN_FINDINGS = Query(
    f"""SELECT severity, detector AS condition, summary,
    if(lasts_s < 60, concat(toString(lasts_s), ' s'), formatReadableTimeDelta(lasts_s, 'days', 'minutes')) AS lasts,
    concat({_POD}, ifNull(concat(' rail ', toString(rail)), '')) AS place, cause, length(hosts) AS hosts,
    arrayStringConcat(jobs, ', ') AS jobs, ifNull(concat(toString(round(100 * confidence)), ' %'), '') AS confidence,
    acknowledged.actor AS acknowledged_by, left(parent_id, 12) AS explained_by, {_RUNBOOK} AS runbook, id
FROM (
    SELECT *, dateDiff('second', started_at, $__toTime) AS lasts_s FROM {_KNOWN} WHERE {_OPEN} AND {_CHOSEN}
) AS known LEFT JOIN ({_ACKNOWLEDGED}
) AS acknowledged ON acknowledged.finding_id = known.id
ORDER BY parent_id != '', {_LEVEL} DESC, started_at DESC, id
LIMIT 500""",
    (
        "severity", "condition", "summary", "lasts", "place", "cause", "hosts", "jobs", "confidence",
        "acknowledged_by", "explained_by", "runbook", "id",
    ),
)  # fmt: skip
EXPLAIN = Query(
    """SELECT line.1 AS item, line.2 AS value FROM (
    SELECT arrayJoin(arrayConcat(
        [('summary', summary), ('state', concat(status, ', ', severity)), ('subject', subject_id),
            ('since', toString(toDateTime(started_at, 'UTC'))),
            ('until', ifNull(toString(toDateTime(resolved_at, 'UTC')), ''))],
        arrayMap(statement -> ('evidence', statement), evidence),
        [('cause', cause), ('confidence', ifNull(concat(toString(round(100 * confidence)), ' %'), '')),
            ('hosts', arrayStringConcat(hosts, ', ')), ('jobs', arrayStringConcat(jobs, ', ')),
            ('not seen', arrayStringConcat(coverage_missing, ', ')), ('explained by', parent_id),
            ('runbook', runbook_url)]
    )) AS line
    FROM findings_latest WHERE id = ${finding:sqlstring}
) WHERE line.2 != ''""",
    ("item", "value"),
)
HISTORY = Query(
    """SELECT toDateTime(arrived_at) AS at, status, severity, summary, cause FROM findings
WHERE id = ${finding:sqlstring} ORDER BY revision DESC LIMIT 100""",
    ("at", "status", "severity", "summary", "cause"),
)
CHILDREN = Query(
    """SELECT severity, detector AS condition, subject_id AS subject, summary, started_at AS since, id
FROM findings_latest WHERE parent_id = ${finding:sqlstring} AND status != 'retracted'
ORDER BY started_at, id LIMIT 200""",
    ("severity", "condition", "subject", "summary", "since", "id"),
)
ANSWERS = Query(
    """SELECT decided_at, action, state, verdict, actor, reason, constraint_name AS constraint, repair_hint
FROM remediations WHERE has(finding_ids, ${finding:sqlstring}) ORDER BY revision DESC LIMIT 100""",
    ("decided_at", "action", "state", "verdict", "actor", "reason", "constraint", "repair_hint"),
)
CRITICAL_TIMES = Query(
    f"""SELECT started_at AS time, resolved_at AS timeEnd, concat(detector, ' ', subject_id) AS text, severity AS tags
FROM {_KNOWN}
WHERE started_at <= $__toTime AND (resolved_at IS NULL OR resolved_at >= $__fromTime) AND status != 'retracted'
    AND NOT shadow AND severity = 'critical' AND parent_id = '' AND {_CHOSEN}
ORDER BY time LIMIT 200""",
    ("time", "timeEnd", "text", "tags"),
)
# Of all states, those in which the target left service and came back.
REMEDIATION_TIMES = Query(
    """SELECT decided_at AS time, concat(action, ' ', subject_id, ': ', state) AS text, state AS tags
FROM remediations WHERE $__timeFilter(decided_at) AND state IN ('drained', 'probation') ORDER BY time LIMIT 200""",
    ("time", "text", "tags"),
)
OPENED = Query(
    f"""SELECT $__timeInterval(started_at) AS time, detector AS condition, count() AS opened
FROM findings_latest
WHERE $__timeFilter(started_at) AND status != 'retracted' AND NOT shadow AND {_CHOSEN}
GROUP BY time, condition ORDER BY time""",
    ("time", "condition", "opened"),
    series=True,
)
# Level -1 is a pod of which no device reported for a minute: neither healthy nor faulty. Devices without a pod are
# a place too.
HEALTH = Query(
    f"""WITH toUInt32(greatest($__interval_s, 10)) AS step,
    intDiv(toUnixTimestamp($__fromTime), step) * step AS first, toUnixTimestamp($__toTime) AS last
SELECT toDateTime(slots.slot, 'UTC') AS time,
    concat(places.pod, if(places.lane < 0, ' fabric', concat(' rail ', toString(places.lane)))) AS place,
    multiIf(ill.level > 0, ill.level, reporting.devices = 0, -1, 0) AS health
FROM (
    SELECT DISTINCT if(pod = '', '{NONE}', pod) AS pod, lane FROM (
        SELECT pod, lane FROM ({_LINKS}) UNION ALL SELECT pod, toInt32(-1) AS lane FROM ({_DEVICES})
    ) WHERE pod IN (${{pod:singlequote}})
) AS places
CROSS JOIN (SELECT arrayJoin(range(first, last, step)) AS slot) AS slots
LEFT JOIN (
    SELECT {_POD} AS pod, ifNull(rail, -1) AS lane, max({_LEVEL}) AS level,
        arrayJoin(range(
            intDiv(greatest(toUnixTimestamp(started_at), first), step) * step,
            least(ifNull(toUnixTimestamp(resolved_at), last), last) + 1, step
        )) AS slot
    FROM {_KNOWN}
    WHERE started_at <= $__toTime AND (resolved_at IS NULL OR resolved_at >= $__fromTime)
        AND status != 'retracted' AND NOT shadow AND {_CHOSEN}
    GROUP BY pod, lane, slot
) AS ill ON ill.pod = places.pod AND ill.lane = places.lane AND ill.slot = slots.slot
LEFT JOIN (
    SELECT if(devices.pod = '', '{NONE}', devices.pod) AS pod,
        arrayJoin(range(
            intDiv(toUnixTimestamp(sampled_at), step) * step, toUInt32(toUnixTimestamp(sampled_at) + 60), step
        )) AS slot, uniq(device) AS devices
    FROM sample_messages INNER JOIN ({_DEVICES}) AS devices USING device
    WHERE $__timeFilter(sampled_at) AND arrived_at >= $__fromTime
    GROUP BY pod, slot
) AS reporting ON reporting.pod = places.pod AND reporting.slot = slots.slot
ORDER BY time, place""",
    ("time", "place", "health"),
    series=True,
)
COVERAGE = Query(
    f"""SELECT if(pod = '', '{NONE}', pod) AS pod, source, count() AS expected,
    countIf(silent_s <= limit_s) AS seen, expected - seen AS stale,
    seen / expected AS seen_ratio
FROM ({_SOURCES}
) GROUP BY pod, source ORDER BY seen_ratio, pod, source""",
    ("pod", "source", "expected", "seen", "stale", "seen_ratio"),
)
STALE = Query(
    f"""SELECT pod, device, source, nullIf(last_sample, toDateTime64(0, 9, 'UTC')) AS last_sample,
    if(last_sample IS NULL, '', formatReadableTimeDelta(silent_s, 'days', 'seconds')) AS silent_for,
    multiIf(source = '{NONE}', '', reachable, 'yes', 'no') AS reachable,
    if(source = '{NONE}', 'no collector reports this device', error) AS error
FROM ({_SOURCES}
) WHERE silent_s > limit_s ORDER BY silent_s DESC, device LIMIT 200""",
    ("pod", "device", "source", "last_sample", "silent_for", "reachable", "error"),
)
REMEDIATIONS = Query(
    """SELECT decided_at, action, if(state = '', verdict, state) AS state, subject_id AS target, reason,
    if(constraint_name = '', '', concat(constraint_name,
        ifNull(concat(' ', toString(constraint_observed)), ''),
        ifNull(concat(', limit ', toString(constraint_limit)), '')
    )) AS constraint,
    ifNull(concat(toString(round(100 * surviving_capacity_ratio, 1)), ' %'), '') AS surviving, repair_hint
FROM remediations_latest
WHERE $__timeFilter(decided_at) ORDER BY decided_at DESC LIMIT 200""",
    ("decided_at", "action", "state", "target", "reason", "constraint", "surviving", "repair_hint"),
)
# A stage without input has a watermark of zero.
WATERMARK_LAG = Query(
    """SELECT $__timeInterval(arrived_at) AS time, stage,
    max(dateDiff('millisecond', assumeNotNull(watermark), arrived_at)) / 1000 AS lag
FROM progress WHERE $__timeFilter(arrived_at) AND watermark > toDateTime64('1971-01-01', 9, 'UTC')
GROUP BY time, stage ORDER BY time""",
    ("time", "stage", "lag"),
    series=True,
)
BEHIND = Query(
    """SELECT time, stage, sum(most) AS behind FROM (
    SELECT $__timeInterval(arrived_at) AS time, stage, partition, max(lag) AS most
    FROM progress WHERE $__timeFilter(arrived_at) GROUP BY time, stage, partition
) GROUP BY time, stage ORDER BY time""",
    ("time", "stage", "behind"),
    series=True,
)
# `records` counts from an owner's beginning, so it is compared within one epoch only.
STAGE_RATE = Query(
    f"""SELECT $__timeInterval(arrived_at) AS time, stage, sum(grown) / $__interval_s AS rate FROM (
    SELECT arrived_at, stage, toInt64(records) - toInt64(lagInFrame(records, 1, records) OVER (
        PARTITION BY stage, partition, epoch ORDER BY arrived_at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW
    )) AS grown
    FROM progress WHERE $__timeFilter(arrived_at)
) WHERE {_WHOLE}
GROUP BY time, stage ORDER BY time""",
    ("time", "stage", "rate"),
    series=True,
)
ROW_RATE = Query(
    f"""SELECT $__timeInterval(arrived_at) AS time, source, sum(rows) / $__interval_s AS rate
FROM sample_messages WHERE $__timeFilter(arrived_at) AND {_WHOLE}
GROUP BY time, source ORDER BY time""",
    ("time", "source", "rate"),
    series=True,
)
ARRIVAL_DELAY = Query(
    """SELECT $__timeInterval(arrived_at) AS time, source,
    quantile(0.99)(dateDiff('millisecond', sampled_at, arrived_at)) / 1000 AS delay
FROM sample_messages WHERE $__timeFilter(arrived_at)
GROUP BY time, source ORDER BY time""",
    ("time", "source", "delay"),
    series=True,
)
REJECTED = Query(
    """SELECT topic, stage, reason, count() AS times, max(arrived_at) AS last
FROM rejected WHERE $__timeFilter(arrived_at)
GROUP BY topic, stage, reason ORDER BY times DESC, last DESC LIMIT 100""",
    ("topic", "stage", "reason", "times", "last"),
)
