"""Defines the queries of the Remediation dashboard: decisions and their reasons, surviving capacity, and results."""

from dashboards.queries.query import (
    CONSTRAINT,
    CONSTRAINT_NAME,
    DECIDED,
    KNOWN,
    LINKS,
    OPEN,
    REASON,
    STATE,
    WORKS,
    Query,
    words,
)

_OVER = "('closed', 'denied', 'expired', 'shadow', 'failed')"
COUNTS = Query(
    f"""SELECT if({WORKS}, countIf({STATE} = 'waiting'), NULL) AS waiting,
    if({WORKS}, countIf({STATE} IN ('approved', 'accepted', 'restoring')), NULL) AS in_progress,
    if({WORKS}, countIf({STATE} IN ('drained', 'verifying', 'probation')), NULL) AS out_of_service,
    if({WORKS}, countIf({STATE} IN ('escalated', 'no_answer')), NULL) AS need_a_person
FROM {DECIDED}""",
    ("waiting", "in_progress", "out_of_service", "need_a_person"),
)
# The kill switches that have not ended.
KILL_SWITCH = Query(
    f"""SELECT if({WORKS}, countIf(kind = 'kill_switch' AND (until IS NULL OR until > $__toTime)), NULL) AS active
FROM (
    SELECT id, argMax(kind, kafka_offset) AS kind, argMax(until, kafka_offset) AS until
    FROM controls WHERE arrived_at <= $__toTime GROUP BY id
)""",
    ("active",),
)
DECISIONS = Query(
    f"""SELECT $__timeInterval(at) AS time, {words("kind")} AS state, count() AS decisions FROM (
    SELECT assumeNotNull(decided_at) AS at, {STATE} AS kind FROM remediations WHERE $__timeFilter(decided_at)
) GROUP BY time, state ORDER BY time, state""",
    ("time", "state", "decisions"),
    series=True,
)
CONSTRAINTS = Query(
    f"""SELECT {CONSTRAINT_NAME} AS constraint, count() AS times, uniqExact(id) AS remediations,
    any(guard) AS guard, argMax({CONSTRAINT}, decided_at) AS newest, argMax(subject_id, decided_at) AS target
FROM remediations WHERE $__timeFilter(decided_at) AND constraint_name != ''
GROUP BY constraint ORDER BY times DESC, constraint LIMIT 50""",
    ("constraint", "times", "remediations", "guard", "newest", "target"),
)
# The drained or down links; CAPACITY has the surviving uplinks of each switch, plane and rail.
_LOST = f"""
    SELECT subject_id FROM {DECIDED} WHERE {STATE} IN ('drained', 'verifying', 'restoring')
    UNION DISTINCT SELECT subject_id FROM {KNOWN} WHERE {OPEN} AND detector = 'link/down'"""
