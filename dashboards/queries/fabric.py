"""Defines the queries of the Fabric dashboard: open findings, their places and durations, and the coverage."""

from dashboards.limits import DETECT
from dashboards.looks import ARCS
from dashboards.queries.messages import LATEST, messages, reported
from dashboards.queries.query import (
    CONSTRAINT,
    DECIDED,
    DEVICES,
    EFFECTIVE_LINKS,
    FABRIC_LINKS,
    FILTERED,
    HAS_FABRIC_LINKS,
    IN_RANGE,
    KNOWN,
    LASTS,
    LEVEL,
    LINKS_TO_HOSTS,
    NONE,
    OBSERVED_S,
    OPEN,
    POD,
    REASON,
    STATE,
    VALID,
    WORKS,
    Query,
    finding_times,
    remediation_times,
    states_over_time,
    words,
)

_SELECTED = """severity IN (${severity:singlequote})
    AND ${device:sqlstring} IN ('', a_device, z_device) AND ${rail:sqlstring} IN ('', ifNull(toString(rail), ''))
    AND ${team:sqlstring} IN ('', team) AND (${job:sqlstring} = '' OR has(jobs, ${job:sqlstring}))"""
CHOSEN = f"{POD} IN (${{pod:singlequote}}) AND {_SELECTED}"
# A finding of a link counts in the pods of both its ends.
_FINDINGS = f"""(
    SELECT *, arrayDistinct([{POD}, if(far_pod = '', {POD}, far_pod)]) AS pods FROM {KNOWN} AS known
    LEFT JOIN (
        SELECT device AS z_device, if(pod = '', '{NONE}', pod) AS far_pod FROM ({DEVICES})
    ) AS far USING z_device
    WHERE hasAny(pods, [${{pod:singlequote}}]) AND {_SELECTED}
)"""
# A source is silent by the settings of the detector telemetry/stale.
_SOURCES = f"""
    SELECT devices.pod AS pod, devices.device AS device, if(status.source = '', '{NONE}', status.source) AS source,
        latest.last AS last_sample, dateDiff('second', latest.last, $__toTime) AS silent_s,
        greatest({DETECT.stale.cadences:g} * status.cadence_ns / 1e9, {DETECT.stale.at_least_s:g}) AS limit_s,
        status.reachable AS reachable, status.error AS error
    FROM ({DEVICES}) AS devices
    LEFT JOIN (
        SELECT device, source, argMax(cadence_ns, at) AS cadence_ns, argMax(reachable, at) AS reachable,
            argMax(error, at) AS error
        FROM collector_status WHERE at <= $__toTime GROUP BY device, source
    ) AS status ON status.device = devices.device
    LEFT JOIN (
        SELECT device, source, max(newest) AS last FROM {messages(("device", "source", "newest"), LATEST)}
        GROUP BY device, source
    ) AS latest ON latest.device = devices.device AND latest.source = status.source
    WHERE if(devices.pod = '', '{NONE}', devices.pod) IN (${{pod:singlequote}})"""
# A place is a pod's fabric or one of its rails; the pod is NONE for devices and links without a pod.
_PLACES = f"""
    SELECT DISTINCT if(pod = '', '{NONE}', pod) AS pod, lane FROM (
        SELECT pod, ifNull(rail, -1) AS lane {EFFECTIVE_LINKS}
        UNION ALL SELECT pod, toInt32(-1) AS lane FROM ({DEVICES})
    ) WHERE pod IN (${{pod:singlequote}})"""
_PLACE = "concat(pod, if(lane < 0, ' fabric', concat(' rail ', toString(lane))))"
_REPORTING = f"""
    SELECT device, toUnixTimestamp(max(sampled_at)) AS newest FROM sample_messages
    WHERE sampled_at > $__toTime - INTERVAL {OBSERVED_S} SECOND AND sampled_at <= $__toTime
        AND arrived_at > $__toTime - INTERVAL {OBSERVED_S} SECOND
    GROUP BY device"""

