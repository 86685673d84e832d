"""Times every panel of every board over a day and over a week of a fabric of 2,048 GPUs.

python -m lab.preview.panel_times [--pods 8] [--uplinks 1] [--ranges 'a day,a week'] [--boards rails,congestion]

SQL generates the rows of all ports: the inventory, findings, progress and hourly messages of the week; rollups by hour
for the week and by minute for the day (one PFC priority; four lanes of optical power in the first pod); messages of the
day. For a week alone, it generates minutes of the last two hours and messages of the last three, which are not grouped
by hour yet. Readings cover the last ten minutes of every port, and the week of the first host and its leaves. After the
merges of the rows have ended, a panel's queries run one after another: the result is the sum of their medians of three,
and of the rows that they read. It prints a Markdown table with the load of the machine.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from dashboards.__main__ import BOARDS, FOLDER
from dashboards.board import opened_panels
from lab.constants import params_of
from lab.preview.__main__ import http_run
from lab.preview.reading import View, opened, panel_queries
from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse
from streams.runtime.topic_io import inventory_records
from streams.store import migrate
from streams.store.clickhouse import ClickHouse
from streams.store.params import StoreParams
from streams.store.persist.group_rollups import group_hours
from streams.store.persist.hour_rollups import OVER_AFTER_S
from streams.store.rows.inventory_rows import InventoryBuilder
from streams.store.rows.native_format import encode_block
from streams.store.rows.row_builder import SourcedMessage
from streams.wire import topics

CADENCE_S = 10
FINDINGS, OPEN = 400, 20
_TICKS_S = os.sysconf("SC_CLK_TCK")
HOUR_S, DAY_S, WEEK_S = 3600, 86_400, 7 * 86_400
NEWEST_HOURS = 4
"""Hours that are inserted and grouped one after another, as a sink does; the others are inserted by day."""

QUARTER_S = 900
"""The length of one insert of minutes: the parts then have the size of sixteen of the sink's parts, merged."""

LIMITS_S = {"a day": 1.0, "a week": 2.0}
RANGES_S = {"a day": DAY_S, "a week": WEEK_S}
REPEATS = 3
IDLE_S, MERGES_S = 5.0, 900.0
"""The rows are inserted within minutes instead of a week: merges have ended if none ran for IDLE_S."""

POINTS = 1000
"""The points of a panel that is as wide as the screen."""
HOST = "pod1-host1"

_PORTS = """(SELECT one.1 AS device, one.2 AS row, one.3 AS source, pod FROM (
    SELECT pod, arrayJoin([
        (a_device, a_port, if(role = 'host-link', 'nic', 'gnmi')), (z_device, z_port, 'gnmi')
    ]) AS one
    FROM inventory_links
)) AS ports"""
_NEAR = f"device = '{HOST}' OR device IN (SELECT z_device FROM inventory_links WHERE a_device = '{HOST}')"


class PanelTime(NamedTuple):
    """One panel over one range: seconds until the answer, CPU seconds of the server, and rows that the engine read."""

    board: str
    panel: str
    range: str
    seconds: float
    cpu_s: float
    read_rows: int


def fill_rollups(store: ClickHouse, table: str, step_s: int, begin_s: int, end_s: int) -> None:
    """Insert a row for each port, and for each lane, at each step."""
    counted, counts = ("minutes, readings", "60, 360") if step_s == HOUR_S else ("readings", "6")
    at = f"toDateTime({begin_s} + number * {step_s}, 'UTC')"
    steps = f"numbers({(end_s - begin_s) // step_s}) AS n"
    rate = f"(cityHash64(device, intDiv(number * {step_s}, 3600)) % 40 + 5) * 1000000000 * {step_s}"
    store.command(
        f"INSERT INTO samples_{table} (device, row, row_kind, source, bucket, {counted}, observed_s, arrived_at,"
        " rx_bytes_increase, tx_bytes_increase, rx_discards_increase, rx_errors_increase, fec_corrected_bits_increase,"
        " link_down_events_increase, roce_ecn_marked_packets_increase, cnp_handled_increase, pre_fec_ber_min,"
        " pre_fec_ber_max, pre_fec_ber_avg, module_temperature_c_max, oper_up_avg)"
        f" SELECT device, row, 'port', source, {at} AS bucket, {counts}, {step_s}, toDateTime64(bucket, 3, 'UTC'),"
        f" {rate} AS rx, rx, 0, cityHash64(device, row, number) % 5000 = 0, 400 * {step_s}, 0, number % 100,"
        f" number % 100, 1e-9, 2e-9, 1.5e-9, 45, 1 FROM {_PORTS} CROSS JOIN {steps}"
    )
    for metric, lanes, where, increase, value in (
        ("pfc_rx_frames", 1, "1", "number % 10", "NULL"), ("rx_power_dbm", 4, "pod = 'pod1'", "NULL", "-2 - lane"),
    ):  # fmt: skip
        store.command(
            f"INSERT INTO sample_lanes_{table} (device, row, row_kind, source, metric, `index`, bucket, {counted},"
            " observed_s, arrived_at, increase, value_min, value_max, value_avg)"
            f" SELECT device, row, 'port', source, '{metric}', lane, {at} AS bucket, {counts}, {step_s},"
            f" toDateTime64(bucket, 3, 'UTC'), {increase}, {value} AS value, value, value FROM {_PORTS}"
            f" CROSS JOIN (SELECT toInt32(number) AS lane FROM numbers({lanes})) AS l CROSS JOIN {steps} WHERE {where}"
        )


