"""Defines the queries of the Job dashboard: the verdict on the network during the life of one job, and the coverage.

The life ends at the limits of the time range; `railsight job` computes the same with the gaps of every port.
"""

from collections.abc import Iterable
from enum import IntEnum

from dashboards.queries.carried import carried, host_ports
from dashboards.queries.groups import groups
from dashboards.queries.messages import FIRST_MINUTE, minutes, reported
from dashboards.queries.presence import filled_by
from dashboards.queries.query import (
    DEVICES,
    KNOWN,
    LEVEL,
    VALID,
    WORKS,
    Hours,
    Query,
    finding_times,
    findings_where,
    states_over_time,
)
from streams.report.job.impact import HOST_CAUSES, HOST_CONDITIONS, NEUTRAL_CONDITIONS
from streams.store.enum_labels import enum_label
from streams.wire.models import Condition


def _labels(members: Iterable[IntEnum]) -> str:
    return ", ".join(f"'{enum_label(member)}'" for member in sorted(members))


PLACEMENTS = """
        SELECT job, device, start, end FROM inventory_jobs WHERE effective_at <= $__toTime
            AND digest = (SELECT argMax(digest, effective_at) FROM inventory_jobs WHERE effective_at <= $__toTime)
        UNION ALL SELECT job, device, argMax(start, kafka_offset) AS start,
            tupleElement(argMax(tuple(end), kafka_offset), 1) AS end
        FROM jobs WHERE arrived_at <= $__toTime GROUP BY job, device, run"""
"""The hosts of each job with their times, from the inventory and the scheduler's messages: job, device, start, end."""
_IN_TIME = "start <= $__toTime AND (end IS NULL OR end >= $__fromTime)"
# Running jobs come first, the largest of them at the top.
JOBS = Query(
    f"""SELECT job FROM ({PLACEMENTS}
) WHERE {_IN_TIME} GROUP BY job
ORDER BY max(end IS NULL OR end > $__toTime) DESC, uniqExact(device) DESC, job LIMIT 1000""",
    ("job",),
)
NOTE = filled_by(
    f"""SELECT uniqExact(job) AS counted FROM ({PLACEMENTS}
) WHERE {_IN_TIME}""",
    "Jobs that ran in this time range",
    "No job is known in this time range. Rows of jobs.csv in the inventory fill this board, or railsight collect jobs,"
    " which reads Slurm or Kubernetes.",
)
_JOB = "${job:sqlstring}"
_HOSTS = f"""
        SELECT DISTINCT device, greatest(start, $__fromTime) AS since, least(ifNull(end, $__toTime), $__toTime) AS until
        FROM ({PLACEMENTS}) WHERE job = {_JOB} AND {_IN_TIME}"""
_AFFECTS = (
    f"has(jobs, {_JOB}) AND started_at <= (SELECT max(until) FROM ({_HOSTS})) AND (resolved_at IS NULL OR"
    f" resolved_at >= (SELECT min(since) FROM ({_HOSTS})))"
)
# A port is observed while its host or its switch is read, as in `railsight job`.
_PORTS = host_ports(f"a_device IN (SELECT device FROM ({_HOSTS}))")
_SEEN_BY = f"""
        SELECT DISTINCT place, one AS device FROM (
            SELECT ports.device AS place, arrayJoin([ports.device, ports.z_device]) AS one FROM ({_PORTS}) AS ports
            UNION ALL SELECT device AS place, device AS one FROM ({_HOSTS})
        )"""
