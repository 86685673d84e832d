"""Defines the queries of the Repair desk dashboard: the order of repairs with their places, and failure-prone parts."""

from dashboards.queries.link import FORECASTS
from dashboards.queries.query import DECIDED, KNOWN, LASTS, LEVEL, OPEN, STATE, VALID, WORKS, Query, words

# The newest score of each subject; scores of the last 28 days (railsight lemons --publish) have an end in the range.
_SCORES = """(
    SELECT kind, subject_id, argMax(part_kind, kafka_offset) AS part_kind, argMax(events, kafka_offset) AS faults,
        argMax(exposure, kafka_offset) AS exposed, argMax(fleet_events, kafka_offset) AS fleet_faults,
        argMax(fleet_exposure, kafka_offset) AS fleet_exposed, argMax(lemons.ratio, kafka_offset) AS ratio,
        argMax(ratio_low, kafka_offset) AS low, argMax(ratio_high, kafka_offset) AS high,
        argMax(failed_repairs, kafka_offset) AS failed_repairs, argMax(relapses, kafka_offset) AS relapses,
        argMax(lemons.until, kafka_offset) AS until
    FROM lemons WHERE arrived_at <= $__toTime GROUP BY kind, subject_id
)"""
COUNTS = Query(
    f"""SELECT if({WORKS}, (SELECT uniqExact(subject_id) FROM {DECIDED}
        WHERE {STATE} IN ('drained', 'escalated') OR (action = 'repair_link' AND {STATE} IN ('approved', 'accepted',
            'no_answer'))), NULL) AS to_repair,
    if((SELECT count() FROM lemons) = 0, NULL, (SELECT countIf(low > 1) FROM {_SCORES})) AS lemons,
    if({WORKS}, (SELECT count() FROM ({FORECASTS}
    )), NULL) AS forecasts""",
    ("to_repair", "lemons", "forecasts"),
)
# Drained and escalated targets and open repair orders, sorted by penalty.
FIRST = Query(
    f"""SELECT penalty, subject_id AS subject, part_number, {words("repair_step")} AS step, repair_hint AS hint,
    {STATE} AS state, {LASTS.format("waits_s")} AS waits,
    concat(if(pod = '', '', concat(pod, ' ')), a_device, if(a_port = '', '',
    concat('/', a_port))) AS place, finding_ids[1] AS finding
FROM (SELECT *, dateDiff('second', assumeNotNull(decided_at), $__toTime) AS waits_s FROM {DECIDED})
WHERE {STATE} IN ('drained', 'escalated') OR (action = 'repair_link'
    AND {STATE} IN ('approved', 'accepted', 'no_answer'))
ORDER BY penalty IS NULL, penalty DESC, decided_at LIMIT 100""",
    ("penalty", "subject", "part_number", "step", "hint", "state", "waits", "place", "finding"),
)
LEMONS = Query(
    f"""SELECT if(low > 1, 'lemon', '') AS mark, kind, subject_id AS subject, faults, ratio, low, high, failed_repairs,
    relapses
FROM {_SCORES} WHERE kind IN ('link', 'host') AND faults > 0
ORDER BY low DESC NULLS LAST, faults DESC, subject LIMIT 50""",
    ("mark", "kind", "subject", "faults", "ratio", "low", "high", "failed_repairs", "relapses"),
)
COHORTS = Query(
    f"""SELECT if(low > 1, 'lemon', '') AS mark, kind, part_kind, subject_id AS subject, faults, exposed, fleet_faults,
    fleet_exposed, ratio, low, high
FROM {_SCORES} WHERE kind IN ('part', 'firmware')
ORDER BY low DESC NULLS LAST, faults DESC, subject LIMIT 50""",
    (
        "mark", "kind", "part_kind", "subject", "faults", "exposed", "fleet_faults", "fleet_exposed", "ratio", "low",
        "high",
    ),
)  # fmt: skip
FORECAST = Query(
    f"""SELECT subject_id AS subject, metric, value, target AS threshold,
    toDateTime(assumeNotNull(at_s), 'UTC') AS reaches, toDateTime(assumeNotNull(earliest_s), 'UTC') AS earliest,
    toDateTime(assumeNotNull(latest_s), 'UTC') AS latest, id
FROM ({FORECASTS}
) ORDER BY reaches, subject LIMIT 100""",
    ("subject", "metric", "value", "threshold", "reaches", "earliest", "latest", "id"),
)
REPAIRS = Query(
    f"""SELECT if(part_number = '', 'unknown', part_number) AS part, {words("cause")} AS cause,
    {words("repair_step")} AS step,
    countIf(repair_outcome = 'helped') AS helped, countIf(repair_outcome != 'helped') AS did_not,
    helped / count() AS share
FROM (
    SELECT id, repair_outcome, any(part_number) AS part_number, any(cause) AS cause, any(repair_step) AS repair_step
    FROM remediations WHERE repair_outcome != '' AND arrived_at <= $__toTime
        AND arrived_at >= $__toTime - INTERVAL 90 DAY
    GROUP BY id, repair_outcome
) GROUP BY part, cause, step ORDER BY count() DESC, part, step LIMIT 100""",
    ("part", "cause", "step", "helped", "did_not", "share"),
)
# The fleet has the facts of the last two days of the range, as for lemons.
FLEET = Query(
    """SELECT kind, part, firmware, count() AS pieces, uniqExact(device) AS devices FROM (
    SELECT device, component.1 AS name, argMax(component.2, observed_at) AS kind,
        argMax(component.3, observed_at) AS part, argMax(component.4, observed_at) AS firmware
    FROM (
        SELECT device, observed_at, arrayJoin(arrayZip(
            components.name, components.kind, components.part_number, components.firmware
        )) AS component
        FROM facts WHERE observed_at > $__toTime - INTERVAL 2 DAY AND observed_at <= $__toTime
    ) GROUP BY device, name
) GROUP BY kind, part, firmware ORDER BY kind, pieces DESC LIMIT 100""",
    ("kind", "part", "firmware", "pieces", "devices"),
)
OFFENDERS = Query(
    f"""SELECT subject_id AS subject, count() AS findings,
    arrayStringConcat(arraySort(groupUniqArray(detector)), ', ') AS conditions,
    countIf({OPEN}) AS open, max(started_at) AS newest, {words("argMax(cause, started_at)")} AS cause,
    concat(any(pod), ' ', any(a_device), if(any(a_port) = '', '', concat('/', any(a_port)))) AS place
FROM {KNOWN}
WHERE {VALID} AND parent_id = '' AND started_at <= $__toTime AND started_at > $__toTime - INTERVAL 28 DAY
    AND {LEVEL} >= 2 AND match(detector, '^(link|host|rail|device)/')
GROUP BY subject ORDER BY findings DESC, newest DESC, subject LIMIT 50""",
    ("subject", "findings", "conditions", "open", "newest", "cause", "place"),
)
