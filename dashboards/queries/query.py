"""Defines the class Query, and the parts of queries that several dashboards share.

Queries use the times of Grafana's picker ($__fromTime, $__toTime), not now(), so that a board shows the past like the
present. A time series has three columns: time, name of the series, value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

NONE = "(none)"
"""The pod label of findings without a pod, so that the pod variable includes them."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query; with `series`, Grafana draws it over time."""

    sql: str
    columns: tuple[str, ...]
    series: bool = False


# In a finding, the pod of a device without a pod, such as a spine, is the device's name: the pipeline partitions by it.
POD = f"if(pod IN ('', a_device, z_device), '{NONE}', pod)"
FILTERED = "filtered"
"""The alias of findings in reads to which the ad-hoc filters of a board apply; a WHERE follows. The newest revision is
selected without the filters, so a finding does not match by an earlier revision."""
# The findings at the picker's end: a finding that was resolved later, even with an earlier end, counts as open.
KNOWN = f"""(
    SELECT * FROM findings AS {FILTERED}
    WHERE (id, revision) IN (SELECT id, max(revision) FROM findings WHERE arrived_at <= $__toTime GROUP BY id)
    LIMIT 1 BY id
)"""
VALID = "status != 'retracted' AND NOT shadow"
OPEN = f"{VALID} AND started_at <= $__toTime AND (resolved_at IS NULL OR resolved_at > $__toTime)"
IN_RANGE = f"{VALID} AND started_at <= $__toTime AND (resolved_at IS NULL OR resolved_at >= $__fromTime)"
# A count of zero is valid only with recent progress: stages report it every second, the sink writes it within 30 s.
WORKS = """(
    SELECT count() > 0 FROM progress WHERE arrived_at > $__toTime - INTERVAL 120 SECOND AND arrived_at <= $__toTime
)"""
# A source is read every 10 s, and the sink waits up to 30 s: a bucket that ends later lacks rows, and its sum is low.
WHOLE = """{0} >= toStartOfInterval($__fromTime + ($__interval_s - 1), INTERVAL $__interval_s second)
    AND {0} < toStartOfInterval($__toTime - INTERVAL 40 SECOND, INTERVAL $__interval_s second)"""
"""The condition, by the column of time, for rows in complete buckets, without the first and the last bucket."""
LEVEL = "transform(severity, ['critical', 'warning', 'info'], [3, 2, 1], 0)"
# formatReadableTimeDelta fails for some values: std::length_error for 90,000 s (chdb 26.9).
LASTS = """multiIf(
        {0} < 60, concat(toString({0}), ' s'), {0} < 3600, concat(toString(intDiv({0}, 60)), ' min'),
        {0} < 86400, concat(toString(intDiv({0}, 3600)), ' h ', toString(intDiv({0} % 3600, 60)), ' min'),
        concat(toString(intDiv({0}, 86400)), ' d ', toString(intDiv({0} % 86400, 3600)), ' h')
    )"""
"""A duration in seconds as a text."""
CONFIDENCE = "ifNull(concat(toString(round(100 * confidence)), ' %'), '')"
# The version of the inventory in effect at the picker's end.
DEVICES = (
    "SELECT name AS device, any(pod) AS pod, any(kind) AS kind, any(tier) AS tier, any(plane) AS plane,"
    " any(site) AS site, any(gpus) AS gpus FROM inventory_devices WHERE digest = (SELECT argMax(digest, effective_at)"
    " FROM inventory_devices WHERE effective_at <= $__toTime) GROUP BY name"
)
EFFECTIVE_LINKS = """FROM inventory_links
    WHERE digest = (SELECT argMax(digest, effective_at) FROM inventory_links WHERE effective_at <= $__toTime)"""
_LINK = """SELECT concat('link:', a_device, '/', a_port, '--', z_device, '/', z_port) AS subject, a_device, a_port,
    z_device, z_port, role, rail, plane, pod, speed_bps"""
