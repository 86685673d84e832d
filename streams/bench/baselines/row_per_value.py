"""gnmic's ClickHouse output: a typed row for each value of each port, in the table that it creates.

The table is that of its documentation (outputs/clickhouse_output.md, "Table layout", and the codecs of its CREATE
TABLE); target, path and tags are those of its event format for OpenConfig interfaces. This client is faster than
the real one: it reads columnar messages instead of gNMI updates, builds rows as Arrow columns without a loop
(clickhouse-connect's `insert_arrow`), and inserts 500,000 at once, where gnmic's default is 1,000 and ClickHouse's
guide to bulk inserts recommends 10,000 to 100,000.
"""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from streams.bench.baselines.task import Tally, Task, run_baseline
from streams.embedded.passwords import read_password
from streams.fabric.catalogue import CATALOGUE, Metric
from streams.wire.codec import from_bytes
from streams.wire.models import Samples

BLOCK_ROWS = 500_000
TABLE = "gnmic_telemetry"
CREATE = f"""CREATE TABLE {TABLE} (
    timestamp DateTime64(9, 'UTC') CODEC(Delta, ZSTD),
    ingest_ts DateTime64(9, 'UTC') DEFAULT now64(9) CODEC(Delta, ZSTD),
    target LowCardinality(String), source LowCardinality(String), subscription LowCardinality(String),
    name LowCardinality(String), path String CODEC(ZSTD(3)), tags Map(LowCardinality(String), String),
    value_type LowCardinality(String), value_int Nullable(Int64) CODEC(DoubleDelta, ZSTD),
    value_uint Nullable(UInt64) CODEC(DoubleDelta, ZSTD), value_float Nullable(Float64) CODEC(Gorilla, ZSTD),
    value_bool Nullable(Bool), value_string String CODEC(ZSTD(3)), is_delete Bool DEFAULT false,
    INDEX idx_path path TYPE bloom_filter(0.01) GRANULARITY 4,
    INDEX idx_tag_keys mapKeys(tags) TYPE bloom_filter(0.01) GRANULARITY 4
) ENGINE = MergeTree PARTITION BY toYYYYMMDD(timestamp) ORDER BY (target, path, timestamp)
TTL toDateTime(timestamp) + INTERVAL 30 DAY"""
PATHS = {
    metric: f"/interfaces/interface/state/{'counters/' if CATALOGUE[metric].counter else ''}"
    + metric.name.lower().replace("_", "-")
    for metric in Metric
}
TAGS = pa.array(["interface_name", "source", "subscription-name"])


class DictionaryColumn:
    """Strings by number, so that a column is built without a loop over rows."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def code(self, text: str) -> int:
        """Return the number of a string."""
        return self._codes.setdefault(text, len(self._codes))

    def column(self, codes: Any) -> Any:
        """Return the strings of these numbers as an Arrow dictionary."""
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(list(self._codes)))


class Block:
    """The rows of some messages as columns of the table."""

    def __init__(self) -> None:
        self.rows = 0
        self._targets, self._ports, self._paths = DictionaryColumn(), DictionaryColumn(), DictionaryColumn()
        self._parts: list[tuple[Any, ...]] = []

    def add(self, samples: Samples) -> None:
        """Add the rows of a message: one per value."""
        ports = np.array([self._ports.code(port) for port in samples.row], np.int32)
        for table in (samples.counters, samples.gauges):
            columns, rows = table.values.shape
            paths = np.array([self._paths.code(PATHS[metric]) for metric in table.metric], np.int32)
            size = columns * rows
            target = np.full(size, self._targets.code(samples.device), np.int32)
            at_ns = np.full(size, samples.sampled_at_ns, np.int64)
            is_counter = np.full(size, table.values.dtype.kind == "u")
            numbers = table.values.ravel()
            self._parts.append(
                (at_ns, target, np.tile(ports, columns), np.repeat(paths, rows), is_counter,
                 numbers.astype(np.uint64), numbers.astype(np.float64))
            )  # fmt: skip
            self.rows += size

    def table(self) -> Any:
        """Return the rows as an Arrow table; missing columns get the table's defaults."""
        at_ns, targets, ports, paths, is_counter, counts, numbers = map(np.concatenate, zip(*self._parts, strict=True))
        target_names = self._targets.column(targets)
        same = np.zeros(len(at_ns), np.int32)
        subscription = pa.DictionaryArray.from_arrays(pa.array(same), pa.array(["interfaces"]))
        kinds = pa.DictionaryArray.from_arrays(pa.array((~is_counter).astype(np.int32)), pa.array(["uint", "float"]))
        return pa.table({
            "timestamp": pa.array(at_ns, pa.timestamp("ns", "UTC")),
            "target": target_names, "source": target_names, "subscription": subscription, "name": subscription,
            "path": self._paths.column(paths), "tags": self._tags(targets, ports), "value_type": kinds,
            "value_uint": pa.array(counts, mask=~is_counter), "value_float": pa.array(numbers, mask=is_counter),
        })  # fmt: skip

    def _tags(self, targets: Any, ports: Any) -> Any:
        size = len(targets)
        names, devices = self._ports.column(ports).dictionary, self._targets.column(targets).dictionary
        values = pa.concat_arrays([names, devices, pa.array(["interfaces"])])
        codes = np.stack([ports, targets + len(names), np.full(size, len(values) - 1)], axis=1).ravel()
        keys = TAGS.take(pa.array(np.tile(np.arange(3, dtype=np.int32), size)))
        return pa.MapArray.from_arrays(
            pa.array(np.arange(size + 1, dtype=np.int32) * 3), keys, values.take(pa.array(codes))
        )


async def store(task: Task) -> Tally:
    """Read until every message is read; each block is acknowledged before the next one is filled."""
    import clickhouse_connect
    from aiokafka import AIOKafkaConsumer

    tally, block = Tally(task), Block()
    client = await asyncio.to_thread(
        clickhouse_connect.get_client,
        dsn=task.clickhouse,
        password=read_password(Path(task.clickhouse_password_file)),
        compress=False,
    )
    await asyncio.to_thread(client.command, CREATE)
    consumer = AIOKafkaConsumer(
        task.topic, bootstrap_servers=task.bootstrap, group_id=task.group, auto_offset_reset="earliest"
    )
    async with consumer:
        while not tally.full:
            for records in (await consumer.getmany(timeout_ms=200, max_records=200)).values():
                for record in records[: tally.left]:
                    samples = from_bytes(Samples, record.value)
                    block.add(samples)
                    tally.add(samples)
            if block.rows and (block.rows >= BLOCK_ROWS or tally.full):
                await asyncio.to_thread(client.insert_arrow, TABLE, block.table())
                block = Block()
    client.close()
    return tally


def run(task: Task) -> Tally:
    """Run the task."""
    return asyncio.run(store(task))


if __name__ == "__main__":
    run_baseline(run)
