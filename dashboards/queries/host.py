"""Defines the queries of the Host dashboard: one host's rails compared with their peers, its parts, kernel and jobs."""

from dashboards.limits import DETECT
from dashboards.queries.carried import both_ends, carried, carried_since, host_ports, is_end
from dashboards.queries.messages import SAMPLED, messages
from dashboards.queries.presence import presence
from dashboards.queries.query import (
    DEVICES,
    IN_RANGE,
    KNOWN,
    LEVEL,
    OBSERVED_S,
    OPEN,
    Query,
    finding_times,
    findings_where,
    gauges,
    port_states,
    rates,
    remediation_times,
    states_over_time,
    words,
)

# Hosts with an open finding come first, so that a board without a selection shows the worst host.
HOSTS = Query(
    f"""SELECT devices.device AS host FROM ({DEVICES}) AS devices
LEFT JOIN (
    SELECT arrayJoin(arrayFilter(name -> name != '', [a_device, z_device])) AS device, max({LEVEL}) AS level
    FROM {KNOWN} WHERE {OPEN} AND parent_id = '' GROUP BY device
) AS ill ON ill.device = devices.device
WHERE devices.kind = 'host' ORDER BY ill.level DESC, host""",
    ("host",),
)
_HOST = "${host:sqlstring}"
_IS_HOST = f"{_HOST} IN (a_device, z_device) OR subject_id = concat('device:', {_HOST})"
_RAILS = host_ports(f"a_device = {_HOST}")
_PLACES = f"SELECT *, concat(name, ' ') AS place FROM ({_RAILS})"
_ENDS = both_ends(_RAILS)
_NEAR = is_end(_ENDS)
_ROWS = f"device = {_HOST}"
# Every row of the host by its own name, because GPUs and modules are not in the inventory.
_PARTS = f"""
        SELECT DISTINCT device, row AS port, concat(row, ' ') AS place FROM samples
        WHERE device = {_HOST} AND $__timeFilter(sampled_at) AND arrived_at >= $__fromTime"""

