"""Measures how many rows a second the sink stores, and the cost of a million rows by process: Kafka to ClickHouse.

`python -m tests.bench.sink_rows [--rounds 20] [--json]`. The load is the fabric of DESIGN 8 in miniature: readings of
24 counters and gauges, of switches with 128 ports and hosts with 8 in the proportion of 5,120 to 16,384; all of it is
in Kafka before the sink starts, so that its rate is what it can do, not what it is given. A round is a second of the
largest fabric (78,640 rows, ten seconds of a tenth of it): `--rounds 200` is more than three minutes of it.

Merges belong to the price of the rows: the clock stops when none has run for `--quiet` seconds, and
`merged_rows_per_row` is the number of rewrites of a row until then.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from lab.bench.clickhouse_metrics import wait_for_merges
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.fabric.catalogue import Metric
from streams.runtime.admin import ensure_topics
from streams.wire import topics
from streams.wire.models import RowKind, Samples, Source, Table
from tests.integration.store.rig import NS, PARTITIONS, Rig, producing, running

SWITCHES, HOSTS = 512, 1638
"""A tenth of the largest published fabric: 78,640 rows a round."""

POLL_S = 1.0
MERGES_S = 900.0
"""A question costs the server 3 to 6 ms of CPU, which must not be taken for the price of rows."""

SCALARS = [metric for metric in Metric if metric.index is None]
COUNTERS = tuple(metric for metric in SCALARS if metric.counter)[:20]
GAUGES = tuple(metric for metric in SCALARS if not metric.counter)[:4]
TICK = os.sysconf("SC_CLK_TCK")


def reading(device: str, ports: int, turn: int, chance: np.random.Generator) -> Samples:
    """Counters of which a third move much and the others hardly, as on a real port."""
    rates = np.array([1 << 30] * 7 + [3] * 13, np.uint64)[:, None]
    counters = np.uint64(turn) * rates + chance.integers(0, 1000, (20, ports), np.uint64) * (rates > 3)
    gauges = np.ones((4, ports))
    at_ns = NS + turn * 10**10
    return Samples(
        device, Source.SOURCE_GNMI, "bench", 1, turn, at_ns, at_ns + 10**6, 1, RowKind.ROW_KIND_PORT,
        tuple(f"Ethernet{port}" for port in range(ports)), ports,
        Table(COUNTERS, (-1,) * 20, counters), Table(GAUGES, (-1,) * 4, gauges),
    )  # fmt: skip


async def fill(bootstrap: str, rounds: int) -> int:
    """Put the load into Kafka; answers its rows."""
    chance = np.random.default_rng(1)
    rows = 0
    async with producing(bootstrap) as producer:
        for turn in range(rounds):
            for number in range(SWITCHES + HOSTS):
                ports = 128 if number < SWITCHES else 8
                record = topics.encode(topics.SAMPLES, reading(f"device-{number:05d}", ports, turn, chance))
                await producer.send(
                    record.topic.name, key=record.key, value=record.value, partition=record.partition(PARTITIONS)
                )
                rows += ports
    return rows


def cpu_s(pid: int) -> float:
    """User and system time of a process and all its threads, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def peak_mib(pid: int) -> float:
    """The most memory that a process held, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def measure(rounds: int, quiet_s: float) -> dict[str, float]:
    """Fill Kafka, start a sink, and time it from its first stored row to its last."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with EmbeddedKafka(KafkaParams(data=folder / "kafka")) as kafka, running(Rig(kafka, folder)) as rig:
            asyncio.run(ensure_topics(rig.settings))
            rows = asyncio.run(fill(kafka.bootstrap, rounds))
            return follow(rig, rows, quiet_s)


def follow(rig: Rig, rows: int, quiet_s: float) -> dict[str, float]:
    """One sink over what is in Kafka."""
    database = rig.database()
    process = rig.clickhouse._process
    assert process is not None and process.pid is not None
    server = process.pid
    sink = database.start_sink(linger_s=1.0)
    try:
        while not (begun := database.count("samples")):
            time.sleep(POLL_S)
        started, sink_before, server_before = time.monotonic(), cpu_s(sink.pid), cpu_s(server)
        while database.count("samples") < rows:
            time.sleep(POLL_S)
        elapsed, sink_cpu = time.monotonic() - started, cpu_s(sink.pid) - sink_before
        if not wait_for_merges(database.client, quiet_s, MERGES_S):
            raise TimeoutError(f"ClickHouse still merges after {MERGES_S} s: its CPU seconds would lack some")
        millions = (rows - begun) / 1e6
        merged = database.rows("SELECT sum(value) FROM system.events WHERE event = 'MergedRows'")[0][0]
        disk = "SELECT sum(bytes_on_disk), count() FROM system.parts WHERE active AND table = 'samples' AND database = "
        size, parts = database.rows(f"{disk}'{database.name}'")[0]
        return {
            "rows": rows,
            "rows_per_s": round((rows - begun) / elapsed),
            "sink_cpu_s_per_million": round(sink_cpu / millions, 3),
            "clickhouse_cpu_s_per_million": round((cpu_s(server) - server_before) / millions, 3),
            "sink_peak_mib": round(peak_mib(sink.pid)),
            "bytes_per_row": round(size / rows, 1),
            "parts": parts,
            "merged_rows_per_row": round(merged / rows, 2),
            "load_of_the_machine": os.getloadavg()[0],
        }
    finally:
        database.end()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--quiet", type=float, default=6.0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measure(given.rounds, given.quiet)
    if given.json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        sys.stdout.writelines(f"{name:32} {value:>12,}\n" for name, value in found.items())


if __name__ == "__main__":
    main()
