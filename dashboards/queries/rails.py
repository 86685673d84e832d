"""Defines the queries of the Rails dashboard: the used share of each rail's speed, and the stragglers."""

from dashboards.limits import DETECT
from dashboards.queries.carried import carried, carried_since, host_ports
from dashboards.queries.groups import groups
from dashboards.queries.query import KNOWN, NONE, OPEN, WORKS, Hours, Query, finding_times, findings_where

_RECENT_S = 300
"""Stragglers are ranked by the last five minutes, because a rail is slow after three windows of a minute."""
_PODS = f"if(pod = '', '{NONE}', pod) IN (${{pod:singlequote}})"
_RAIL = "${rail:sqlstring} IN ('', toString(assumeNotNull(rail)))"
_PORTS = host_ports(f"{_PODS} AND {_RAIL}")
_NOW = f"""
    SELECT if(ports.pod = '', '{NONE}', ports.pod) AS pod, ports.device AS host, ports.rail AS rail,
        ports.plane AS plane, ports.port AS port, ports.subject AS subject,
        ports.speed_bps AS speed_bps, carried.bps AS bps,
        if(ports.speed_bps > 0, carried.bps / ports.speed_bps, NULL) AS delivered,
        median(carried.bps) OVER (PARTITION BY pod, ports.rail) AS middle,
        count() OVER (PARTITION BY pod, ports.rail) AS peers,
        if(middle > {DETECT.rail.busy} * ports.speed_bps AND peers > {DETECT.rail.peers}, carried.bps / middle, NULL)
            AS share
    FROM ({_PORTS}
    ) AS ports
    INNER JOIN ({carried_since(_PORTS, f"$__toTime - INTERVAL {_RECENT_S} SECOND")}
    ) AS carried ON carried.host = ports.device AND carried.host_port = ports.port"""

_UNKNOWN = f"count() = 0 OR NOT {WORKS}"
COUNTS = Query(
    f"""SELECT if({_UNKNOWN}, NULL, countIf(share < {DETECT.rail.slow})) AS slow,
    if({_UNKNOWN}, NULL, countIf(share >= {DETECT.rail.slow})) AS even,
    if({_UNKNOWN}, NULL, countIf(share IS NULL)) AS idle
FROM ({_NOW}
)""",
    ("slow", "even", "idle"),
)
UNOBSERVED = Query(
    f"""SELECT if(total = 0 OR NOT {WORKS}, NULL, total - read) AS unobserved FROM (
    SELECT (SELECT count() FROM ({_PORTS})) AS total, (SELECT count() FROM ({_NOW}
    )) AS read
)""",
    ("unobserved",),
)
STRAGGLERS = Query(
    f"""SELECT pod, host, concat('rail ', toString(rail)) AS rail, share, bps, delivered, found.id AS finding, subject
FROM ({_NOW}
) AS now LEFT JOIN (
    SELECT a_device, rail, any(id) AS id FROM {KNOWN} WHERE {OPEN} AND detector = 'rail/degraded'
    GROUP BY a_device, rail
) AS found ON found.a_device = now.host AND found.rail = now.rail
ORDER BY share IS NULL, share, host, rail LIMIT 50""",
    ("pod", "host", "rail", "share", "bps", "delivered", "finding", "subject"),
)
MATRIX = Query(
    f"""SELECT pod, concat('rail ', toString(rail)) AS place, avg(delivered) AS delivered
FROM ({_NOW}
) GROUP BY pod, rail ORDER BY rail, pod""",
    ("pod", "place", "delivered"),
)
PLANES = Query(
    f"""SELECT concat('rail ', toString(rail)) AS rail, concat('plane ', toString(assumeNotNull(plane))) AS place,
    avg(delivered) AS delivered
FROM ({_NOW}
) AS now WHERE plane IS NOT NULL GROUP BY now.rail, now.plane ORDER BY now.rail, now.plane""",
    ("rail", "place", "delivered"),
)
LOST = Query(
    f"""SELECT pod, host, concat('rail ', toString(number)) AS rail, concat(toString(total - length(gone)), ' of ',
        toString(total)) AS planes, (total - length(gone)) / total AS left, arrayStringConcat(gone, ', ') AS lost, id
FROM (
    SELECT any(if(ports.pod = '', '{NONE}', ports.pod)) AS pod, ports.device AS host, ports.rail AS number,
        count() AS total, arraySort(groupArrayIf(ifNull(toString(ports.plane), 'all'), found.id != '')) AS gone,
        max(found.id) AS id
    FROM ({_PORTS}
    ) AS ports LEFT JOIN (
        SELECT subject_id, any(id) AS id FROM {KNOWN} WHERE {OPEN} AND detector = 'link/down' GROUP BY subject_id
    ) AS found ON found.subject_id = ports.subject
    GROUP BY host, number
) WHERE notEmpty(gone) ORDER BY left, host, number LIMIT 50""",
    ("pod", "host", "rail", "planes", "left", "lost", "id"),
)
_OVER_TIME = f"""
    SELECT carried.time AS time, ports.rail AS rail, ports.device AS host, carried.bps AS bps,
        ports.speed_bps AS speed_bps
    FROM ({carried(_PORTS, wide=True, hours=Hours.GROUPS)}
    ) AS carried INNER JOIN ({_PORTS}
    ) AS ports ON ports.device = carried.host AND ports.port = carried.host_port"""
_GROUPS = groups("carried", f"device = '' AND {_PODS} AND {_RAIL}")
DELIVERED = Query(
    f"""SELECT time, concat('rail ', toString(rail)) AS series, sum(bps) / sum(speed_bps) AS delivered
FROM (
    SELECT time, rail, bps, speed_bps FROM ({_OVER_TIME}
    ) WHERE speed_bps > 0
    UNION ALL SELECT $__timeInterval(bucket) AS time, rail, carried_bps, carried_speed_bps FROM {_GROUPS}
) GROUP BY time, rail ORDER BY time, rail""",
    ("time", "series", "delivered"),
    series=True,
)
# In hourly rows, the middle is the median of the pods' medians, weighted by their number of NICs.
SLOWEST = Query(
    f"""SELECT time, concat('rail ', toString(rail)) AS series, if(middle > {DETECT.rail.busy} * speed,
    lowest / middle, NULL) AS share
FROM (
    SELECT time, rail, min(bps) AS lowest, median(bps) AS middle, any(speed_bps) AS speed FROM ({_OVER_TIME}
    ) WHERE speed_bps > 0 GROUP BY time, rail
    UNION ALL SELECT $__timeInterval(bucket) AS time, rail, min(carried_bps_min),
        quantileExactWeighted(0.5)(carried_bps_median, carried_ports), sum(carried_speed_bps) / sum(carried_ports)
    FROM {_GROUPS} GROUP BY time, rail
) ORDER BY time, rail""",
    ("time", "series", "share"),
    series=True,
)
_OF_RAILS = f"(detector IN ('rail/degraded', 'host/pcie-degraded') OR startsWith(subject_id, 'rail:')) AND {_PODS}"
FINDINGS = findings_where(_OF_RAILS)
FINDING_TIMES = finding_times(_OF_RAILS)