PODS = Query(
    f"""SELECT DISTINCT if(pod = '', '{NONE}', pod) AS pod FROM (
    SELECT pod FROM inventory_devices
    UNION ALL SELECT {POD} AS pod FROM findings WHERE arrived_at >= $__fromTime
) ORDER BY pod""",
    ("pod",),
)
CRITICAL_COUNT = Query(
    f"""SELECT if({WORKS}, count(), NULL) AS critical FROM {KNOWN}
WHERE {OPEN} AND {CHOSEN} AND severity = 'critical' AND parent_id = ''""",
    ("critical",),
)
OTHER_COUNT = Query(
    f"""SELECT if({WORKS}, countIf(severity = 'warning' AND parent_id = ''), NULL) AS warning,
    if({WORKS}, countIf(severity = 'info' AND parent_id = ''), NULL) AS info,
    if({WORKS}, countIf(parent_id != ''), NULL) AS explained
FROM {KNOWN} WHERE {OPEN} AND {CHOSEN}""",
    ("warning", "info", "explained"),
)
# Counts the sources that a collector has reported; UNCOLLECTED counts the devices without a source.
COVERAGE_COUNT = Query(
    f"""SELECT if(countIf(source != '{NONE}') = 0, NULL,
    countIf(silent_s <= limit_s AND source != '{NONE}') / countIf(source != '{NONE}')) AS seen FROM ({_SOURCES}
)""",
    ("seen",),
)
UNCOLLECTED = Query(
    f"""SELECT if(count() = 0 OR NOT {WORKS}, NULL, countIf(source = '{NONE}')) AS devices FROM ({_SOURCES}
)""",
    ("devices",),
)
# The state at the picker's end; Grafana's transformation makes a row for each pod, the worst first, and a column for
# each rail.
MATRIX = Query(
    f"""SELECT places.pod AS pod, if(places.lane < 0, 'fabric', concat('rail ', toString(places.lane))) AS place,
    multiIf(ill.level > 0, ill.level, reporting.devices = 0, -1, 0) AS health
FROM ({_PLACES}
) AS places
LEFT JOIN (
    SELECT arrayJoin(pods) AS pod, ifNull(rail, -1) AS lane, max({LEVEL}) AS level
    FROM {_FINDINGS} WHERE {OPEN} GROUP BY pod, lane
) AS ill ON ill.pod = places.pod AND ill.lane = places.lane
LEFT JOIN (
    SELECT if(devices.pod = '', '{NONE}', devices.pod) AS pod, count() AS devices
    FROM ({_REPORTING}
    ) AS newest INNER JOIN ({DEVICES}) AS devices USING device GROUP BY pod
) AS reporting ON reporting.pod = places.pod
ORDER BY places.lane, max(health) OVER (PARTITION BY pod) DESC, pod""",
    ("pod", "place", "health"),
)
_SWITCHES = f"""
    SELECT devices.device AS device, devices.pod AS pod, devices.tier AS tier, devices.plane AS plane,
        multiIf(ill.level > 0, ill.level, newest.newest = 0, -1, 0) AS level, ill.open AS open
    FROM ({DEVICES}) AS devices
    LEFT JOIN (
        SELECT device, max(level) AS level, count() AS open FROM (
            SELECT arrayJoin(arrayFilter(name -> name != '', [a_device, z_device])) AS device, {LEVEL} AS level
            FROM {KNOWN} WHERE {OPEN} AND {CHOSEN} AND parent_id = ''
        ) GROUP BY device
    ) AS ill ON ill.device = devices.device
    LEFT JOIN ({_REPORTING}
    ) AS newest ON newest.device = devices.device
    WHERE devices.kind = 'switch'"""
