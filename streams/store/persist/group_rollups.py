"""Fills the hourly groups of ports from the rollups by hour; boards read them for a whole fabric over a long range.

A group has the ports of a switch to hosts on one rail, a switch's ports to switches, a pod's NICs on one rail, or the
NICs of a host, by the inventory in effect at the end of the hour. Ports that are not in the inventory form a separate
group. The sink that fills the rollups by hour fills the groups afterwards (hour_rollups.py), again for changed hours,
and for the hours before the table existed, the newest first.
"""

from collections.abc import Sequence
from typing import NamedTuple

import structlog

from streams.store.clickhouse import ClickHouse, QueryClient
from streams.store.params import StoreParams
from streams.store.schema_form import delete_from

TABLE = "port_groups_1h"
COUNTERS = (
    "rx_discards", "tx_discards", "pause_rx_frames", "pause_tx_frames", "port_ecn_marked_packets",
    "roce_ecn_marked_packets", "cnp_sent", "cnp_handled",
)  # fmt: skip
"""The counters of ports that boards sum over a fabric."""

LANES = ("pfc_rx_frames", "pfc_tx_frames")
"""The counters by priority that boards sum; a group has the sum of the priorities."""

UNUSED_UPLINK = 0.01
"""An uplink that carries less than this share of the fullest one is not in use (`[detect.imbalance] unused`)."""

BACKFILL_DAYS = 31
BACKFILL_HOURS = 24
"""The hours before the upgrade that one run fills: 0.4 s of CPU each at 4,096 GPUs (panel_times.py)."""

# Rows of the same group and hour replace each other, so that repeated rows count once.
_SETTINGS = "SETTINGS insert_deduplicate = 0, distributed_product_mode = 'global'"
_log = structlog.get_logger("railsight.persist")

_DEVICES = """SELECT name AS device, any(pod) AS pod, any(kind) AS kind FROM inventory_devices
        WHERE digest = (SELECT argMax(digest, effective_at) FROM inventory_devices WHERE effective_at < {end})
        GROUP BY name"""
_LINKS = """SELECT a_device, a_port, any(z_device) AS z_device, any(z_port) AS z_port, any(role) AS role,
            any(rail) AS rail, any(pod) AS pod, toFloat64(any(speed_bps)) AS speed_bps FROM inventory_links
        WHERE digest = (SELECT argMax(digest, effective_at) FROM inventory_links WHERE effective_at < {end})
        GROUP BY a_device, a_port"""
_ENDS = f"""SELECT one.1 AS device, one.2 AS port, any(role) AS role, any(rail) AS rail FROM (
            SELECT arrayJoin([(a_device, a_port), (z_device, z_port)]) AS one, role, rail FROM ({_LINKS}
        )) GROUP BY device, port"""
_GROUP = "pod, device, kind, role, rail, source"


class Hourly(NamedTuple):
    """A table by hour: its time column, and a number that must be equal in each hour's rollup."""

    table: str
    time: str
    number: str = "sum(readings)"
    condition: str = "1"


def changed_hours(
    client: QueryClient, source: Hourly, rollup: Hourly, window_hours: int
) -> Sequence[tuple[int, int, int]]:
    """Return the last hours with a rollup of other rows: Unix seconds, expected number, number found."""
    begin = f"toStartOfHour(now('UTC')) - INTERVAL {window_hours} HOUR"

    def numbers(side: Hourly, values: str) -> str:
        return (
            f"SELECT toUnixTimestamp(toStartOfHour({side.time})) AS hour_s, {values} FROM {side.table}"
            f" WHERE {side.time} >= {begin} AND {side.condition} GROUP BY hour_s"
        )

    rows = client.query(
        "SELECT hour_s, sum(by_source) AS expected, sum(by_rollup) AS found FROM ("
        f"{numbers(source, f'{source.number} AS by_source, 0 AS by_rollup')} UNION ALL"
        f" {numbers(rollup, f'0 AS by_source, {rollup.number} AS by_rollup')}"
        ") GROUP BY hour_s HAVING expected != found ORDER BY hour_s"
    )
    return [(row[0], row[1], row[2]) for row in rows]