# A scalar, so that ClickHouse computes it once.
_OF_READERS = f"device IN (SELECT arrayJoin((SELECT groupUniqArray(device) FROM ({_SEEN_BY}))))"
# A port is observed in the minutes of both its readers, from the placement's begin to its end. The sum of its hours
# lacks the minutes before the begin in the first hour, and after the end in the last.
_BEGIN, _END = (f"intDiv(toUnixTimestamp({one}), 60) - {FIRST_MINUTE}" for one in ("since", "until"))
_MINUTES = f"""
    SELECT device, avg(least(1, (
            arraySum(word -> bitCount(word), arraySlice(words, first + 1, last - first + 1))
            - bitCount(bitAnd(words[first + 1], bitShiftLeft(toUInt64(1), begin % 60) - 1))
            - bitCount(bitShiftRight(words[last + 1], end % 60 + 1))
        ) / greatest(intDiv(lasts_s, 60), 1))) AS share,
        max(newest) AS newest
    FROM (
        SELECT ports.device AS device, ports.port AS port, any(hosts.since) AS since, any(hosts.until) AS until,
            greatest(dateDiff('second', since, until), 1) AS lasts_s,
            toUInt32({_BEGIN}) AS begin, toUInt32({_END}) AS end, intDiv(begin, 60) AS first, intDiv(end, 60) AS last,
            groupBitOrForEach(seen.words) AS words, max(seen.newest) AS newest
        FROM (
            SELECT ports.device AS device, ports.port AS port, arrayJoin([ports.device, ports.z_device]) AS reader
            FROM ({_PORTS}) AS ports
        ) AS ports
        INNER JOIN ({_HOSTS}) AS hosts ON hosts.device = ports.device
        LEFT JOIN {minutes(_OF_READERS)} AS seen ON seen.device = ports.reader
        GROUP BY device, port
    ) GROUP BY device"""
COVERAGE = Query(f"SELECT if(count() = 0, NULL, avg(share)) AS seen FROM ({_MINUTES}\n)", ("seen",))
# Excludes faults of hosts, like streams/report/job/impact.py: they stop a job too, but are not faults of the network.
_OF_NETWORK = (
    f"condition NOT IN ({_labels(HOST_CONDITIONS | NEUTRAL_CONDITIONS)})"
    " AND NOT (condition = 'device_down' AND role = 'host')"
    f" AND (cause NOT IN ({_labels(HOST_CAUSES)})"
    f" OR condition IN ({_labels(one for one in Condition if one.is_congestion)}))"
)
# 0: clean; 1: not known, because an unobserved network is not clean; 2: affected by warnings; 3: by criticals.
VERDICT = Query(
    f"""SELECT multiIf(hosts = 0, NULL, level >= 2, level, seen < 0.95, 1, 0) AS verdict FROM (
    SELECT (SELECT count() FROM ({_HOSTS})) AS hosts, (SELECT avg(share) FROM ({_MINUTES}
    )) AS seen, (
        SELECT max({LEVEL}) FROM {KNOWN}
        WHERE {VALID} AND parent_id = '' AND started_at <= $__toTime AND {_OF_NETWORK} AND {_AFFECTS}
    ) AS level
)""",
    ("verdict",),
)
SIZE = Query(
    f"""SELECT uniqExact(hosts.device) AS hosts, sum(devices.gpus) AS gpus,
    dateDiff('second', min(since), max(until)) AS observed_s
FROM ({_HOSTS}) AS hosts LEFT JOIN ({DEVICES}) AS devices ON devices.device = hosts.device
HAVING hosts > 0""",
    ("hosts", "gpus", "observed_s"),
)
# The GPU time of the affected hosts while a root finding was open, multiplied by the lost share of capacity.
LOST = Query(
    f"""SELECT if((SELECT count() FROM ({_HOSTS})) = 0 OR NOT {WORKS}, NULL,
    sum(gpus * lasts_s * lost) / 3600) AS gpu_hours
FROM (
    SELECT known.id AS id, sum(devices.gpus) AS gpus, any(known.lost) AS lost, any(known.lasts_s) AS lasts_s FROM (
        SELECT id, arrayJoin(hosts) AS host, ifNull(capacity_lost_ratio, 0) AS lost,
            greatest(dateDiff('second', greatest(started_at, $__fromTime), least(ifNull(resolved_at, $__toTime),
                $__toTime)), 0) AS lasts_s
        FROM {KNOWN} WHERE {VALID} AND parent_id = '' AND started_at <= $__toTime AND {_AFFECTS}
    ) AS known INNER JOIN ({DEVICES}) AS devices ON devices.device = known.host
    WHERE known.host IN (SELECT device FROM ({_HOSTS}))
    GROUP BY id
)""",
    ("gpu_hours",),
)
# The panel has room for this number of lines.
HOSTS_SHOWN = 20
_WORST = f"""
        SELECT hosts.device AS place FROM (SELECT DISTINCT device FROM ({_HOSTS})) AS hosts LEFT JOIN (
            SELECT arrayJoin(hosts) AS device, max({LEVEL}) AS level
            FROM {KNOWN} WHERE {VALID} AND started_at <= $__toTime AND {_AFFECTS} GROUP BY device
        ) AS ill ON ill.device = hosts.device
        ORDER BY ill.level DESC, place LIMIT {HOSTS_SHOWN}"""