PLANES = Query(
    f"""SELECT concat('plane ', toString(assumeNotNull(plane))) AS place,
    multiIf(max(level) > 0, max(level), countIf(level >= 0) = 0, -1, 0) AS health
FROM ({_SWITCHES}
) WHERE plane IS NOT NULL GROUP BY plane ORDER BY plane""",
    ("place", "health"),
)
# The node of a switch that is not drawn itself. A fabric without planes has one node for all devices without a pod. The
# links of spines that are neither in a plane nor without a pod are inside of their pod.
_PLANE_NODE = "if({plane} IS NULL, 'no pod', concat('plane ', toString(assumeNotNull({plane}))))"
_HAS_PLANE_NODE = "one.4 IS NOT NULL OR one.3 = ''"
# Grafana colors a node by its arcs; a legend of their names and colors is below the graph.
_ARCS = ", ".join(f"toFloat64(level = {level}) AS {arc}" for level, arc in ARCS.items())
_TEXT = "transform(toInt32({level}), [-1, 0, 1, 2, 3], ['unobserved', 'healthy', 'info', 'warning', 'critical'], '')"
# The graph draws up to 24 pods, of more only the 23 worst that are not healthy, and the others as one place; and the
# worst 12 switches with an open finding, others as their pod or plane. These are scalars, so that ClickHouse computes
# each only once.
_OTHERS = "other pods"
_DRAWN = f"""(
    SELECT groupArray((
        findings.pods, toInt16({LEVEL}), toUInt64(parent_id = ''),
        arrayFilter(name -> name != '', [a_device, z_device]),
        if(detector IN ('link/down', 'link/flap'), subject_id, '')
    )) FROM {_FINDINGS} AS findings WHERE {OPEN}
) AS ill, (
    SELECT groupArray((devices.device, devices.pod, devices.kind, devices.tier, devices.plane, newest.newest > 0))
    FROM ({DEVICES}) AS devices
    LEFT JOIN ({_REPORTING}
    ) AS newest ON newest.device = devices.device
) AS known, (
    SELECT groupArray((pod, level, open)) FROM (
        SELECT pod, toInt16(multiIf(max(level) > 0, max(level), max(reports) = 0, -1, 0)) AS level, sum(open) AS open
        FROM (
            SELECT one.2 AS pod, toInt16(0) AS level, one.6 AS reports, toUInt64(0) AS open, 1 AS devices
            FROM (SELECT arrayJoin(known) AS one)
            UNION ALL SELECT arrayJoin(one.1), one.2, 0, one.3, 0 FROM (SELECT arrayJoin(ill) AS one)
        )
        WHERE pod != '' AND pod IN (${{pod:singlequote}})
        GROUP BY pod HAVING sum(devices) > 0 ORDER BY if(level < 0, 0.5, level) DESC, pod
    )
) AS ranked, if(length(ranked) <= 24, ranked, arraySlice(arrayFilter(one -> one.2 != 0, ranked), 1, 23)) AS pods,
arraySlice(ranked, length(pods) + 1) AS others, (
    SELECT groupArray((
        names.device, one.4, one.2, one.5, toInt16(multiIf(at.level > 0, at.level, one.6, 0, -1)), at.open
    ))
    FROM (SELECT arrayJoin(known) AS one, one.1 AS device) AS names
    LEFT JOIN (
        SELECT arrayJoin(one.4) AS device, max(one.2) AS level, count() AS open
        FROM (SELECT arrayJoin(ill) AS one) WHERE one.3 = 1 GROUP BY device
    ) AS at ON at.device = names.device
    WHERE one.3 = 'switch'
) AS switches,
arraySlice(arraySort(one -> (-one.5, one.1), arrayFilter(one -> one.6 > 0, switches)), 1, 12) AS drawn"""
# The columns from left to right, each six nodes high: pods, their switches, switches without a pod, planes.
_POSITIONS = """[-330, -170, 60, 290][layer] + if(layer = 1, -110, 110) * intDiv(place - 1, 6) AS fixedx,
    ((place - 1) % 6 - (least(size, 6) - 1) / 2) * 88 AS fixedy"""
