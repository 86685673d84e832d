"""Measures the embedded ClickHouse alone for samples: CPU seconds per million rows, inserted and merged.

    python -m tests.bench.clickhouse_parts [--rounds 8] [--alter 'ALTER TABLE samples MODIFY SETTING …']

The rows are those of `railsight bench pipeline --gpus 131072`: a round is one cadence of the largest fabric, a block
for each of 8 partitions of Kafka, 98,304 rows with 24 metrics each, of 640 switches and 2,048 hosts, with the block of
`sample_messages` that goes with it. Merges wait until all blocks are there; then one merge takes all of them. What the
sink, Kafka and the small topics cost is not in it (sink_rows.py, `railsight bench pipeline`); making the rows is this
process's own work and is not counted. Run it twice: other work on the machine shows as a third more.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from pydantic import SecretStr

from lab.bench.load.group import GAUGES, Group, Reader
from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse
from streams.store.clickhouse import ClickHouse
from streams.store.migrate import apply, shipped_migrations
from streams.store.params import StoreParams
from streams.store.rows.deduplication import SequenceDedup
from streams.store.rows.native_format import encode_block
from streams.store.rows.row_builder import SourcedMessage, TableRows
from streams.store.rows.sample_rows import SampleBuilder
from streams.wire.models import RowKind, Samples, Source, Table
from tests.bench.sink_rows import cpu_s

PARTITIONS = 8
CADENCE_NS = 10**10
KINDS = [(Source.SOURCE_NIC, "host", 16384, 8), (Source.SOURCE_GNMI, "leaf", 5120, 128)]
"""Source, name, devices and ports of each."""
AT_ONCE = 2


class Partition:
    """The devices of one partition, and their blocks."""

    def __init__(self, number: int, chance: np.random.Generator) -> None:
        self.number = number
        self._offset = 0
        self._builder = SampleBuilder(SequenceDedup(10**9))
        self._groups = []
        for source, kind, count, height in KINDS:
            names = [f"{kind}-{i:05d}" for i in range(number, count, PARTITIONS)]
            ports = tuple(f"Ethernet{port}" for port in range(height))
            self._groups.append(
                (ports, Group(Reader(source, "bench", 1, CADENCE_NS / 1e9), names, [ports] * len(names), chance))
            )

    def block(self, turn: int, began_ns: int) -> list[TableRows]:
        """Return the sink's block of one cadence."""
        for ports, group in self._groups:
            group.grow(0, len(group.names))
            for i, name in enumerate(group.names):
                at_ns = began_ns + turn * CADENCE_NS + i * CADENCE_NS // len(group.names)
                counters = Table(group.metrics, (-1,) * len(group.metrics), group.counters[i])
                gauges = Table(GAUGES, (-1,) * len(GAUGES), group.gauges[i])
                message = Samples(
                    name, group.reader.source, "bench", 1, turn, at_ns, at_ns + 10**6, group.boot_id[i],
                    RowKind.ROW_KIND_PORT, ports, 1, counters, gauges,
                )  # fmt: skip
                self._builder.add(SourcedMessage(self.number, self._offset, at_ns // 10**6, message))
                self._offset += 1
        return self._builder.finish()


def put(database: ClickHouse, rounds: int) -> Iterator[int]:
    """Insert round after round, two blocks at once; yields the rows of each."""
    chance, began_ns = np.random.default_rng(1), time.time_ns()
    partitions = [Partition(number, chance) for number in range(PARTITIONS)]

    def insert(rows: list[TableRows], token: str) -> int:
        for part in rows:
            database.insert(part.table, part.column_names, encode_block(part.columns), token)
        return rows[0].count

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for turn in range(rounds):
            for begin in range(0, PARTITIONS, AT_ONCE):
                pair = partitions[begin : begin + AT_ONCE]
                made = [(one.block(turn, began_ns), f"{one.number}-{turn}") for one in pair]
                yield sum(pool.map(lambda given: insert(*given), made))


def measure(rounds: int, alter: str) -> dict[str, float]:
    """Insert, then merge; CPU seconds of the server a million rows."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedClickHouse(ClickHouseParams(data=Path(folder) / "clickhouse")) as server,
    ):
        assert server._process is not None
        assert server._process.pid is not None
        pid = server._process.pid
        database = ClickHouse(StoreParams(url=server.url, password=SecretStr(server.password)))
        apply(database, shipped_migrations())
        for statement in filter(None, alter.split(";")):
            database.command(statement)
        database.command("SYSTEM STOP MERGES")
        before = cpu_s(pid)
        millions = sum(put(database, rounds)) / 1e6
        inserted, size_inserted = cpu_s(pid), size(database)
        database.command("SYSTEM START MERGES")
        database.command("OPTIMIZE TABLE samples FINAL")
        return {
            "rows": round(millions * 1e6),
            "insert_cpu_s_per_million": round((inserted - before) / millions, 3),
            "merge_cpu_s_per_million": round((cpu_s(pid) - inserted) / millions, 3),
            "inserted_bytes_per_row": round(size_inserted / millions / 1e6, 1),
            "merged_bytes_per_row": round(size(database) / millions / 1e6, 1),
        }


def size(database: ClickHouse) -> int:
    """Return the disk space of the active parts of samples."""
    found = database.query("SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table = 'samples'")
    return int(found[0][0])


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--alter", default="", help="statements before the first insert, separated by semicolons")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measure(given.rounds, given.alter)
    if given.json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        sys.stdout.writelines(f"{name:32} {value:>12,}\n" for name, value in found.items())


if __name__ == "__main__":
    main()
