"""Fills rollups of a day and of a week, and times the boards' queries over them.

The day has a row for each port and minute of a fabric of 2,048 GPUs, the week a row for each port and hour of a share
of the largest fabric (78,600 port-samples/s). ClickHouse generates them: traffic by host and hour, rare errors.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from lab.constants import with_constants
from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse
from streams.store.clickhouse import ClickHouse
from streams.store.migrate import apply, shipped_migrations
from streams.store.params import StoreParams

RAILS = 8
WEEK_PORTS = 786_432
DAY_S, WEEK_S = 86_400, 7 * 86_400
DAY_LIMIT_S, WEEK_LIMIT_S = 1.0, 2.0
_REPEATS = 3

_DEVICES = """INSERT INTO inventory_devices (digest, effective_at, name, kind, pod, gpus, arrived_at)
SELECT 'bench', toDateTime64(toStartOfDay(now('UTC')), 9, 'UTC') - INTERVAL 8 DAY,
    concat('host-', leftPad(toString(number), 5, '0')), 'host',
    concat('pod-', toString(intDiv(number, 32))), 8, now64(3) FROM numbers({hosts})"""
_LINKS = """INSERT INTO inventory_links (
    digest, effective_at, id, a_device, a_port, z_device, z_port, role, rail, pod, speed_bps, arrived_at
)
SELECT 'bench', toDateTime64(toStartOfDay(now('UTC')), 9, 'UTC') - INTERVAL 8 DAY,
    concat('link:', a, '/', port, '--', z, '/', z_port) AS id,
    concat('host-', leftPad(toString(intDiv(number, 8)), 5, '0')) AS a, concat('eth', toString(number % 8)) AS port,
    concat('leaf-', toString(intDiv(number, 512)), '-', toString(number % 8)) AS z,
    concat('p', toString(intDiv(number, 8) % 64)) AS z_port, 'host-link', number % 8,
    concat('pod-', toString(intDiv(number, 256))), 400000000000, now64(3) FROM numbers({ports})"""
_JOBS = """INSERT INTO jobs (job, device, start, end, arrived_at)
SELECT concat('job-', toString(intDiv(number, 16))), concat('host-', leftPad(toString(number), 5, '0')),
    now64(9) - INTERVAL 7 DAY, NULL, now64(3) FROM numbers({hosts})"""
# Ports 0 to `ports` - 1 belong to hosts, the others are the leaves' ports at the other ends. Inserted in blocks of
# 262,144 rows: a block also has the columns without values, and a million rows exceeded a query's 4 GiB.
_ROLLUPS = """INSERT INTO {table} (
    device, row, row_kind, source, bucket, {counts}, observed_s, rx_bytes_increase, tx_bytes_increase,
    rx_discards_increase, rx_errors_increase, fec_corrected_bits_increase, link_down_events_increase,
    pause_rx_frames_increase, cnp_sent_increase, pre_fec_ber_min, pre_fec_ber_max, pre_fec_ber_avg,
    module_temperature_c_max, oper_up_avg, arrived_at
)
SELECT if(is_host, concat('host-', leftPad(toString(intDiv(link, 8)), 5, '0')),
        concat('leaf-', toString(intDiv(link, 512)), '-', toString(link % 8))),
    if(is_host, concat('eth', toString(link % 8)), concat('p', toString(intDiv(link, 8) % 64))), 'port',
    if(is_host, 'nic', 'gnmi'), toDateTime({begin} + step * {step_s}, 'UTC'), {count_values}, {step_s},
    (cityHash64(intDiv(link, 8), intDiv(step * {step_s}, 3600)) % 40 + 5) * 1000000000 * {step_s} AS rx, rx,
    cityHash64(number) % 5000 = 0, cityHash64(number, 1) % 5000 = 0, 400 * {step_s}, cityHash64(number, 2) % 100000 = 0,
    0, cityHash64(number, 3) % 100, 1e-9, 2e-9, 1.5e-9, 45, 1, now64(3)
