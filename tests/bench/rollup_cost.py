"""Measures what rollups by minute cost: without, by the sink, and by a materialized view, on the same readings.

    python -m tests.bench.rollup_cost [--minutes 2] [--scale 4]

The rows are those of clickhouse_parts.py, of a `scale`-th of the largest fabric: smaller blocks cost more a row. Each
way has its own server: CPU seconds a million port-samples of the process that builds the rows and of the server, with
one merge of everything; first for the samples, then for their rollups alone. A view fills its table within the insert
of the samples, so that its `insert` is what that takes longer than without.
`hour` is reading the minutes for the rollup by hour, of an hour that has the rows of one minute sixty times, for one
device in eight; its own rows are one in sixty of them. The view has the columns
of samples_1m that can be merged: of each counter its largest value, of each gauge its extremes, sum and count. That is
without the increase, which would cost more.
"""

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import SecretStr

from lab.constants import with_constants
from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse
from streams.fabric.catalogue import Metric
from streams.store.clickhouse import ClickHouse
from streams.store.migrate import apply, shipped_migrations
from streams.store.params import StoreParams
from streams.store.persist.hour_rollups import IN_ORDER, hour_of
from streams.store.persist.serve import configure_process
from streams.store.rows.deduplication import SequenceDedup
from streams.store.rows.minute_rollups import MinuteRollups
from streams.store.rows.native_format import encode_block
from streams.store.rows.row_builder import TableRows
from streams.store.rows.sample_layout import column_name, is_scalar
from streams.store.rows.sample_rows import SampleBuilder
from tests.bench import clickhouse_parts
from tests.bench.clickhouse_parts import CADENCE_NS, PARTITIONS, Partition
from tests.bench.sink_rows import cpu_s

WAYS = ("none", "sink", "view")
MINUTE_NS = 60 * 10**9
NO_BACKGROUND_MERGES = "max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1"


class Cost(NamedTuple):
    """CPU seconds a million port-samples, and bytes on disk of a port-sample."""

    build: float
    insert: float
    merge: float
    rollup_build: float
    rollup_insert: float
    rollup_merge: float
    hour: float
    sample_bytes: float
    rollup_bytes: float

    @property
    def rollups(self) -> float:
        """The cost of the rollups in all."""
        return self.rollup_build + self.rollup_insert + self.rollup_merge + self.hour


class TimedRollups(MinuteRollups):
    """Counts the CPU seconds of folding."""

    spent_s = 0.0

    def finish(self) -> list[TableRows]:
        """Fold a block."""
        before = time.process_time()
        try:
            return super().finish()
        finally:
            self.spent_s += time.process_time() - before


def view_statements() -> list[str]:
    """Return the table and the materialized view of the comparison."""
    counters = [column_name(metric) for metric in filter(is_scalar, Metric) if metric.counter]
    gauges = [column_name(metric) for metric in filter(is_scalar, Metric) if not metric.counter]
    columns = [f"{name} SimpleAggregateFunction(max, Nullable(UInt64)) CODEC(T64, LZ4)" for name in counters]
    values = list(counters)
    for name in gauges:
        for suffix, function, kind in (("min", "min", "Float32"), ("max", "max", "Float32"), ("sum", "sum", "Float64")):
            columns.append(f"{name}_{suffix} SimpleAggregateFunction({function}, Nullable({kind})) CODEC(LZ4)")
            values.append(f"{name} AS {name}_{suffix}")
    key = "device, row, row_kind, source"
    settings = (
        "min_bytes_for_wide_part = 0, min_rows_for_wide_part = 400000, auto_statistics_types = '',"
        " nullable_serialization_version = 'allow_sparse'"
    )
    types = ", ".join(f"{name} LowCardinality(String)" for name in key.split(", "))
    return [
        f"CREATE TABLE by_view ({types}, bucket DateTime('UTC'), readings SimpleAggregateFunction(sum, UInt64),"
        f" {', '.join(columns)}) ENGINE = AggregatingMergeTree ORDER BY ({key}, bucket) SETTINGS {settings}",
        f"CREATE MATERIALIZED VIEW by_view_fill TO by_view AS SELECT {key}, toStartOfMinute(sampled_at) AS bucket,"
        f" toUInt64(1) AS readings, {', '.join(values)} FROM samples",
    ]