NODES = Query(
    f"""WITH {_DRAWN}
SELECT id, title, subtitle, {_TEXT.format(level="level")} AS mainstat,
    if(open = 0, '', concat(toString(open), ' open')) AS secondarystat, {_ARCS},
    24 AS noderadius, {_POSITIONS}
FROM (
    SELECT *, row_number() OVER (PARTITION BY layer ORDER BY id) AS place, count() OVER (PARTITION BY layer) AS size
    FROM (
        SELECT toUInt8(1) AS layer, one.1 AS id, id AS title, 'pod' AS subtitle, one.2 AS level,
            toUInt64(one.3) AS open
        FROM (SELECT arrayJoin(pods) AS one)
        UNION ALL SELECT 1, '{_OTHERS}', concat(toString(length(others)), ' {_OTHERS}'), 'pods', others[1].2,
            arraySum(one -> one.3, others) WHERE notEmpty(others)
        UNION ALL SELECT if(one.3 = '', 3, 2), one.1, one.1, one.2, one.5, one.6
        FROM (SELECT arrayJoin(drawn) AS one)
        UNION ALL SELECT 4, {_PLANE_NODE.format(plane="one.4")} AS id, id, concat(toString(count()), ' switches'),
            multiIf(max(one.5) > 0, max(one.5), countIf(one.5 >= 0) = 0, -1, 0), 0
        FROM (SELECT arrayJoin(switches) AS one) WHERE {_HAS_PLANE_NODE} GROUP BY id
        UNION ALL SELECT 1, 'none', 'no inventory', 'in this time range', -1, 0 WHERE empty(ranked) AND empty(switches)
    )
) ORDER BY layer, id""",
    ("id", "title", "subtitle", "mainstat", "secondarystat", *ARCS.values(), "noderadius", "fixedx", "fixedy"),
)
_POD_NODE = f"if(has(named_pods, {{pod}}), {{pod}}, '{_OTHERS}')"
# An edge of a drawn switch has links that are lost; the other links belong to the edge of its pod and its plane. The
# edge between a switch and its pod has the links to hosts, which are not drawn themselves.
EDGES = Query(
    f"""WITH {_DRAWN}, arrayMap(one -> one.1, pods) AS named_pods, arrayMap(one -> one.1, drawn) AS named,
arrayMap(one -> one.5, ill) AS down,
arrayMap(one -> {_PLANE_NODE.format(plane="one.4")}, arrayFilter(one -> {_HAS_PLANE_NODE}, switches)) AS named_planes
SELECT concat(source, ' ', target) AS id, source, target,
    multiIf(links = 0 OR source = target, '', lost = 0, toString(links),
        concat(toString(links - lost), ' of ', toString(links))) AS mainstat,
    if(lost = 0, '#8E8E8E', '#D55E00') AS color, if(lost = 0, 1, 4) AS thickness,
    worst AS subject
FROM (
    SELECT source, target, sum(links_here) AS links, sum(lost_here) AS lost, max(worst_here) AS worst FROM (
    SELECT if(lost_here > 0 AND a != '', a, {_POD_NODE.format(pod="own.pod")}) AS source,
        multiIf(lost_here > 0 AND z != '', z, has(named_planes, own.plane), own.plane,
            {_POD_NODE.format(pod="own.pod")}) AS target,
        links_here, lost_here, worst_here
    FROM (
        SELECT if(has(named, links.a_device), links.a_device, '') AS a, links.pod AS pod,
            if(has(named, links.z_device), links.z_device, '') AS z,
            {_PLANE_NODE.format(plane="links.plane")} AS plane, count() AS links_here,
            countIf(has(down, links.subject)) AS lost_here,
            maxIf(links.subject, has(down, links.subject)) AS worst_here
        FROM ({FABRIC_LINKS}) AS links GROUP BY a, pod, z, plane
    ) AS own
    UNION ALL SELECT if(one.3 = '', name, {_POD_NODE.format(pod="one.3")}),
        if(one.3 = '', {_PLANE_NODE.format(plane="one.4")}, name), below.links, below.lost, below.worst
    FROM (SELECT arrayJoin(drawn) AS one, one.1 AS name) AS switches LEFT JOIN (
        SELECT z_device AS name, count() AS links, countIf(has(down, subject)) AS lost,
            maxIf(subject, has(down, subject)) AS worst
        FROM ({LINKS_TO_HOSTS.format("has(named, z_device)")}) GROUP BY name
    ) AS below ON below.name = switches.name
    WHERE one.3 IN ('', ${{pod:singlequote}})
    UNION ALL SELECT if(empty(ranked), 'none', {_POD_NODE.format(pod="ranked[1].1")}) AS source, source, 0, 0, ''
    WHERE NOT {HAS_FABRIC_LINKS} AND empty(drawn)
    ) GROUP BY source, target
) ORDER BY id LIMIT 400""",
    ("id", "source", "target", "mainstat", "color", "thickness", "subject"),
)

