"""Defines the queries of the Finding dashboard: one finding with its evidence, history and remediations.

A person types `finding`, the beginning of an id suffices, or a link of another board sets it; without it, the board
shows the worst open finding, so that it is never blank.
"""

from dashboards.queries.query import (
    CONFIDENCE,
    CONSTRAINT_NAME,
    KNOWN,
    LEVEL,
    LINKS,
    OPEN,
    VALID,
    WHOLE_REASON,
    Query,
    words,
)

SHOWN = Query(
    f"""SELECT id FROM (
    SELECT id, 0 AS place, 0 AS level, started_at FROM {KNOWN}
    WHERE ${{finding:sqlstring}} != '' AND startsWith(id, ${{finding:sqlstring}})
    UNION ALL SELECT ${{finding:sqlstring}} AS id, 1, 0, NULL WHERE id != ''
    UNION ALL SELECT id, 2, {LEVEL} + 4 * (parent_id = ''), started_at FROM {KNOWN} WHERE {OPEN}
    UNION ALL SELECT id, 3, 0, started_at FROM {KNOWN} WHERE {VALID}
) ORDER BY place, level DESC, started_at DESC LIMIT 1""",
    ("id",),
)
# The finding's link, or the link at the port that it names.
SUBJECT = Query(
    f"""SELECT subject FROM (
    SELECT links.subject AS subject, links.subject != found.subject_id AS place FROM ({LINKS}) AS links CROSS JOIN (
        SELECT subject_id, arrayFilter(end -> end.2 != '', [(a_device, a_port), (z_device, z_port)]) AS ends
        FROM findings_latest WHERE id = ${{shown:sqlstring}} LIMIT 1
    ) AS found
    WHERE links.subject = found.subject_id OR has(ends, (links.a_device, links.a_port))
        OR has(ends, (links.z_device, links.z_port))
    UNION ALL SELECT '' AS subject, 2 AS place
) ORDER BY place, subject LIMIT 1""",
    ("subject",),
)
_AROUND_S = 1800

EXPLAIN = Query(
    f"""SELECT line.1 AS item, line.2 AS value, subject, id, job, begin_ms, end_ms FROM (
    SELECT subject_id AS subject, id, jobs[1] AS job, 1000 * (toUnixTimestamp(started_at) - {_AROUND_S}) AS begin_ms,
        1000 * (toUnixTimestamp(ifNull(resolved_at, $__toTime)) + {_AROUND_S}) AS end_ms, arrayJoin(arrayConcat(
        [('summary', summary), ('state', concat(status, ', ', severity)), ('subject', subject_id),
            ('since', toString(toDateTime(started_at, 'UTC'))),
            ('until', ifNull(toString(toDateTime(resolved_at, 'UTC')), ''))],
        arrayMap(statement -> ('evidence', statement), evidence),
        [('cause', {words("cause")}), ('confidence', {CONFIDENCE}),
            ('hosts', arrayStringConcat(hosts, ', ')), ('jobs', arrayStringConcat(jobs, ', ')),
            ('not seen', arrayStringConcat(coverage_missing, ', ')), ('explained by', parent_id),
            ('runbook', runbook_url)]
    )) AS line
    FROM findings_latest WHERE id = ${{shown:sqlstring}}
) WHERE line.2 != ''""",
    ("item", "value", "subject", "id", "job", "begin_ms", "end_ms"),
)
HISTORY = Query(
    f"""SELECT toDateTime(arrived_at) AS at, status, severity, summary, {words("cause")} AS cause FROM findings
WHERE id = ${{shown:sqlstring}} ORDER BY revision DESC LIMIT 100""",
    ("at", "status", "severity", "summary", "cause"),
)
CHILDREN = Query(
    """SELECT severity, detector AS condition, subject_id AS subject, summary, started_at AS since, id
FROM findings_latest WHERE parent_id = ${shown:sqlstring} AND parent_id != '' AND status != 'retracted'
ORDER BY started_at, id LIMIT 200""",
    ("severity", "condition", "subject", "summary", "since", "id"),
)
ANSWERS = Query(
    f"""SELECT decided_at, {words("action")} AS action, state, {words("verdict")} AS verdict, actor,
    {CONSTRAINT_NAME} AS constraint, {WHOLE_REASON} AS why
FROM remediations WHERE has(finding_ids, ${{shown:sqlstring}}) ORDER BY revision DESC LIMIT 100""",
    ("decided_at", "action", "state", "verdict", "actor", "constraint", "why"),
)