LINKS = f"{_LINK} {EFFECTIVE_LINKS} LIMIT 1 BY subject, id"
_FABRIC_LINKS = f"{EFFECTIVE_LINKS} AND role = 'fabric-link' AND pod != '' AND pod IN (${{pod:singlequote}})"
FABRIC_LINKS = f"{_LINK} {_FABRIC_LINKS} LIMIT 1 BY subject, id"
"""The links between switches of the chosen pods; of a large fabric, far fewer rows are sorted than of LINKS."""
LINKS_TO_HOSTS = f"{_LINK} {EFFECTIVE_LINKS} AND role = 'host-link' AND {{0}} LIMIT 1 BY subject, id"
"""The links between hosts (a) and switches (z) that meet a condition."""
HAS_FABRIC_LINKS = f"(SELECT count() > 0 {_FABRIC_LINKS})"
IN_PODS = f"device IN (SELECT device FROM ({DEVICES}) WHERE if(pod = '', '{NONE}', pod) IN (${{pod:singlequote}}))"
"""The condition for the rows of devices in the chosen pods."""
PORTS = f"""
    SELECT arrayJoin([(a_device, a_port), (z_device, z_port)]) AS end, end.1 AS device, end.2 AS port, subject,
        speed_bps
    FROM ({LINKS})"""
"""Both ports of each link."""
# The newest revision of each remediation at the picker's end.
DECIDED = """(
    SELECT * FROM remediations
    WHERE (id, revision) IN (SELECT id, max(revision) FROM remediations WHERE arrived_at <= $__toTime GROUP BY id)
    LIMIT 1 BY id
)"""


def words(column: str) -> str:
    """Return a column with the names of an enumeration's members as a person writes them: gpu off bus."""
    return f"replaceAll({column}, '_', ' ')"


CONSTRAINT_NAME = "if(constraint_name = 'mode', 'the mode is shadow', constraint_name)"
"""The constraint, as `railsight explain` names it."""
CONSTRAINT = f"""if(constraint_name = '', '', concat({CONSTRAINT_NAME},
        ifNull(concat(' ', toString(round(constraint_observed, 3))), ''),
        ifNull(concat(', limit ', toString(round(constraint_limit, 3))), '')
    ))"""
STATE = "if(state = '', verdict, state)"
SHORT_REASON = "if(lengthUTF8(reason) > 160, concat(leftUTF8(reason, 160), '…'), reason)"
"""The reason of a decision; one that lists what an actuator restored would fill a panel. The Finding dashboard has it
whole."""
# One column, because Grafana fits the height of a row to one column: texts of others would overlap.
_WITH_REPAIR = "concat({0}, if(repair_hint = '', '', concat('; repair: ', repair_hint)))"
REASON, WHOLE_REASON = _WITH_REPAIR.format(SHORT_REASON), _WITH_REPAIR.format("reason")
OBSERVED_S = 60
"""In a timeline, a device counts as observed for this time after a sample."""


def findings_where(condition: str, *, order: str = "started_at DESC, id") -> Query:
    """Return the table of findings that were open in the time range and meet the condition."""
    return Query(
        f"""SELECT severity, detector AS condition, summary, started_at AS since,
    {LASTS.format("lasts_s")} AS lasts, if({OPEN}, 'open', 'over') AS now, {words("cause")} AS cause,
    {CONFIDENCE} AS confidence, subject_id AS subject, id
FROM (
    SELECT *, dateDiff('second', started_at, least(ifNull(resolved_at, $__toTime), $__toTime)) AS lasts_s
    FROM {KNOWN} WHERE {IN_RANGE} AND ({condition})
) ORDER BY now, {LEVEL} DESC, {order} LIMIT 200""",
        ("severity", "condition", "summary", "since", "lasts", "now", "cause", "confidence", "subject", "id"),
    )