# Without a base URL, the Finding dashboard; else the finding's own link if it is below the base URL, or the page there.
_RUNBOOK = """multiIf(${runbooks:sqlstring} = '', concat('/d/railsight-finding?var-finding=', id),
        startsWith(runbook_url, ${runbooks:sqlstring}), runbook_url,
        concat(${runbooks:sqlstring}, 'docs/runbooks/', replaceRegexpAll(detector, '[^a-z]', '-'), '.md'))"""
_ACKNOWLEDGED = """
    SELECT subject_id AS finding_id, argMax(actor, newest) AS actor FROM (
        SELECT id, argMax(kind, kafka_offset) AS kind, argMax(subject_id, kafka_offset) AS subject_id,
            argMax(actor, kafka_offset) AS actor, argMax(until, kafka_offset) AS until, max(kafka_offset) AS newest
        FROM controls WHERE arrived_at <= $__toTime GROUP BY id
    ) WHERE kind = 'acknowledge' AND (until IS NULL OR until > $__toTime) GROUP BY finding_id"""
# The last change of each finding's severity, or of the number of hosts that it affects.
_TREND = f"""
    SELECT id, max(at) AS changed_at, argMax(if((level, extent) > (level_before, extent_before), 'worse', 'better'), at)
        AS direction
    FROM (
        SELECT id, arrived_at AS at, {LEVEL} AS level, length(hosts) AS extent,
            lagInFrame(level, 1, level) OVER before AS level_before,
            lagInFrame(extent, 1, extent) OVER before AS extent_before
        FROM findings WHERE arrived_at <= $__toTime AND id IN (SELECT id FROM {KNOWN} WHERE {OPEN} AND {CHOSEN})
        WINDOW before AS (PARTITION BY id ORDER BY revision ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
    ) WHERE (level, extent) != (level_before, extent_before) GROUP BY id"""