def cpu_s(pid: int) -> float:
    """Return user and system time of a process with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_S


def fill_board(
    store: ClickHouse, pods: int, seconds: int, end_s: int, messages_s: int | None = None, uplinks: int = 1
) -> None:
    """Insert the inventory, and by SQL the messages that devices sent and stages reported until `end_s`.

    Messages are grouped by hour for the whole time, and single for its last `messages_s` (default: all). `uplinks` is
    the number of links from a leaf to each spine.
    """
    shape = DemoShape(pods=pods, hosts=32, planes=2, spines=8, uplinks=uplinks)
    inventory = demo_fabric.inventory(shape, end_s * 10**9)
    builder = InventoryBuilder()
    begin_s = end_s - seconds
    for offset, record in enumerate(inventory_records(inventory, begin_s * 10**9)):
        message = topics.decode(topics.INVENTORY, record.value, record.headers)
        builder.add(SourcedMessage(0, offset, begin_s * 1000, message))
    for rows in builder.finish():
        store.insert(rows.table, rows.column_names, encode_block(rows.columns), rows.table)
    fill_message_hours(store, begin_s, end_s)
    messages_s = seconds if messages_s is None else messages_s
    at = f"toDateTime64({end_s - messages_s}, 9, 'UTC') + INTERVAL number * {CADENCE_S} SECOND"
    store.command(
        "INSERT INTO sample_messages (device, source, row_kind, collector, rows, sampled_at, received_at, arrived_at)"
        f" SELECT name, if(kind = 'host', 'nic', 'gnmi'), 'port', 'bench', 8, {at}, {at}, {at}"
        f" FROM inventory_devices CROSS JOIN numbers({messages_s // CADENCE_S}) AS n"
    )
    store.command(
        "INSERT INTO collector_status (device, source, collector, at, reachable, cadence_ns, arrived_at)"
        f" SELECT name, if(kind = 'host', 'nic', 'gnmi'), 'bench', toDateTime64({begin_s}, 9, 'UTC'), 1,"
        f" {CADENCE_S} * 1000000000, toDateTime64({begin_s}, 3, 'UTC') FROM inventory_devices"
    )
    store.command(
        "INSERT INTO progress (stage, partition, epoch, watermark, records, lag, arrived_at)"
        " SELECT arrayJoin(['measure', 'correlate', 'attribute', 'decide']), 0, 1,"
        f" toDateTime64({begin_s} + number, 9, 'UTC'), number * 30, 0, toDateTime64({begin_s} + number, 3, 'UTC')"
        f" FROM numbers({seconds})"
    )
    step = seconds // FINDINGS
    started = f"toDateTime64({begin_s} + number * {step}, 9, 'UTC')"
    store.command(
        "INSERT INTO findings (id, revision, detector, condition, status, severity, subject_id, a_device, a_port,"
        " z_device, z_port, rail, pod, started_at, observed_at, resolved_at, summary, hosts, jobs, arrived_at)"
        " SELECT toString(number), 1, 'link/flap', 'link_flap', if(is_open, 'open', 'resolved'),"
        " if(number % 5 = 0, 'critical', 'warning'), concat('link:', link.a_device, '/', link.a_port, '--',"
        " link.z_device, '/', link.z_port), link.a_device, link.a_port, link.z_device, link.z_port, link.rail,"
        " link.pod,"
        f" {started}, {started}, if(is_open, NULL, {started} + INTERVAL 300 SECOND), 'flaps', [link.a_device],"
        f" ['pretrain-70b'], {started}"
        f" FROM (SELECT number, number >= {FINDINGS - OPEN} AS is_open FROM numbers({FINDINGS}))"
        " AS one INNER JOIN (SELECT *, rowNumberInAllBlocks() AS place FROM inventory_links) AS link"
        " ON link.place = one.number"
    )


def fill_message_hours(store: ClickHouse, begin_s: int, end_s: int) -> None:
    """Insert the hourly messages of each device for the hours that the sink has rolled up by the end."""
    first_s, last_s = begin_s // 3600 * 3600, (end_s - OVER_AFTER_S) // 3600 * 3600
    messages = 3600 // CADENCE_S
    newest = f"toDateTime64(hour, 9, 'UTC') + INTERVAL {3600 - CADENCE_S} SECOND"
    store.command(
        "INSERT INTO sample_messages_1h (device, source, row_kind, collector, bucket, arrived_hour, messages, rows,"
        " minutes, last_sampled_at, runs, arrived_at) SELECT name, if(kind = 'host', 'nic', 'gnmi'), 'port', 'bench',"
        f" toDateTime({first_s} + number * 3600, 'UTC') AS hour, hour, {messages}, {8 * messages},"
        f" {2**60 - 1}, {newest}, [0], {newest}"
        f" FROM inventory_devices CROSS JOIN numbers({(last_s - first_s) // 3600}) AS n"
    )


def fill_readings(store: ClickHouse, begin_s: int, end_s: int, where: str) -> None:
    """Insert a reading every ten seconds for the ports that meet the condition."""
    at = f"toDateTime64({begin_s} + number * {CADENCE_S}, 9, 'UTC')"
    store.command(
        "INSERT INTO samples (device, row, row_kind, source, boot_id, sampled_at, arrived_at, rx_bytes, tx_bytes,"
        f" oper_up, admin_up, module_temperature_c) SELECT device, row, 'port', source, 1, {at} AS at, at,"
        f" number * 100000000000 AS bytes, bytes, 1, 1, 45 FROM {_PORTS}"
        f" CROSS JOIN numbers({(end_s - begin_s) // CADENCE_S}) AS n WHERE {where}"
    )


class Filled(NamedTuple):
    """The rows of each table, the server's CPU seconds for the groups of an hour, and True if merges have ended."""

    rows: dict[str, int]
    groups_cpu_s: float
    merged: bool