def finding_times(condition: str) -> Query:
    """Return annotations of the findings that meet the condition, from begin to end; an open one has the picker's."""
    return Query(
        f"""SELECT started_at AS time, ifNull(resolved_at, $__toTime) AS timeEnd,
    concat(detector, ': ', summary) AS text, severity AS tags
FROM {KNOWN} WHERE {IN_RANGE} AND ({condition}) ORDER BY time LIMIT 200""",
        ("time", "timeEnd", "text", "tags"),
    )


def remediation_times(condition: str) -> Query:
    """Return annotations of the times at which a target left and returned to service."""
    return Query(
        f"""SELECT decided_at AS time, decided_at AS timeEnd,
    concat({words("action")}, ' ', subject_id, ': ', {words("state")}) AS text, state AS tags
FROM remediations
WHERE $__timeFilter(decided_at) AND state IN ('drained', 'probation', 'closed') AND ({condition})
ORDER BY time LIMIT 200""",
        ("time", "timeEnd", "text", "tags"),
    )


def states_over_time(places: str, states: str, name: str = "place") -> Query:
    """Return a timeline with the highest level of each place in each bucket; -1 without an observation.

    `places` has the column place; `states` has place, begin and end (Unix seconds), and level (0 or more). Without a
    place there is one unobserved row, because Grafana reports a missing time field for a timeline without rows.
    """
    return Query(
        f"""WITH toUInt32(greatest($__interval_s, 10)) AS step,
    intDiv(toUnixTimestamp($__fromTime), step) * step AS first, toUnixTimestamp($__toTime) AS last
SELECT toDateTime(slots.slot, 'UTC') AS time, places.place AS {name},
    if(filled.slot = 0, -1, toInt32(filled.level)) AS health
FROM (
    SELECT arrayJoin(if(empty(found), ['none is known'], found)) AS place
    FROM (SELECT groupUniqArray(place) AS found FROM ({places}
    ))
) AS places
CROSS JOIN (SELECT arrayJoin(range(first, last, step)) AS slot) AS slots
LEFT JOIN (
    SELECT place, arrayJoin(range(
        intDiv(greatest(toUInt32(begin), first), step) * step, toUInt32(least(toUInt32(end), last) + 1), step
    )) AS slot, max(level) AS level
    FROM ({states}
    ) GROUP BY place, slot
) AS filled ON filled.place = places.place AND filled.slot = slots.slot
ORDER BY time, {name}""",
        ("time", name, "health"),
        series=True,
    )


_RANGE_S = "dateDiff('second', $__fromTime, $__toTime)"
RAW_UP_TO_S, MINUTES_UP_TO_S = 3 * 3600, 3 * 86400
"""The longest ranges that are read by reading and by the minute; longer ranges are read by the hour. Three hours of a
fabric of 2,048 GPUs have 4.4 million readings of ports, three days 18 million minutes."""
WIDE_MINUTES_UP_TO_S = 12 * 3600
"""The longest range by the minute for a panel with all ports of a fabric; over 3 million rows take longer than 1 s."""


def is_by_hour(*, wide: bool) -> str:
    """Return the condition that a range is read by the hour."""
    return f"({_RANGE_S} > {WIDE_MINUTES_UP_TO_S if wide else MINUTES_UP_TO_S} OR $__interval_s >= 3600)"


_RAW = f"({_RANGE_S} <= {RAW_UP_TO_S} AND $__interval_s < 60)"
"""Selects the table of readings. The condition is a constant, so ClickHouse reads no rows of the other tables."""
_ROLLED_IN = "bucket >= $__fromTime - INTERVAL 60 SECOND AND bucket <= $__toTime"


class Hours(Enum):
    """The source of the hours of a long range."""

    PORTS = auto()
    """The rollups of ports, completed by minutes, because an hour is rolled up after its end."""
    GROUPS = auto()
    """port_groups_1h, which the caller adds (groups.py); only the time after its newest hour is read by port."""