OPEN_FINDINGS = Query(
    f"""SELECT severity, detector AS condition, summary, {LASTS.format("lasts_s")} AS lasts,
    if(trend.direction = '', '', concat(trend.direction, ', ', {LASTS.format("changed_s")}, ' ago')) AS trend,
    concat({POD}, ifNull(concat(' rail ', toString(rail)), '')) AS place,
    {words("cause")} AS cause,
    length(hosts) AS hosts, arrayStringConcat(jobs, ', ') AS jobs,
    arrayStringConcat(arrayFilter(one -> one != '', [
        if(acknowledged.actor = '', '', concat('ack by ', acknowledged.actor)),
        if(parent_id = '', '', concat('explained by ', left(parent_id, 8)))
    ]), ', ') AS note, {_RUNBOOK} AS runbook,
    subject_id AS subject, known.id AS id, known.jobs[1] AS job
FROM (
    SELECT *, dateDiff('second', started_at, $__toTime) AS lasts_s FROM {KNOWN} WHERE {OPEN} AND {CHOSEN}
) AS known LEFT JOIN ({_ACKNOWLEDGED}
) AS acknowledged ON acknowledged.finding_id = known.id
LEFT JOIN (
    SELECT id, direction, dateDiff('second', changed_at, $__toTime) AS changed_s FROM ({_TREND})
) AS trend ON trend.id = known.id
ORDER BY parent_id != '', {LEVEL} DESC, trend.direction = 'worse' DESC, started_at DESC, known.id
LIMIT 500""",
    (
        "severity", "condition", "summary", "lasts", "trend", "place", "cause", "hosts", "jobs",
        "note", "runbook", "subject", "id", "job",
    ),
)  # fmt: skip
CRITICAL_TIMES = finding_times(f"severity = 'critical' AND parent_id = '' AND {CHOSEN}")
REMEDIATION_TIMES = remediation_times("1")
OPENED = Query(
    f"""SELECT $__timeInterval(started_at) AS time, detector AS condition, count() AS opened
FROM findings_latest AS {FILTERED}
WHERE $__timeFilter(started_at) AND {VALID} AND {CHOSEN}
GROUP BY time, condition ORDER BY time""",
    ("time", "condition", "opened"),
    series=True,
)
# Level -1 is a pod without a report from any device for a minute: neither healthy nor faulty. Devices without a pod
# form a place too.
HEALTH_PLACES = 24
HEALTH = states_over_time(
    f"""SELECT {_PLACE} AS place FROM ({_PLACES}
    ) AS places LEFT JOIN (
        SELECT arrayJoin(pods) AS pod, ifNull(rail, -1) AS lane, max({LEVEL}) AS level FROM {_FINDINGS}
        WHERE {IN_RANGE} GROUP BY pod, lane
    ) AS ill ON ill.pod = places.pod AND ill.lane = places.lane
    ORDER BY ill.level DESC, places.pod, places.lane LIMIT {HEALTH_PLACES}""",
    f"""
        SELECT {_PLACE} AS place, toUnixTimestamp(started_at) AS begin,
            ifNull(toUnixTimestamp(resolved_at), toUnixTimestamp($__toTime)) AS end, {LEVEL} AS level
        FROM (
            SELECT * EXCEPT pod, arrayJoin(pods) AS pod, ifNull(rail, -1) AS lane FROM {_FINDINGS}
            WHERE started_at <= $__toTime AND (resolved_at IS NULL OR resolved_at >= $__fromTime) AND {VALID}
        ) WHERE pod IN (${{pod:singlequote}})
        UNION ALL SELECT {_PLACE} AS place, begin, end, toInt32(0) AS level FROM (
            SELECT place AS pod, begin, end FROM (
                {reported(f"SELECT device, if(pod = '', '{NONE}', pod) AS place FROM ({DEVICES})")}
            )
        ) AS reporting INNER JOIN ({_PLACES}) AS places USING pod""",
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
    if(last_sample IS NULL, '', {LASTS.format("silent_s")}) AS silent_for,
    multiIf(source = '{NONE}', '', reachable, 'yes', 'no') AS reachable,
    if(source = '{NONE}', 'no collector reports this device', error) AS error
FROM ({_SOURCES}
) WHERE silent_s > limit_s ORDER BY silent_s DESC, device LIMIT 200""",
    ("pod", "device", "source", "last_sample", "silent_for", "reachable", "error"),
)
REMEDIATIONS = Query(
    f"""SELECT decided_at, {words("action")} AS action, {STATE} AS state, subject_id AS target,
    {CONSTRAINT} AS constraint,
    ifNull(concat(toString(round(100 * surviving_capacity_ratio, 1)), ' %'), '') AS surviving,
    {REASON} AS why
FROM {DECIDED}
WHERE $__timeFilter(decided_at) ORDER BY decided_at DESC LIMIT 200""",
    ("decided_at", "action", "state", "target", "constraint", "surviving", "why"),
)
