"""Defines the queries of the Finding dashboard: one finding with its evidence, history and remediations."""

from dashboards.queries.query import CONFIDENCE, Query

EXPLAIN = Query(
    f"""SELECT line.1 AS item, line.2 AS value, subject FROM (
    SELECT subject_id AS subject, arrayJoin(arrayConcat(
        [('summary', summary), ('state', concat(status, ', ', severity)), ('subject', subject_id),
            ('since', toString(toDateTime(started_at, 'UTC'))),
            ('until', ifNull(toString(toDateTime(resolved_at, 'UTC')), ''))],
        arrayMap(statement -> ('evidence', statement), evidence),
        [('cause', cause), ('confidence', {CONFIDENCE}),
            ('hosts', arrayStringConcat(hosts, ', ')), ('jobs', arrayStringConcat(jobs, ', ')),
            ('not seen', arrayStringConcat(coverage_missing, ', ')), ('explained by', parent_id),
            ('runbook', runbook_url)]
    )) AS line
    FROM findings_latest WHERE id = ${{finding:sqlstring}}
) WHERE line.2 != ''""",
    ("item", "value", "subject"),
)
HISTORY = Query(
    """SELECT toDateTime(arrived_at) AS at, status, severity, summary, cause FROM findings
WHERE id = ${finding:sqlstring} ORDER BY revision DESC LIMIT 100""",
    ("at", "status", "severity", "summary", "cause"),
)
CHILDREN = Query(
    """SELECT severity, detector AS condition, subject_id AS subject, summary, started_at AS since, id
FROM findings_latest WHERE parent_id = ${finding:sqlstring} AND parent_id != '' AND status != 'retracted'
ORDER BY started_at, id LIMIT 200""",
    ("severity", "condition", "subject", "summary", "since", "id"),
)
ANSWERS = Query(
    """SELECT decided_at, action, state, verdict, actor, reason, constraint_name AS constraint, repair_hint
FROM remediations WHERE has(finding_ids, ${finding:sqlstring}) ORDER BY revision DESC LIMIT 100""",
    ("decided_at", "action", "state", "verdict", "actor", "reason", "constraint", "repair_hint"),
)