_NEWEST_GROUP = "(SELECT max(bucket) FROM port_groups_1h)"
# A range of days ends with the newest complete hour, unless there are no groups yet (`[persist] rollups`, an upgrade).
_AFTER_GROUPS = f"""bucket >= {_NEWEST_GROUP} + INTERVAL 1 HOUR
        AND ({_RANGE_S} <= {MINUTES_UP_TO_S} OR {_NEWEST_GROUP} < $__fromTime)"""


def _rollups(table: str, wide: bool, hours: Hours) -> Sequence[tuple[str, str]]:
    """Return the rollups of a table with the condition of each."""
    is_long = is_by_hour(wide=wide)
    if hours is Hours.GROUPS:
        return ((f"{table}_1m", f"NOT {_RAW} AND (NOT {is_long} OR {_AFTER_GROUPS})"),)
    after = f"bucket >= (SELECT max(bucket) FROM {table}_1h) + INTERVAL 1 HOUR"
    return (f"{table}_1m", f"NOT {_RAW} AND (NOT {is_long} OR {after})"), (f"{table}_1h", is_long)


_RAW_IN = """sampled_at >= $__fromTime - INTERVAL 120 SECOND AND sampled_at <= $__toTime
        AND arrived_at >= $__fromTime - INTERVAL 120 SECOND"""
_MINUTES_IN = "bucket >= {0} AND bucket <= $__toTime"
RECENT_IN = """sampled_at > {0} - INTERVAL 120 SECOND AND sampled_at <= $__toTime
        AND arrived_at > {0} - INTERVAL 120 SECOND"""


def readings(columns: Sequence[str], where: str, *, wide: bool = False, hours: Hours = Hours.PORTS) -> str:
    """Return a subquery of the counters' growth since the previous reading: grown_COLUMN, and elapsed_s.

    A reset, a restart and a gap of more than ten minutes have no growth. A port with two sources has two rows.
    Long ranges come from the rollups; `wide`: the query reads all ports of a fabric.
    """
    grown = ",\n        ".join(
        f"toInt64({column}) - toInt64(lagInFrame({column}) OVER before) AS grown_{column}" for column in columns
    )
    raw = f"""
    SELECT device, row, source, sampled_at,
        dateDiff('millisecond', lagInFrame(sampled_at) OVER before, sampled_at) / 1000 AS elapsed_s,
        {grown}
    FROM samples
    WHERE {_RAW} AND {where} AND {_RAW_IN}
    WINDOW before AS (
        PARTITION BY device, row, source, boot_id ORDER BY sampled_at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW
    )"""
    rolled = [
        _increases(table, columns, f"{condition} AND {where} AND {_ROLLED_IN}")
        for table, condition in _rollups("samples", wide, hours)
    ]
    return _union([raw, *rolled])


def _increases(table: str, columns: Sequence[str], where: str) -> str:
    increases = ", ".join(f"toInt64({column}_increase) AS grown_{column}" for column in columns)
    return f"""
    SELECT device, row, source, toDateTime64(bucket, 9, 'UTC') AS sampled_at, toFloat64(observed_s) AS elapsed_s,
        {increases}
    FROM {table} WHERE {where}"""


def minutes(columns: Sequence[str], where: str, since: str) -> str:
    """Return the columns of readings() by the minute from `since` on; a port read every 10 s has a sixth of the rows.

    The last one or two minutes are missing.
    """
    return f"({_increases('samples_1m', columns, f'{_MINUTES_IN.format(since)} AND {where}')}\n)"


# The growth from the first to the last reading; NULL if the counter decreased between them.
_GROWN = """if(argMin({0}, sampled_at) = min({0}) AND argMax({0}, sampled_at) = max({0}),
            toInt64(max({0})) - toInt64(min({0})), NULL)"""