# A scalar, so that ClickHouse computes it once.
_READERS = f"""(
        SELECT groupArray((place, device)) FROM ({_SEEN_BY}) WHERE place IN ({_WORST})
    )"""
_SHOWN = f"SELECT one.1 AS place, one.2 AS device FROM (SELECT arrayJoin({_READERS}) AS one)"
_REPORTED = reported(_SHOWN, f"device IN (SELECT device FROM ({_SHOWN}))")
HOSTS = states_over_time(
    _WORST,
    f"""
        SELECT place, begin, end, toInt32(0) AS level FROM ({_REPORTED}
        )
        UNION ALL SELECT arrayJoin(hosts) AS place, toUnixTimestamp(started_at) AS begin,
            ifNull(toUnixTimestamp(resolved_at), toUnixTimestamp($__toTime)) AS end, {LEVEL} AS level
        FROM {KNOWN} WHERE {VALID} AND started_at <= $__toTime AND {_AFFECTS}""",
    "host",
)
FINDINGS = findings_where(_AFFECTS)
FINDING_TIMES = finding_times(f"{_AFFECTS} AND parent_id = ''")
# The traffic that the NICs of the job's hosts send, divided by their speed; the fabric is all other hosts.
_ALL_PORTS = host_ports("speed_bps > 0")
AGAINST_FABRIC = Query(
    f"""SELECT time, series, sum(bps) / sum(speed_bps) AS share FROM (
    SELECT carried.time AS time, if(carried.host IN (SELECT device FROM ({_HOSTS})), 'the job', 'other hosts')
        AS series, carried.bps AS bps, ports.speed_bps AS speed_bps
    FROM ({carried(_ALL_PORTS, wide=True, hours=Hours.GROUPS)}
    ) AS carried INNER JOIN ({_ALL_PORTS}
    ) AS ports ON ports.device = carried.host AND ports.port = carried.host_port
    UNION ALL SELECT $__timeInterval(bucket) AS time, if(device IN (SELECT device FROM ({_HOSTS})), 'the job',
        'other hosts') AS series, carried_bps AS bps, carried_speed_bps AS speed_bps
    FROM {groups("carried", "device != ''")}
) GROUP BY time, series ORDER BY time, series""",
    ("time", "series", "share"),
    series=True,
)
PLACES = Query(
    f"""SELECT hosts.device AS host, any(devices.pod) AS pod, any(devices.gpus) AS gpus, min(hosts.since) AS since,
    any(seen.share) AS seen, nullIf(any(seen.newest), toDateTime64(0, 9, 'UTC')) AS last_sample
FROM ({_HOSTS}) AS hosts LEFT JOIN ({DEVICES}) AS devices ON devices.device = hosts.device
LEFT JOIN ({_MINUTES}
) AS seen ON seen.device = hosts.device
GROUP BY host ORDER BY seen, host LIMIT 500""",
    ("host", "pod", "gpus", "since", "seen", "last_sample"),
)