def fill(store: ClickHouse, pid: int, pods: int, uplinks: int, end_s: int, minutes_s: int, messages_s: int) -> Filled:
    """Insert the rows of a week, and minutes and messages of its last seconds."""
    fill_board(store, pods, WEEK_S, end_s, messages_s, uplinks)
    hour_s = end_s // HOUR_S * HOUR_S
    newest_s = hour_s - NEWEST_HOURS * HOUR_S
    for begin_s in range(hour_s - WEEK_S, newest_s, DAY_S):
        fill_rollups(store, "1h", HOUR_S, begin_s, min(begin_s + DAY_S, newest_s))
    group_hours(store, store.params, WEEK_S // HOUR_S + 1)
    groups_cpu_s = 0.0
    for begin_s in range(newest_s, hour_s, HOUR_S):
        fill_rollups(store, "1h", HOUR_S, begin_s, begin_s + HOUR_S)
        before = cpu_s(pid)
        group_hours(store, store.params, NEWEST_HOURS + 2)
        groups_cpu_s += (cpu_s(pid) - before) / NEWEST_HOURS
    for begin_s in range(end_s // 60 * 60 - minutes_s, end_s // 60 * 60, QUARTER_S):
        fill_rollups(store, "1m", 60, begin_s, begin_s + QUARTER_S)
    fill_readings(store, end_s - WEEK_S, end_s - 600, _NEAR)
    fill_readings(store, end_s - 600, end_s, "1")
    merged = wait_for_merges(store, IDLE_S, MERGES_S)
    counted = store.query(
        "SELECT table, sum(rows) FROM system.parts WHERE active AND database = currentDatabase() GROUP BY table"
        " ORDER BY table"
    )
    return Filled({str(table): int(rows) for table, rows in counted}, groups_cpu_s, merged)


def pid_of(server: EmbeddedClickHouse) -> int:
    """Return the process id of a running server."""
    assert server.pid is not None
    return server.pid


def wait_for_merges(clickhouse: ClickHouse, idle_s: float, timeout_s: float) -> bool:
    """Wait until no merge has run for a while; return False if one still runs after the timeout."""
    deadline_s = time.monotonic() + timeout_s
    idle_since = time.monotonic()
    while time.monotonic() - idle_since < idle_s:
        if time.monotonic() >= deadline_s:
            return False
        if clickhouse.query("SELECT count() FROM system.merges")[0][0]:
            idle_since = time.monotonic()
        time.sleep(0.5)
    return True


def timed(server: EmbeddedClickHouse, sql: str) -> tuple[float, float, int]:
    """Run a query; return the seconds until its whole answer, the server's CPU seconds, and the number of rows read."""
    headers = {"X-ClickHouse-User": server.user, "X-ClickHouse-Key": server.password}
    request = urllib.request.Request(f"{server.url}/?database=railsight", f"{sql}\nFORMAT JSON".encode(), headers)
    pid = pid_of(server)
    began, before = time.perf_counter(), cpu_s(pid)
    with urllib.request.urlopen(request, timeout=300) as answer:
        read = json.load(answer)["statistics"]["rows_read"]
    return time.perf_counter() - began, cpu_s(pid) - before, int(read)


def measure(
    server: EmbeddedClickHouse, end_s: int, boards: Sequence[str], ranges: Sequence[str]
) -> Iterator[PanelTime]:
    """Open each board over each range, and time the queries of its panels."""
    run = http_run(server.url, server.user, server.password, "railsight")
    for name in boards:
        board = json.loads((FOLDER / f"{name}.json").read_text())
        board["panels"] = [panel for panel in opened_panels(board) if panel["type"] != "row"]
        for panel in board["panels"]:
            panel["maxDataPoints"] = panel.get("maxDataPoints", POINTS * panel["gridPos"]["w"] // 24)
        for label in ranges:
            range_s = RANGES_S[label]
            chosen = {"host": HOST} if name == "host" else {}
            view = opened(board, run, View(end_s - range_s, end_s, 10, {}), chosen)
            sums: dict[str, list[tuple[float, float, int]]] = {}
            for panel, _, sql in panel_queries(board, view):
                took = [timed(server, sql) for _ in range(REPEATS)]
                medians = statistics.median(one[0] for one in took), statistics.median(one[1] for one in took)
                sums.setdefault(panel["title"], []).append((*medians, took[-1][2]))
            for title, queries in sums.items():
                seconds, cpu, read = (sum(figures) for figures in zip(*queries, strict=True))
                yield PanelTime(name, title, label, seconds, cpu, int(read))


def page(times: list[PanelTime], filled: Filled, load: float) -> Iterator[str]:
    """Yield the lines of the table, and of the panels that exceed the limits."""
    rows = ", ".join(f"{table} {count:,}" for table, count in filled.rows.items())
    ports = 2 * filled.rows["inventory_links"]
    rate = ports / CADENCE_S
    yield (
        f"{os.cpu_count()} cores, load {load:.0f}; median of {REPEATS}. {ports:,} ports, {rate:,.0f}"
        f" port-samples a second.{'' if filled.merged else ' Merges ran beside.'} Rows: {rows}."
    )
    yield ""
    yield f"The groups of ports of an hour took {filled.groups_cpu_s:.2f} CPU s."
    yield ""
    ranges = list(dict.fromkeys(one.range for one in times))
    yield f"| board | panel |{''.join(f' {label}, s | CPU s | rows read |' for label in ranges)}"
    yield f"|---|---|{'---|---|---|' * len(ranges)}"
    found = {(one.board, one.panel, one.range): one for one in times}
    for board, panel in dict.fromkeys((one.board, one.panel) for one in times):
        cells = [found[board, panel, label] for label in ranges]
        shown = " | ".join(f"{one.seconds:.2f} | {one.cpu_s:.2f} | {one.read_rows:,}" for one in cells)
        yield f"| {board} | {panel} | {shown} |"
    yield ""
    for label in dict.fromkeys(one.range for one in times):
        limit_s = LIMITS_S[label]
        late = [
            f"{one.board}/{one.panel} {one.seconds:.2f} s"
            for one in times
            if one.range == label and one.seconds > limit_s
        ]
        yield f"Longer than {limit_s:.0f} s over {label}: {', '.join(late) or 'none'}."
        yield ""


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=8, help="of 32 hosts with 8 GPUs each")
    parser.add_argument("--uplinks", type=int, default=1, help="links of a leaf to each spine")
    parser.add_argument("--ranges", default=",".join(RANGES_S))
    parser.add_argument("--boards", default=",".join(BOARDS))
    given = parser.parse_args()
    ranges = given.ranges.split(",")
    with tempfile.TemporaryDirectory() as folder, EmbeddedClickHouse(ClickHouseParams(data=Path(folder))) as server:
        login = {"url": server.url, "user": server.user, "password": server.password, "timeout_s": 600}
        store = ClickHouse(params_of(StoreParams, {**login, "database": "railsight"}))
        migrate.apply(store, migrate.shipped_migrations())
        end_s = int(time.time())
        last_s = (DAY_S, DAY_S) if "a day" in ranges else (2 * HOUR_S, 3 * HOUR_S)
        filled = fill(store, pid_of(server), given.pods, given.uplinks, end_s, *last_s)
        store.close()
        times = list(measure(server, end_s, given.boards.split(","), ranges))
    for line in page(times, filled, os.getloadavg()[1]):
        sys.stdout.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