def recent_readings(columns: Sequence[str], where: str, since: str) -> str:
    """Return the columns of readings() with one row per port: the growth of counters in the last minutes.

    As in readings(), the growth begins at the last reading before `since` if the source is slow.
    """
    grown = ", ".join(f"{_GROWN.format(column)} AS grown_{column}" for column in columns)
    return f"""(
    SELECT * EXCEPT last_at, last_at AS sampled_at FROM (
        SELECT device, row, source, max(sampled_at) AS last_at,
            dateDiff('millisecond', min(sampled_at), last_at) / 1000 AS elapsed_s, {grown}
        FROM samples WHERE {where} AND {RECENT_IN.format(since)} GROUP BY device, row, source, boot_id
    )
)"""


def lane_readings(metrics: str, where: str, *, wide: bool = False, hours: Hours = Hours.PORTS) -> str:
    """Return the equivalent of readings() for indexed counters: metric, index, grown and elapsed_s."""
    raw = f"""
    SELECT device, row, source, metric, `index`, sampled_at,
        dateDiff('millisecond', lagInFrame(sampled_at) OVER before, sampled_at) / 1000 AS elapsed_s,
        toInt64(counter) - toInt64(lagInFrame(counter) OVER before) AS grown
    FROM sample_lanes
    WHERE {_RAW} AND metric IN ({metrics}) AND {where} AND {_RAW_IN}
    WINDOW before AS (
        PARTITION BY device, row, source, metric, `index` ORDER BY sampled_at
        ROWS BETWEEN 1 PRECEDING AND CURRENT ROW
    )"""
    rolled = [
        _lane_increases(table, metrics, f"{condition} AND {where} AND {_ROLLED_IN}")
        for table, condition in _rollups("sample_lanes", wide, hours)
    ]
    return _union([raw, *rolled])


def _lane_increases(table: str, metrics: str, where: str) -> str:
    return f"""
    SELECT device, row, source, metric, `index`, toDateTime64(bucket, 9, 'UTC') AS sampled_at,
        toFloat64(observed_s) AS elapsed_s, toInt64(increase) AS grown
    FROM {table} WHERE metric IN ({metrics}) AND {where}"""


def lane_minutes(metrics: str, where: str, since: str) -> str:
    """Return the equivalent of minutes() for indexed counters: metric, index, grown and elapsed_s."""
    return f"({_lane_increases('sample_lanes_1m', metrics, f'{_MINUTES_IN.format(since)} AND {where}')}\n)"


def _union(selects: Sequence[str]) -> str:
    return "({}\n)".format("\n    UNION ALL".join(selects))


def lane_gauges(metrics: str, where: str, *, wide: bool = False) -> str:
    """Return a subquery of indexed gauges: device, row, source, metric, index, at, and the lowest and highest value."""
    tables = [("sample_lanes", "sampled_at", "gauge", "gauge", _RAW, _RAW_IN)]
    for table, condition in _rollups("sample_lanes", wide, Hours.PORTS):
        tables.append((table, "bucket", "value_min", "value_max", condition, _ROLLED_IN))
    rows = [
        f"SELECT device, row, source, metric, `index`, toDateTime64({time}, 9, 'UTC') AS at, toFloat64({lowest}) AS"
        f" lowest, toFloat64({highest}) AS highest FROM {table} WHERE {condition} AND metric IN ({metrics}) AND {where}"
        f" AND {lowest} IS NOT NULL AND {in_time}"
        for table, time, lowest, highest, condition, in_time in tables
    ]
    return "(\n    {}\n)".format("\n    UNION ALL ".join(rows))


def usable(*, wide: bool = False) -> str:
    """Return the condition for the rows of readings() with a valid growth."""
    return f"elapsed_s > 0 AND (elapsed_s <= 600 OR {is_by_hour(wide=wide)}) AND sampled_at >= $__fromTime"


USABLE = usable()
OF_ALL_PORTS = f"{usable(wide=True)} AND {WHOLE.format('sampled_at')}"
"""The condition for a sum over the ports of a fabric: only buckets in which all ports were read."""


