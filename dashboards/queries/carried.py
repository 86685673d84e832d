"""Selects the traffic of hosts' rails from the NIC, or from the switch port if no collector reads the NIC."""

from dashboards.queries.query import LINKS, Hours, readings, recent_readings, usable


def host_ports(condition: str) -> str:
    """Return the host ports of the links that meet the condition, each with its rail and switch port."""
    return f"""
        SELECT a_device AS device, a_port AS port, z_device, z_port, assumeNotNull(rail) AS rail, plane, pod,
            concat('rail ', toString(rail), if(plane IS NULL, '', concat(' plane ', toString(assumeNotNull(plane)))))
                AS name, subject, toFloat64(speed_bps) AS speed_bps
        FROM ({LINKS}) WHERE role = 'host-link' AND rail IS NOT NULL AND ({condition})"""


def both_ends(ports: str) -> str:
    """Return both ends (device, port) of each of the ports' links, with the host's name and port."""
    return f"""
        SELECT one.1 AS device, one.2 AS port, one.3 AS far, host, host_port, name, subject FROM (
            SELECT ports.device AS host, ports.port AS host_port, ports.name AS name, ports.subject AS subject,
                arrayJoin([(ports.device, ports.port, 0), (ports.z_device, ports.z_port, 1)]) AS one
            FROM ({ports}) AS ports
        )"""


def is_end(ends: str) -> str:
    """Return the condition that selects the rows of these ends (device, port)."""
    return f"device IN (SELECT device FROM ({ends})) AND (device, row) IN (SELECT device, port FROM ({ends}))"


def carried(ports: str, *, wide: bool = False, hours: Hours = Hours.PORTS) -> str:
    """Return the bits per second that each of the ports sent in each bucket: time, host, host_port, bps.

    The value comes from the NIC, or from the bytes that the switch received if no collector reads the host. `wide`: the
    query reads all ports of a fabric.
    """
    ends = both_ends(ports)
    near = f"{is_end(ends)} AND sampled_at > $__fromTime - INTERVAL 120 SECOND"
    rows = readings(["rx_bytes", "tx_bytes"], near, wide=wide, hours=hours)
    return _of_either_end(
        rows, ends, "$__timeInterval(sampled_at)", f"{usable(wide=wide)} AND sampled_at > $__fromTime"
    )


def carried_since(ports: str, since: str) -> str:
    """Return the columns of carried() as one bucket since `since`, a moment in the last minutes."""
    ends = both_ends(ports)
    rows = recent_readings(["rx_bytes", "tx_bytes"], is_end(ends), since)
    return _of_either_end(rows, ends, "1", f"elapsed_s > 0 AND sampled_at > {since}")


def _of_either_end(rows: str, ends: str, time: str, where: str) -> str:
    return f"""
        SELECT time, host, host_port, if(countIf(far = 0) > 0, maxIf(bps, far = 0), maxIf(bps, far = 1)) AS bps FROM (
            SELECT {time} AS time, host, host_port, far,
                8 * sum(if(far, grown_rx_bytes, grown_tx_bytes)) / sum(elapsed_s) AS bps
            FROM {rows} AS readings
            INNER JOIN ({ends}
            ) AS ends ON ends.device = readings.device AND ends.port = readings.row
            WHERE {where} AND if(far, grown_rx_bytes, grown_tx_bytes) >= 0
            GROUP BY time, host, host_port, far
        ) GROUP BY time, host, host_port"""