ABOUT = Query(
    f"""SELECT line.1 AS item, line.2 AS value FROM (
    SELECT arrayJoin([
        ('pod', toString(pod)), ('site', toString(site)), ('GPUs', toString(gpus)),
        ('open findings', toString(assumeNotNull((SELECT count() FROM {KNOWN} WHERE {OPEN} AND ({_IS_HOST}))))),
        ('last sample', assumeNotNull((
            SELECT if(count() = 0, 'none in this time range', toString(toDateTime(max(newest), 'UTC')))
            FROM {messages(("newest",), SAMPLED, _ROWS)}
        )))
    ]) AS line FROM ({DEVICES}) WHERE device = {_HOST}
) WHERE line.2 != ''""",
    ("item", "value"),
)
# Reads either end: a rail is also observed if only its switch is.
RAILS = states_over_time(
    f"SELECT name AS place FROM ({_RAILS})",
    f"""
        SELECT ends.name AS place, begin, begin + lasts_s - 1 AS end, if(is_down, 3, 0) AS level
        FROM {port_states(_NEAR)} AS states INNER JOIN ({_ENDS}
        ) AS ends ON ends.device = states.device AND ends.port = states.row
        UNION ALL SELECT rails.name AS place, toUnixTimestamp(started_at) AS begin,
            ifNull(toUnixTimestamp(resolved_at), toUnixTimestamp($__toTime)) AS end, toUInt8({LEVEL}) AS level
        FROM {KNOWN} AS known CROSS JOIN ({_RAILS}
        ) AS rails
        WHERE subject_id IN (rails.subject, concat('rail:', rails.device, '/', toString(rails.rail))) AND {IN_RANGE}""",
    "rail",
)
LINKS_OF_HOST = Query(
    f"""SELECT rails.name AS rail, rails.port AS port, concat(rails.z_device, '/', rails.z_port) AS switch_port,
    if(latest.state = '', 'unobserved', latest.state) AS state,
    if(carried.host = '', NULL, carried.bps / rails.speed_bps) AS used, rails.subject AS subject
FROM ({_RAILS}
) AS rails
LEFT JOIN (
    SELECT subject, argMax(multiIf(admin_up = 0, 'shut', oper_up = 0, 'down', 'up'), sampled_at) AS state
    FROM samples INNER JOIN ({_ENDS}
    ) AS ends ON (ends.device = samples.device AND ends.port = samples.row)
    WHERE {_NEAR} AND oper_up IS NOT NULL AND sampled_at > $__toTime - INTERVAL {2 * OBSERVED_S} SECOND
        AND sampled_at <= $__toTime
    GROUP BY subject
) AS latest ON latest.subject = rails.subject
LEFT JOIN ({carried_since(_RAILS, f"$__toTime - INTERVAL {2 * OBSERVED_S} SECOND")}
) AS carried ON carried.host = rails.device AND carried.host_port = rails.port
ORDER BY rail, port""",
    ("rail", "port", "switch_port", "state", "used", "subject"),
)
SENT = Query(
    f"""SELECT carried.time AS time, rails.name AS series, sum(carried.bps) AS bps
FROM ({carried(_RAILS)}
) AS carried INNER JOIN ({_RAILS}
) AS rails ON rails.port = carried.host_port
GROUP BY time, series ORDER BY time, series""",
    ("time", "series", "bps"),
    series=True,
)
# The traffic that each rail sends, divided by the median of the same rail of the pod's other hosts.
_POD_RAILS = host_ports(f"pod = (SELECT any(pod) FROM ({DEVICES}) WHERE device = {_HOST})")
AGAINST_PEERS = Query(
    f"""SELECT time, name AS series, if(middle > {DETECT.rail.busy} * speed_bps, own / middle, NULL) AS share FROM (
    SELECT carried.time AS time, rails.name AS name, sumIf(carried.bps, carried.host = {_HOST}) AS own,
        quantileExactIf(0.5)(carried.bps, carried.host != {_HOST}) AS middle, any(rails.speed_bps) AS speed_bps
    FROM ({carried(_POD_RAILS)}
    ) AS carried INNER JOIN ({_POD_RAILS}
    ) AS rails ON rails.device = carried.host AND rails.port = carried.host_port
    GROUP BY time, name HAVING countIf(carried.host = {_HOST}) > 0 AND countIf(carried.host != {_HOST}) > 0
) QUALIFY count(share) OVER () > 0 ORDER BY time, series""",
    ("time", "series", "share"),
    series=True,
)
ROCE = rates(
    _PLACES,
    (
        ("out of sequence", "out_of_sequence", 1), ("ACK timeouts", "local_ack_timeouts", 1),
        ("slow restarts", "roce_slow_restarts", 1), ("RNR NAK retries", "rnr_nak_retries", 1),
        ("CNP handled", "cnp_handled", 1), ("retransmitted", "retransmitted_packets", 1),
        ("unresponsive remotes", "unresponsive_remotes", 1), ("impaired connections", "impaired_connections", 1),
    ),
    _ROWS,
)  # fmt: skip
STALLS = rates(
    _PLACES,
    (("waits for reads", "pcie_stalled_read_seconds", 1), ("waits for writes", "pcie_stalled_write_seconds", 1)),
    _ROWS,
)
PCIE = Query(
    f"""SELECT row AS part, argMax(pcie_width_lanes, sampled_at) AS lanes, argMax(pcie_width_max_lanes, sampled_at)
    AS lanes_possible, argMax(pcie_speed_gtps, sampled_at) AS gtps, argMax(pcie_speed_max_gtps, sampled_at) AS
    gtps_possible, if(lanes < lanes_possible OR gtps < gtps_possible, 'below', 'full') AS state
FROM samples
WHERE {_ROWS} AND $__timeFilter(sampled_at) AND arrived_at >= $__fromTime AND pcie_width_lanes IS NOT NULL
GROUP BY part ORDER BY state, part""",
    ("part", "lanes", "lanes_possible", "gtps", "gtps_possible", "state"),
)
GPU_HEAT = gauges(_PARTS, (("", "gpu_temperature_c"),), _ROWS)
MODULE_HEAT = gauges(_PARTS, (("", "module_temperature_c"),), _ROWS)
NVLINKS = gauges(_PARTS, (("", "nvlink_links_up"),), _ROWS)
POWER_LIMIT = gauges(_PARTS, (("in force", "gpu_power_limit_w"), ("configured", "gpu_power_limit_set_w")), _ROWS)
GPU_ERRORS = rates(
    _PARTS, (("uncorrectable ECC", "gpu_ecc_uncorrected", 1), ("PCIe replays", "pcie_replays", 1)), _ROWS, counts=True
)
KERNEL = Query(
    f"""SELECT at, {words("kind")} AS kind, port AS part, code, detail FROM events
WHERE {_ROWS} AND $__timeFilter(at) ORDER BY at DESC LIMIT 200""",
    ("at", "kind", "part", "code", "detail"),
)
# The placements at the picker's end, from the inventory and the scheduler.
JOBS = Query(
    f"""SELECT job, min(start) AS since, nullIf(max(ifNull(end, toDateTime64('2100-01-01', 9, 'UTC'))),
    toDateTime64('2100-01-01', 9, 'UTC')) AS until, if(until IS NULL OR until > $__toTime, 'runs', 'over') AS state
FROM (
    SELECT job, device, start, end FROM inventory_jobs WHERE effective_at <= $__toTime
    UNION ALL SELECT job, device, argMax(start, kafka_offset) AS start, argMax(end, kafka_offset) AS end FROM jobs
    GROUP BY job, device
) WHERE device = {_HOST} AND start <= $__toTime AND (end IS NULL OR end >= $__fromTime)
GROUP BY job ORDER BY since DESC LIMIT 100""",
    ("job", "since", "until", "state"),
)
FINDINGS = findings_where(_IS_HOST)
FINDING_TIMES = finding_times(_IS_HOST)
REMEDIATION_TIMES = remediation_times(_IS_HOST)
HAS_NICS = presence(
    (
        "out_of_sequence", "local_ack_timeouts", "roce_slow_restarts", "rnr_nak_retries", "cnp_handled",
        "retransmitted_packets", "unresponsive_remotes", "impaired_connections", "pcie_stalled_read_seconds",
        "pcie_stalled_write_seconds", "pcie_width_lanes", "module_temperature_c",
    ),
    (),
    _ROWS,
)  # fmt: skip
HAS_GPUS = presence(
    (
        "gpu_temperature_c", "nvlink_links_up", "gpu_power_limit_w", "gpu_power_limit_set_w", "gpu_ecc_uncorrected",
        "pcie_replays",
    ),
    (),
    _ROWS,
)  # fmt: skip