class _Statistic(NamedTuple):
    """One kind of rows: its columns and the query of its groups."""

    name: str
    columns: tuple[str, ...]
    select: str


def _rates(name: str, rollup: Hourly, increases: dict[str, str]) -> _Statistic:
    """Return the statistic of the summed rates of ports; `increases` has the increase of each counter."""
    rates = {f"{counter}_per_s": increase for counter, increase in increases.items()}
    sums = (f"sum(if(observed_s > 0, {rate} / observed_s, NULL)) AS {column}" for column, rate in rates.items())
    return _Statistic(
        name,
        tuple(rates),
        f"""
    SELECT devices.pod AS pod, if(devices.kind = 'switch', rows.device, '') AS device, devices.kind AS kind,
        ends.role AS role, ifNull(ends.rail, -1) AS rail, rows.source AS source, sum(readings) AS readings,
        max(arrived_at) AS arrived_at, {", ".join(sums)}
    FROM {rollup.table} AS rows
    LEFT JOIN ({_DEVICES}
    ) AS devices ON devices.device = rows.device
    LEFT JOIN ({_ENDS}
    ) AS ends ON ends.device = rows.device AND ends.port = rows.row
    WHERE bucket = {{hour}} AND {rollup.condition}
    GROUP BY {_GROUP}""",
    )


_PORTS = Hourly("samples_1h", "bucket")
_PRIORITIES = Hourly("sample_lanes_1h", "bucket", condition=f"metric IN {LANES}")
# The traffic that NICs sent, by rail and by host, from the NICs' counters or their switches', as on the boards.
_CARRIED = _Statistic(
    "carried",
    ("carried_bps", "carried_bps_min", "carried_bps_median", "carried_speed_bps", "carried_ports"),
    f"""
    SELECT pod, if(grouping(host) = 0, host, '') AS device, 'host' AS kind, 'host-link' AS role,
        if(grouping(host_rail) = 0, host_rail, -1) AS rail, '' AS source, sum(ports.readings) AS readings,
        max(ports.arrived_at) AS arrived_at, sum(bps) AS carried_bps, min(bps) AS carried_bps_min,
        median(bps) AS carried_bps_median, sum(speed_bps) AS carried_speed_bps, count() AS carried_ports
    FROM (
        SELECT host, any(ends.pod) AS pod, any(ends.host_rail) AS host_rail, any(ends.speed_bps) AS speed_bps,
            sum(ends.readings) AS readings, max(ends.arrived_at) AS arrived_at,
            if(countIf(far = 0) > 0, maxIf(bps, far = 0), maxIf(bps, far = 1)) AS bps
        FROM (
            SELECT links.a_device AS host, links.a_port AS port, far, any(links.pod) AS pod,
                any(assumeNotNull(links.rail)) AS host_rail, any(links.speed_bps) AS speed_bps,
                sum(rows.readings) AS readings, max(rows.arrived_at) AS arrived_at,
                8 * sum(if(far, rx_bytes_increase, tx_bytes_increase)) / sum(observed_s) AS bps
            FROM samples_1h AS rows
            INNER JOIN (
                SELECT *, one.1 AS device, one.2 AS end, one.3 AS far FROM (
                    SELECT *, arrayJoin([(a_device, a_port, 0), (z_device, z_port, 1)]) AS one FROM ({_LINKS})
                    WHERE role = 'host-link' AND rail IS NOT NULL AND speed_bps > 0
                )
            ) AS links ON links.device = rows.device AND links.end = rows.row
            WHERE bucket = {{hour}} AND observed_s > 0 AND if(far, rx_bytes_increase, tx_bytes_increase) IS NOT NULL
            GROUP BY host, port, far
        ) AS ends GROUP BY host, port
    ) AS ports GROUP BY GROUPING SETS ((pod, host_rail), (pod, host))""",
)  # fmt: skip