FROM (
    SELECT number, intDiv(number, {steps}) AS port, number % {steps} AS step, port < {ports} AS is_host,
        port % {ports} AS link
    FROM numbers({first}, {count})
)
SETTINGS max_threads = 1, min_insert_block_size_rows = 262144, min_insert_block_size_bytes = 0"""
_ROWS_OF_ONE_INSERT = 5_000_000

_QUERIES = (
    ("both ends of a link", "SELECT * FROM link_ends_{size}(link = 'link:host-00007/eth3--leaf-0-3/p7', {window})"),
    ("a port against its peers", "SELECT * FROM port_against_peers_{size}(device = 'host-00007', {window})"),
    ("bandwidth of a job by rail", "SELECT * FROM rail_bandwidth_{size}(job = 'job-1', {window})"),
    ("a job against the fabric", "SELECT * FROM job_against_fabric_{size}(job = 'job-1', {window})"),
    (
        "errors of the fabric, worst 20",
        "SELECT device, row, sum(rx_errors_increase) AS errors FROM samples_{size} WHERE bucket >= {since}"
        " AND row_kind = 'port' GROUP BY device, row ORDER BY errors DESC LIMIT 20",
    ),
    (
        "traffic of the fabric over time",
        "SELECT toStartOfInterval(bucket, INTERVAL {step} SECOND) AS time, source, sum(rx_bytes_increase)"
        " FROM samples_{size} WHERE bucket >= {since} GROUP BY time, source ORDER BY time",
    ),
)


@dataclass(frozen=True, slots=True)
class QueryTime:
    """One query: the median and the maximum of its repeats, and the numbers of rows read and returned."""

    range: str
    name: str
    median_s: float
    longest_s: float
    read_rows: int
    rows: int
    limit_s: float


@dataclass(frozen=True, slots=True)
class QueryTimes:
    """The results of the fill and of the queries."""

    day_rows: int
    week_rows: int
    week_share: float
    times: Sequence[QueryTime]

    @property
    def is_passed(self) -> bool:
        """True if every query was within its limit."""
        return all(one.median_s <= one.limit_s for one in self.times)


def measure(gpus: int, share: float) -> QueryTimes:
    """Fill an own server, and time each query."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedClickHouse(ClickHouseParams(data=Path(folder) / "clickhouse")) as server,
    ):
        times: list[QueryTime] = []
        filled = {}
        # One database each, because the inventory describes the fabric of that range.
        for size, links in (("1m", gpus), ("1h", int(WEEK_PORTS * share) // 2)):
            client = ClickHouse(
                with_constants(StoreParams, timeout_s=600)(
                    url=server.url, password=SecretStr(server.password), database=f"bench_{size}"
                )
            )
            apply(client, shipped_migrations())
            filled[size] = _fill(client, size, links)
            times += _times(client, size)
            client.close()
        return QueryTimes(filled["1m"], filled["1h"], share, times)


def _fill(client: ClickHouse, size: str, links: int) -> int:
    hosts = links // RAILS
    for statement in (_DEVICES, _LINKS, _JOBS):
        client.command(statement.format(hosts=hosts, ports=links))
    step_s, length_s = (60, DAY_S) if size == "1m" else (3600, WEEK_S)
    steps = length_s // step_s
    begin = int(time.time()) // 3600 * 3600 - length_s
    counts, values = ("readings", "6") if size == "1m" else ("minutes, readings", "60, 360")
    rows = 2 * links * steps
    for first in range(0, rows, _ROWS_OF_ONE_INSERT):
        client.command(
            _ROLLUPS.format(
                table=f"samples_{size}", counts=counts, count_values=values, begin=begin, step_s=step_s, steps=steps,
                ports=links, first=first, count=min(_ROWS_OF_ONE_INSERT, rows - first),
            )
        )  # fmt: skip
    return rows


def _times(client: ClickHouse, size: str) -> Iterator[QueryTime]:
    length_s, limit_s = (DAY_S, DAY_LIMIT_S) if size == "1m" else (WEEK_S, WEEK_LIMIT_S)
    since = f"now('UTC') - INTERVAL {length_s} SECOND"
    window = f"since = {since}, until = now('UTC')"
    for name, sql in _QUERIES:
        query = sql.format(size=size, window=window, since=since, step=length_s // 288)
        taken = []
        rows = 0
        for _ in range(_REPEATS):
            began = time.monotonic()
            rows = len(client.query(query))
            taken.append(time.monotonic() - began)
        yield QueryTime(
            "a day" if size == "1m" else "a week", name, sorted(taken)[len(taken) // 2], max(taken),
            _read_rows(client, query), rows, limit_s,
        )  # fmt: skip


def _read_rows(client: ClickHouse, query: str) -> int:
    """Return the rows that the engine plans to read, by its estimate over parts and granules."""
    return sum(int(row[3]) for row in client.query(f"EXPLAIN ESTIMATE {query}"))


def table_lines(found: QueryTimes, load_s: float = 1.0) -> Iterator[str]:
    """Yield the lines of the table; `/load` is the median divided by the seconds of the reference load."""
    yield f"day: {found.day_rows:,} port-minutes"
    yield f"week: {found.week_rows:,} port-hours, {found.week_share:.1%} of the ports of the largest fabric"
    yield f"{'range':8}{'query':34}{'median s':>10}{'longest s':>11}{'/load':>8}{'rows read':>14}{'rows':>8}"
    for one in found.times:
        yield (
            f"{one.range:8}{one.name:34}{one.median_s:10.3f}{one.longest_s:11.3f}{one.median_s / load_s:8.3f}"
            f"{one.read_rows:14,}{one.rows:8,}"
            f"  {'yes' if one.median_s <= one.limit_s else 'NO '} at most {one.limit_s:.0f} s"
        )
