"""Defines the query of what changed in the time range: findings, decisions, controls, inventory, devices and jobs."""

from dashboards.queries.fabric import CHOSEN
from dashboards.queries.job import PLACEMENTS
from dashboards.queries.query import FILTERED, IN_PODS, SHORT_REASON, STATE, Query, words

_DEVICE = f"{IN_PODS} AND ${{device:sqlstring}} IN ('', device)"
_HOSTS = "concat(toString(uniqExact(device)), ' hosts')"
# Two sources may report one reboot, and a source may compute the time of the boot again at each reading.
_SAME_BOOT_S = 300
_BOOTS = f"""
    SELECT at, device FROM (
        SELECT at, device, lagInFrame(at, 1, toDateTime(0, 'UTC')) OVER (
            PARTITION BY device ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW
        ) AS before
        FROM (
            SELECT DISTINCT toDateTime(assumeNotNull(booted_at), 'UTC') AS at, device FROM facts
            WHERE booted_at IS NOT NULL AND arrived_at >= $__fromTime AND observed_at <= $__toTime AND {_DEVICE}
            UNION DISTINCT SELECT toDateTime(at, 'UTC') AS at, device FROM events
            WHERE kind = 'device_reboot' AND arrived_at >= $__fromTime AND {_DEVICE}
        ) WHERE $__timeFilter(at)
    ) WHERE dateDiff('second', before, at) > {_SAME_BOOT_S}"""
_VERSIONS = f"""
    SELECT observed_at, device, model, os_version, before FROM (
        SELECT observed_at, device, model, os_version, lagInFrame(os_version) OVER (
            PARTITION BY device, source ORDER BY observed_at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW
        ) AS before
        FROM facts WHERE os_version != '' AND observed_at <= $__toTime AND {_DEVICE}
            AND arrived_at >= $__fromTime - INTERVAL 1 DAY
    ) WHERE before NOT IN ('', os_version) AND $__timeFilter(observed_at)"""
CHANGES = Query(
    f"""SELECT at, what, severity, subject, text, id FROM (
    SELECT min(arrived_at) AS at, concat('finding ', if(status = 'open', 'opened', status)) AS what,
        argMin(level_text, revision) AS severity, any(subject_id) AS subject, argMin(summary, revision) AS text, id
    FROM (
        SELECT *, severity AS level_text FROM findings AS {FILTERED}
        WHERE NOT shadow AND parent_id = '' AND status IN ('open', 'resolved', 'retracted') AND {CHOSEN}
            AND $__timeFilter(arrived_at)
    ) GROUP BY id, status
    UNION ALL SELECT arrived_at AS at, concat({words("action")}, ' ', {words(STATE)}) AS what, '' AS severity,
        subject_id AS subject, {SHORT_REASON} AS text, finding_ids[1] AS id
    FROM remediations WHERE $__timeFilter(arrived_at) AND {STATE} != 'shadow'
    UNION ALL SELECT min(arrived_at) AS at, 'inventory' AS what, '' AS severity, left(digest, 12) AS subject,
        concat(toString(count()), ' devices in effect') AS text, '' AS id
    FROM inventory_devices WHERE $__timeFilter(effective_at) GROUP BY digest
    UNION ALL SELECT arrived_at AS at, {words("kind")} AS what, '' AS severity, subject_id AS subject,
        concat(actor, ': ', reason) AS text, '' AS id
    FROM controls WHERE $__timeFilter(arrived_at)
    UNION ALL SELECT max(observed_at) AS at, 'roll-out' AS what, '' AS severity,
        if(uniqExact(device) = 1, any(device), concat(toString(uniqExact(device)), ' devices')) AS subject,
        concat(if(model = '', '', concat(model, ': ')), before, ' to ', os_version, if(uniqExact(device) = 1, '',
            concat(', since ', toString(toDateTime(min(observed_at), 'UTC')), ' UTC'))) AS text, '' AS id
    FROM ({_VERSIONS}
    ) GROUP BY model, before, os_version, toStartOfHour(observed_at)
    UNION ALL SELECT at, 'reboot' AS what, '' AS severity, device AS subject, 'started again' AS text, '' AS id
    FROM ({_BOOTS}
    )
    UNION ALL SELECT min(events.at) AS at, if(kind = 'admin_down', 'shut', 'opened again') AS what, '' AS severity,
        device AS subject, concat('ports ', arrayStringConcat(arraySlice(arraySort(groupUniqArray(port)), 1, 8), ', '),
            if(uniqExact(port) > 8, concat(' and ', toString(uniqExact(port) - 8), ' more'), '')) AS text, '' AS id
    FROM events WHERE kind IN ('admin_down', 'admin_up') AND $__timeFilter(events.at) AND arrived_at >= $__fromTime
        AND {_DEVICE} GROUP BY device, kind, toStartOfMinute(events.at)
    UNION ALL SELECT edge.1 AS at, edge.2 AS what, '' AS severity, job AS subject, {_HOSTS} AS text, '' AS id
    FROM (
        SELECT job, device, arrayJoin([(start, 'job began'), (assumeNotNull(ifNull(end, toDateTime64(0, 9, 'UTC'))),
            'job ended')]) AS edge
        FROM ({PLACEMENTS}
        ) WHERE ${{job:sqlstring}} IN ('', job) AND ${{device:sqlstring}} IN ('', device)
    ) WHERE edge.1 >= $__fromTime AND edge.1 <= $__toTime GROUP BY job, edge
) ORDER BY at DESC, id LIMIT 300""",
    ("at", "what", "severity", "subject", "text", "id"),
)