def measure(way: str, minutes: int) -> Cost:
    """Return the cost of one way."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedClickHouse(ClickHouseParams(data=Path(folder) / "clickhouse")) as server,
    ):
        assert server._process is not None
        assert server._process.pid is not None
        pid = server._process.pid
        database = ClickHouse(
            with_constants(StoreParams, timeout_s=600)(url=server.url, password=SecretStr(server.password))
        )
        apply(database, shipped_migrations())
        for statement in view_statements() if way == "view" else ():
            database.command(statement)
        table = "by_view" if way == "view" else "samples_1m"
        for merged in ("samples", table):  # no merge but the one that is asked for
            database.command(f"ALTER TABLE {merged} MODIFY SETTING {NO_BACKGROUND_MERGES}")
        began_ns = time.time_ns() // MINUTE_NS * MINUTE_NS
        chance = np.random.default_rng(1)
        partitions = [Partition(number, chance) for number in range(PARTITIONS)]
        folds = [TimedRollups() for _ in partitions] if way == "sink" else [None for _ in partitions]
        for one, fold in zip(partitions, folds, strict=True):
            one._builder = SampleBuilder(SequenceDedup(10**9), fold)
        # One more round: the first reading of a minute completes the one before.
        rows, build_s = 0, 0.0
        encode_s, insert_s, merge_s = defaultdict[str, float](float), defaultdict[str, float](float), dict[str, float]()
        for turn in range(minutes * MINUTE_NS // CADENCE_NS + 1):
            for one in partitions:
                before = time.process_time()
                parts = one.block(turn, began_ns)
                build_s += time.process_time() - before
                for part in parts:
                    before = time.process_time()
                    data = encode_block(part.columns)
                    encode_s[part.table] += time.process_time() - before
                    before = cpu_s(pid)
                    database.insert(part.table, part.column_names, data, f"{one.number}-{turn}")
                    insert_s[part.table] += cpu_s(pid) - before
                    rows += part.count if part.table == "samples" else 0
        for merged in ("samples", table):
            before = cpu_s(pid)
            database.command(f"OPTIMIZE TABLE {merged} FINAL")
            merge_s[merged] = cpu_s(pid) - before
        sizes: dict[str, int] = {
            row[0]: row[1]
            for row in database.query("SELECT table, sum(bytes_on_disk) FROM system.parts WHERE active GROUP BY table")
        }
        hour = hour_cost(database, pid, began_ns // 10**9) if way == "sink" else 0.0
        database.close()
        fold_s, millions = sum(fold.spent_s for fold in folds if fold), rows / 1e6
        return Cost(
            (build_s - fold_s + sum(encode_s.values()) - encode_s[table]) / millions,
            (sum(insert_s.values()) - insert_s[table]) / millions, merge_s["samples"] / millions,
            (fold_s + encode_s[table]) / millions, insert_s[table] / millions, merge_s[table] / millions, hour,
            sizes["samples"] / rows, sizes.get(table, 0) / rows,
        )  # fmt: skip


def hour_cost(database: ClickHouse, pid: int, minute_s: int) -> float:
    """Return the CPU seconds a million port-samples of reading an hour of minutes like the one at `minute_s`."""
    hour_s = (minute_s // 3600 + 1) * 3600
    database.command(
        f"INSERT INTO samples_1m SELECT * REPLACE (toDateTime({hour_s} + arrayJoin(range(60)) * 60, 'UTC') AS bucket)"
        f" FROM (SELECT * FROM samples_1m WHERE bucket = toDateTime({minute_s}, 'UTC') AND cityHash64(device) % 8 = 0)"
    )
    database.command("OPTIMIZE TABLE samples_1m FINAL")
    count = f"SELECT sum(readings) FROM samples_1m WHERE bucket >= toDateTime({hour_s}, 'UTC')"
    readings = int(database.query(count)[0][0])
    before = cpu_s(pid)
    hour = hour_of(database, "samples", hour_s)
    database.query(f"SELECT count() FROM ({hour.select}) WHERE NOT ignore(*) SETTINGS {IN_ORDER}")
    return (cpu_s(pid) - before) / readings * 1e6


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, default=2)
    parser.add_argument("--scale", type=int, default=4)
    parser.add_argument("--ways", default=",".join(WAYS))
    given = parser.parse_args()
    configure_process()
    ways = given.ways.split(",")
    if "view" in ways and ways[0] != "none":
        parser.error("the insert of a view is compared with that of none, which comes first: --ways none,view")
    clickhouse_parts.KINDS = [
        (source, kind, count // given.scale, ports) for source, kind, count, ports in clickhouse_parts.KINDS
    ]
    sys.stdout.write(f"{'':8}{'samples':>24}{'rollups':>40}{'bytes a sample':>20}\n")
    heads = ("build", "insert", "merge", "build", "insert", "merge", "hour", "sum")
    sys.stdout.write(f"rollups {''.join(f'{head:>8}' for head in heads)}   samples   rollups\n")
    costs: dict[str, Cost] = {}
    for way in ways:
        cost = costs[way] = measure(way, given.minutes)
        if way == "view":
            without_s = costs["none"].insert
            cost = cost._replace(insert=without_s, rollup_insert=cost.insert - without_s)
        figures = "".join(f"{value:8.3f}" for value in (*cost[:7], cost.rollups))
        sys.stdout.write(f"{way:8}{figures}{cost.sample_bytes:10.1f}{cost.rollup_bytes:10.1f}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