# Compares with the mean of the uplinks in use, like congestion/imbalance.
_UPLINKS = _Statistic(
    "uplinks", ("uplinks_uneven",),
    f"""
    SELECT any(devices.pod) AS pod, used.device AS device, 'switch' AS kind, 'fabric-link' AS role, -1 AS rail,
        '' AS source, sum(used.readings) AS readings, max(used.arrived_at) AS arrived_at,
        max(abs(bps - middle)) / any(middle) AS uplinks_uneven
    FROM (
        SELECT *, avg(bps) OVER (PARTITION BY device) AS middle FROM (
            SELECT *, max(bps) OVER (PARTITION BY device) AS most FROM (
                SELECT rows.device AS device, row, sum(rows.readings) AS readings, max(rows.arrived_at) AS arrived_at,
                    8 * sum(tx_bytes_increase) / sum(observed_s) AS bps
                FROM samples_1h AS rows
                WHERE bucket = {{hour}} AND observed_s > 0 AND tx_bytes_increase IS NOT NULL
                    AND (device, row) IN (SELECT a_device, a_port FROM ({_LINKS}) WHERE role = 'fabric-link')
                GROUP BY device, row
            )
        ) WHERE bps > {UNUSED_UPLINK} * most
    ) AS used
    LEFT JOIN ({_DEVICES}
    ) AS devices ON devices.device = used.device
    WHERE middle > 0 GROUP BY device""",
)  # fmt: skip
_STATISTICS = {
    _PORTS: (_rates("counters", _PORTS, {one: f"{one}_increase" for one in COUNTERS}), _CARRIED, _UPLINKS),
    _PRIORITIES: (_rates("lanes", _PRIORITIES, {one: f"if(metric = '{one}', increase, NULL)" for one in LANES}),),
}
# The newest hour before the first group.
_EARLIER = f"""SELECT toUnixTimestamp(max(bucket)) AS hour_s, count() AS found FROM {{table}}
    WHERE bucket < (SELECT min(bucket) FROM {TABLE} WHERE {{of_statistic}})
        AND bucket >= now('UTC') - INTERVAL {BACKFILL_DAYS} DAY AND {{condition}}"""


def group_hours(client: ClickHouse, params: StoreParams, window_hours: int) -> int:
    """Update the groups of the last hours and of some earlier ones; return the number of written hours. Blocks."""
    written = 0
    for rollup, statistics in _STATISTICS.items():
        names = ", ".join(f"'{statistic.name}'" for statistic in statistics)
        groups = Hourly(TABLE, "bucket", condition=f"statistic = '{statistics[0].name}'")
        for hour_s, _, found in changed_hours(client, rollup, groups, window_hours):
            if found:
                of_hour = f"bucket = toDateTime({hour_s}, 'UTC') AND statistic IN ({names})"
                client.command(delete_from(TABLE, of_hour, params))
            _fill(client, statistics, hour_s)
            written += 1
        earlier = _EARLIER.format(table=rollup.table, condition=rollup.condition, of_statistic=groups.condition)
        for _ in range(BACKFILL_HOURS):
            hour_s, found = client.query(earlier)[0]
            if not found:
                break
            _fill(client, statistics, hour_s)
            written += 1
    if written:
        _log.info("groups of ports by hour", hours=written)
    return written


def _fill(client: ClickHouse, statistics: tuple[_Statistic, ...], hour_s: int) -> None:
    """Insert the groups of the hour that begins at these Unix seconds; the statistic that marks it as done is last."""
    hour = f"toDateTime({hour_s}, 'UTC')"
    for statistic in reversed(statistics):
        columns = f"{_GROUP}, readings, arrived_at, {', '.join(statistic.columns)}"
        select = statistic.select.format(hour=hour, end=f"{hour} + INTERVAL 1 HOUR")
        client.command(
            f"INSERT INTO {TABLE} (statistic, bucket, {columns}) {_SETTINGS}"
            f" SELECT '{statistic.name}', {hour}, {columns} FROM ({select}\n) {_SETTINGS}"
        )