CAPACITY = Query(
    f"""SELECT name AS place, count() AS links, countIf(is_lost) AS lost, 1 - lost / links AS surviving FROM (
    SELECT subject IN ({_LOST}
        ) AS is_lost, arrayJoin(arrayFilter(name -> name != '', [
            if(role = 'fabric-link', concat('switch ', a_device), ''),
            if(role = 'fabric-link', concat('switch ', z_device), ''),
            if(plane IS NULL, '', concat('plane ', toString(assumeNotNull(plane)))),
            if(rail IS NULL, '', concat('rail ', toString(assumeNotNull(rail))))
        ])) AS name
    FROM ({LINKS})
) GROUP BY place ORDER BY surviving, place LIMIT 100""",
    ("place", "links", "lost", "surviving"),
)
# A revision lasts until the next one of its remediation, the newest one until the picker's end.
TIME_IN_STATE = Query(
    f"""SELECT state, count() AS times, quantileExact(0.5)(lasts_s) AS middle_s, max(lasts_s) AS longest_s,
    countIf(is_newest) AS now
FROM (
    SELECT {STATE} AS state, id, assumeNotNull(decided_at) AS since,
        leadInFrame(assumeNotNull(decided_at), 1, toDateTime64($__toTime, 9, 'UTC')) OVER after AS until,
        leadInFrame(1, 1, 0) OVER after = 0 AS is_newest, dateDiff('second', since, until) AS lasts_s
    FROM (SELECT * FROM remediations WHERE decided_at IS NOT NULL AND arrived_at <= $__toTime LIMIT 1 BY id, revision)
    WINDOW after AS (PARTITION BY id ORDER BY revision ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)
) WHERE until >= $__fromTime AND (NOT is_newest OR state NOT IN {_OVER})
GROUP BY state ORDER BY now DESC, times DESC""",
    ("state", "times", "middle_s", "longest_s", "now"),
)
HELPED = Query(
    f"""SELECT if(repair_step = '', 'unknown', {words("repair_step")}) AS step, countIf(outcome = 'helped') AS helped,
    countIf(outcome = 'not_qualified') AS not_qualified, countIf(outcome = 'relapsed') AS relapsed,
    helped / count() AS share
FROM (
    SELECT id, any(if(outcome_step = '', repair_step, outcome_step)) AS repair_step, repair_outcome AS outcome FROM (
        SELECT *, JSONExtractString(json, 'outcomeStep') AS step, lower(step) AS outcome_step FROM remediations
        WHERE repair_outcome != '' AND arrived_at <= $__toTime AND arrived_at >= $__toTime - INTERVAL 90 DAY
    ) GROUP BY id, outcome
) GROUP BY step ORDER BY count() DESC, step""",
    ("step", "helped", "not_qualified", "relapsed", "share"),
)
# The findings that were acted on: findings that resolved afterwards, and findings that recurred.
RECURRED = Query(
    f"""SELECT {words("action")} AS action, uniqExact(id) AS times, uniqExactIf(id, over_after) AS over_after,
    uniqExactIf(id, came_back) AS came_back
FROM (
    SELECT acted.action AS action, acted.id AS id, known.resolved_at >= acted.at AS over_after,
        known.started_at > acted.at + INTERVAL 60 SECOND AS came_back
    FROM (
        SELECT id, any(action) AS action, any(subject_id) AS subject_id, min(decided_at) AS at FROM remediations
        WHERE state IN ('drained', 'closed') AND $__timeFilter(decided_at) GROUP BY id
    ) AS acted LEFT JOIN (
        SELECT subject_id, started_at, resolved_at FROM {KNOWN} WHERE status != 'retracted' AND NOT shadow
    ) AS known ON known.subject_id = acted.subject_id
) GROUP BY action ORDER BY times DESC""",
    ("action", "times", "over_after", "came_back"),
)
REMEDIATIONS = Query(
    f"""SELECT decided_at, {words("action")} AS action, {STATE} AS state, subject_id AS target,
    {CONSTRAINT} AS constraint,
    ifNull(concat(toString(round(100 * surviving_capacity_ratio, 1)), ' %'), '') AS surviving, actor,
    {REASON} AS why, finding_ids[1] AS finding
FROM {DECIDED}
WHERE $__timeFilter(decided_at) OR {STATE} NOT IN {_OVER} ORDER BY decided_at DESC LIMIT 200""",
    ("decided_at", "action", "state", "target", "constraint", "surviving", "actor", "why", "finding"),
)
WAITING = Query(
    f"""SELECT decided_at, {words("action")} AS action, {STATE} AS state, subject_id AS target,
    concat('railsight ', if(state = 'waiting', 'approve', 'remediations'), ' ', id) AS command, reason,
    finding_ids[1] AS finding
FROM {DECIDED} WHERE {STATE} IN ('waiting', 'escalated', 'no_answer')
ORDER BY state = 'waiting' DESC, decided_at LIMIT 100""",
    ("decided_at", "action", "state", "target", "command", "reason", "finding"),
)
CONTROLS = Query(
    f"""SELECT kind, if(subject_id = '', 'everything', subject_id) AS subject, actor, reason, at, until FROM (
    SELECT id, {words("argMax(kind, kafka_offset)")} AS kind, argMax(subject_id, kafka_offset) AS subject_id,
        argMax(actor, kafka_offset) AS actor, argMax(reason, kafka_offset) AS reason, argMax(controls.at, kafka_offset)
        AS at, argMax(until, kafka_offset) AS until
    FROM controls WHERE arrived_at <= $__toTime GROUP BY id
) WHERE kind IN ('kill switch', 'maintenance', 'exclude', 'approve', 'reject', 'repaired')
    AND (until IS NULL OR until > $__fromTime)
ORDER BY kind = 'kill switch' DESC, at DESC LIMIT 100""",
    ("kind", "subject", "actor", "reason", "at", "until"),
)
