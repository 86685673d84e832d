"""Measures what the wall costs ClickHouse: the CPU of its server while the Fabric board refreshes every ten seconds.

`python -m tests.bench.wall_cost [--pods 8] [--refreshes 12] [--hours 1] [--json]`. The default is a fabric of 2,048
GPUs (256 hosts, 64 leaves, 16 spines), each device read every ten seconds for the time range, with 400 findings of
which 20 are open: synthetic rows of the tables that the board reads, inserted by SQL; messages also by the hour, for
the hours that are over. Every panel and annotation is queried at each refresh, also those further down, which Grafana
does not query before they are on the screen.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from dashboards.__main__ import FOLDER
from lab.constants import params_of
from lab.preview.__main__ import http_run
from lab.preview.reading import Run, View, answers, opened
from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse
from streams.runtime.topic_io import inventory_records
from streams.store import migrate
from streams.store.clickhouse import ClickHouse
from streams.store.params import StoreParams
from streams.store.persist.hour_rollups import OVER_AFTER_S
from streams.store.rows.inventory_rows import InventoryBuilder
from streams.store.rows.native_format import encode_block
from streams.store.rows.row_builder import SourcedMessage
from streams.wire import topics

TICK = os.sysconf("SC_CLK_TCK")
ANNOTATIONS = "annotations"
CADENCE_S, REFRESH_S = 10, 10
FINDINGS, OPEN = 400, 20
SMALLEST = 100
"""Queries of `SELECT 1`: what any query costs on this machine at this time, to compare runs by."""
ON_SCREEN = 25
"""Rows of Grafana's grid that 1,080 pixels show below its own bars; it does not query panels further down."""


def cpu_s(pid: int) -> float:
    """Return user and system time of a process with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def fill(
    store: ClickHouse, pods: int, seconds: int, end_s: int, messages_s: int | None = None, uplinks: int = 1
) -> None:
    """Insert the inventory, and by SQL what devices sent and stages reported until `end_s`.

    Messages are by the hour for all the time, and one by one for its last `messages_s` (default: all). `uplinks` are
    the links of a leaf to each spine.
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
    """Insert the messages of each device by the hour, of the hours that the sink has rolled up by the end."""
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


def measure(run: Run, pid: int, refreshes: int, view: View) -> dict[str, object]:
    """Refresh the board, ten seconds apart; return the cost of the server, whole and by panel."""
    board = json.loads((FOLDER / "fabric.json").read_text())
    view = opened(board, run, view)
    answers(board, run, view)  # the first opening reads files and compiles
    began, before = time.monotonic(), cpu_s(pid)
    panels: dict[str, float] = {}
    for number in range(refreshes):
        for panel in board["panels"]:
            start = cpu_s(pid)
            answers({**board, "panels": [panel]}, run, view)
            panels[panel["title"]] = panels.get(panel["title"], 0) + cpu_s(pid) - start
        start = cpu_s(pid)
        for one in board["annotations"]["list"]:
            run(view.expand(one["target"]["rawSql"]))
        panels[ANNOTATIONS] = panels.get(ANNOTATIONS, 0) + cpu_s(pid) - start
        time.sleep(max(began + (number + 1) * REFRESH_S - time.monotonic(), 0))
    used = cpu_s(pid) - before
    before = cpu_s(pid)
    for _ in range(SMALLEST):
        run("SELECT 1")
    smallest = (cpu_s(pid) - before) / SMALLEST
    shown = [panel["title"] for panel in board["panels"] if panel["gridPos"]["y"] < ON_SCREEN]
    return {
        "core": used / (refreshes * REFRESH_S),
        "cpu_s_per_refresh": used / refreshes,
        "cpu_s_per_refresh_on_screen": sum(panels[title] for title in (*shown, ANNOTATIONS)) / refreshes,
        "core_on_screen": sum(panels[title] for title in (*shown, ANNOTATIONS)) / refreshes / REFRESH_S,
        "select_1_cpu_ms": round(1000 * smallest, 1),
        "panels_cpu_ms": {
            title: round(1000 * s / refreshes) for title, s in sorted(panels.items(), key=lambda one: -one[1])
        },
    }


def main() -> int:
    """Print the result; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=8, help="of 32 hosts with 8 GPUs each")
    parser.add_argument("--refreshes", type=int, default=12)
    parser.add_argument("--hours", type=float, default=1, help="time range of the board")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedClickHouse(ClickHouseParams(data=Path(folder))) as server:
        login = {"url": server.url, "user": server.user, "password": server.password, "database": "railsight"}
        store = ClickHouse(params_of(StoreParams, login))
        migrate.apply(store, migrate.shipped_migrations())
        end_s, seconds = int(time.time()), round(given.hours * 3600)
        fill(store, given.pods, seconds, end_s)
        ((devices,),) = store.query("SELECT count() FROM inventory_devices")
        ((messages,),) = store.query("SELECT count() FROM sample_messages")
        store.close()
        assert server.pid is not None
        run = http_run(server.url, server.user, server.password, "railsight")
        found = measure(run, server.pid, given.refreshes, View(end_s - seconds, end_s, 10, {}))
    result = {"gpus": given.pods * 256, "devices": devices, "messages": messages, "hours": given.hours} | found
    if given.json:
        sys.stdout.write(json.dumps(result) + "\n")
    else:
        for name, value in result.items():
            sys.stdout.write(f"{name}: {value}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