def port_states(where: str) -> str:
    """Return a subquery of the states of ports: device, row, begin (Unix seconds), lasts_s, and is_down.

    In the rollups, a port that was down within a minute or an hour counts as down for all of it.
    """
    slots = [
        f"SELECT DISTINCT device, row, intDiv(toUnixTimestamp(sampled_at), 10) * 10 AS begin, {OBSERVED_S} AS lasts_s,"
        f" admin_up != 0 AND oper_up = 0 AS is_down FROM samples WHERE {_RAW} AND {where}"
        " AND $__timeFilter(sampled_at) AND arrived_at >= $__fromTime AND oper_up IS NOT NULL"
    ]
    for (table, condition), step_s in zip(_rollups("samples", wide=False, hours=Hours.PORTS), (60, 3600), strict=True):
        slots.append(
            f"SELECT device, row, toUnixTimestamp(bucket) AS begin, {step_s + OBSERVED_S} AS lasts_s,"
            f" admin_up_max != 0 AND oper_up_min = 0 AS is_down FROM {table} WHERE {condition} AND {where}"
            f" AND {_ROLLED_IN} AND oper_up_min IS NOT NULL"
        )
    return "(\n    {}\n)".format("\n    UNION ALL ".join(slots))


def rates(ends: str, metrics: Sequence[tuple[str, str, float]], where: str, *, counts: bool = False) -> Query:
    """Return a time series of counters of the ports of `ends` (place, device, port).

    Each metric is a name, a column, and the factor of its unit. A rate is per second; with `counts`, values are sums.
    """
    listed = ", ".join(f"('{name}', {factor:g} * grown_{column})" for name, column, factor in metrics)
    value = "sum(metric.2) / uniqExact(source)" if counts else "sum(metric.2) / sum(elapsed_s)"
    return Query(
        f"""SELECT $__timeInterval(sampled_at) AS time, concat(place, metric.1) AS series, {value} AS rate
FROM (
    SELECT sampled_at, source, elapsed_s, ends.place AS place, arrayJoin([{listed}]) AS metric
    FROM {readings([column for _, column, _ in metrics], where)} AS readings
    INNER JOIN ({ends}
    ) AS ends ON ends.device = readings.device AND ends.port = readings.row
    WHERE {USABLE}
) WHERE metric.2 >= 0
GROUP BY time, series ORDER BY time, series""",
        ("time", "series", "rate"),
        series=True,
    )


def port_gauges(metrics: Sequence[tuple[str, str]], where: str, *, wide: bool = False) -> str:
    """Return a subquery of the highest values of gauges: device, row, at, and the metric as its name and value."""
    tables = [("samples", "sampled_at", "", _RAW, "$__timeFilter(sampled_at) AND arrived_at >= $__fromTime")]
    for table, condition in _rollups("samples", wide=wide, hours=Hours.PORTS):
        tables.append((table, "bucket", "_max", condition, _ROLLED_IN))
    rows = []
    for table, time, suffix, condition, in_time in tables:
        listed = ", ".join(f"('{name}', toFloat64({column}{suffix}))" for name, column in metrics)
        rows.append(
            f"SELECT device, row, toDateTime64({time}, 9, 'UTC') AS at, arrayJoin([{listed}]) AS metric FROM {table}"
            f" WHERE {condition} AND {where} AND {in_time}"
        )
    return "(\n    {}\n)".format("\n    UNION ALL ".join(rows))


def gauges(ends: str, metrics: Sequence[tuple[str, str]], where: str) -> Query:
    """Return a time series of the highest value per bucket of gauges of the ports of `ends` (place, device, port).

    Each metric is a name and a column. Zero is not drawn, because a logarithmic axis has no zero.
    """
    return Query(
        f"""SELECT $__timeInterval(at) AS time, concat(ends.place, metric.1) AS series, max(metric.2) AS value
FROM {port_gauges(metrics, where)} AS readings INNER JOIN ({ends}
) AS ends ON ends.device = readings.device AND ends.port = readings.row
WHERE metric.2 > 0 AND at >= $__fromTime
GROUP BY time, series ORDER BY time, series""",
        ("time", "series", "value"),
        series=True,
    )
