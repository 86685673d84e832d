"""Measures the cost of a port-sample in the embedded broker, its producer and two consumers, in CPU seconds.

    python -m tests.bench.broker_cost [--seconds 60] [--warm 30] [--rate 1.0] [--compression none|lz4|zstd|snappy]
        [--jvm-flags="-Xmx512m"] [--consumer NAME:every_ms=250,min_bytes=1]... [--crash] [--json]

A real broker is started; a paced producer writes the load of broker_load.py to 8 partitions of samples and as many of
statuses, and a snapshot of 40 MB every 30 s beside it; consumers read it as the pipeline does. Each is a process of
its own, and its CPU is read from /proc over the same seconds. `--jvm-flags` go after the product's own, by
`_JAVA_OPTIONS`. `--rate 0` measures an idle broker, `--crash` ends with kill -9 and the time of the return. What other
work on the machine does to a run it does to another at the same time: compare two settings side by side.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.wire import topics
from tests.bench.broker_load import PORT_SAMPLES, Sent, one_second, statuses

PARTITIONS = 8
TOPIC, STATUSES = topics.SAMPLES.name, topics.COLLECTOR_STATUS.name
SNAPSHOTS = topics.SNAPSHOTS["measure"].name
# What streams/runtime/admin.py gives the topics of snapshots.
SNAPSHOT_SETTINGS = {"segment.bytes": str(16 << 20), "segment.ms": "60000", "min.cleanable.dirty.ratio": "0.1"}
SNAPSHOT_BYTES, SNAPSHOT_S, CHUNK_BYTES = 40 << 20, 30.0, 900_000
# As streams/runtime/bulk.py and streams/store/persist/sink.py ask: the broker gathers for half a second.
CONSUMERS = (
    "measure:every_ms=0,min_bytes=4194304,wait_ms=500,partition_bytes=4194304",
    "sink:every_ms=0,min_bytes=4194304,wait_ms=500,partition_bytes=2097152,crc=0",
)
TICK = 1 / os.sysconf("SC_CLK_TCK")


# What runs in processes of its own.
async def produce(bootstrap: str, compression: str, rate: float, tick_s: float) -> None:
    """Send for ever, in step with the clock; what a slow broker delays is made up for."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, max_batch_size=1 << 20,
        max_request_size=4 << 20, compression_type=None if compression == "none" else compression,
    )  # fmt: skip
    loads = {TOPIC: one_second(PARTITIONS), STATUSES: statuses(PARTITIONS)}
    sent = dict.fromkeys(loads, 0)
    await producer.start()
    began, due_snapshot, generation = time.monotonic(), SNAPSHOT_S / 3, 0
    pending: set[asyncio.Future[Any]] = set()
    while True:
        now = time.monotonic() - began
        for topic, load in loads.items():
            due = min(int(now * rate * len(load)), sent[topic] + len(load))
            for partition, records in _grouped(load, sent[topic], due).items():
                pending.add(await _send(producer, topic, partition, records))
            sent[topic] = due
        if now > due_snapshot:
            pending |= {await _snapshot(producer, n % PARTITIONS, generation, n) for n in _chunks()}
            due_snapshot, generation = due_snapshot + SNAPSHOT_S, generation + 1
        pending = {one for one in pending if not one.done() or one.result() is None}
        if len(pending) > 200:
            await asyncio.wait(pending, timeout=30)
        await asyncio.sleep(max(0.0, tick_s - (time.monotonic() - began - now)))


def _grouped(load: Sequence[Sent], first: int, last: int) -> dict[int, list[Sent]]:
    found = defaultdict(list)
    for i in range(first, last):
        record = load[i % len(load)]
        found[record.partition].append(record)
    return found


async def _send(
    producer: AIOKafkaProducer, topic: str, partition: int, records: Sequence[Sent]
) -> "asyncio.Future[Any]":
    """Send as one batch, or as several where one is full; what the last one becomes is returned."""
    batch = producer.create_batch()
    for record in records:
        if batch.append(key=record.key, value=record.value, timestamp=None) is None:
            await producer.send_batch(batch, topic, partition=partition)
            batch = producer.create_batch()
            batch.append(key=record.key, value=record.value, timestamp=None)
    return await producer.send_batch(batch, topic, partition=partition)  # type: ignore[no-any-return]


def _chunks() -> range:
    return range(SNAPSHOT_BYTES // CHUNK_BYTES)


async def _snapshot(producer: AIOKafkaProducer, partition: int, generation: int, number: int) -> Any:
    key = f"{partition}/1/{generation % 2}.{number}".encode()
    return await producer.send(SNAPSHOTS, os.urandom(CHUNK_BYTES), key=key, partition=partition)


async def consume(bootstrap: str, option: dict[str, int]) -> None:
    """Read for ever; keeps nothing, looks at every record's length."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        check_crcs=bool(option.get("crc", 1)),
        fetch_min_bytes=option.get("min_bytes", 1),
        fetch_max_wait_ms=option.get("wait_ms", 500),
        max_partition_fetch_bytes=option.get("partition_bytes", 1 << 20),
    )
    await consumer.start()
    consumer.assign([TopicPartition(topic, number) for topic in (TOPIC, STATUSES) for number in range(PARTITIONS)])
    await consumer.seek_to_end()
    read = 0
    while True:
        began = time.monotonic()
        for records in (await consumer.getmany(timeout_ms=option["every_ms"] or 500)).values():
            read += sum(len(record.value or b"") for record in records)
        output = [await consumer.position(tp) for tp in consumer.assignment() if tp.topic == TOPIC]
        sys.stdout.write(json.dumps({"position": sum(output), "bytes": read}) + "\n")
        sys.stdout.flush()
        await asyncio.sleep(max(0.0, option["every_ms"] / 1000 - (time.monotonic() - began)))


# What watches them.
def cpu_s(pid: int) -> float:
    """User and system seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * TICK


def threads(pid: int) -> Counter[str]:
    """Seconds by the first letters of the threads' names, as far as the kernel keeps them."""
    found: Counter[str] = Counter()
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        name, rest = stat.read_text().split("(", 1)[1].rsplit(")", 1)
        found[name.rstrip("0123456789-")] += (int(rest.split()[11]) + int(rest.split()[12])) * TICK  # type: ignore[assignment]
    return found


def resident_mb(pid: int) -> float:
    """Memory of a process's own: what it maps from files (the AOT cache, the log's indices) is left out."""
    line = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("RssAnon"))
    return int(line.split()[1]) / 1000


def disk_bytes(folder: Path, pattern: str, *, blocks: bool = False) -> int:
    """Bytes of files, as written or as the disk has them; what vanishes meanwhile counts nothing."""
    total = 0
    for path in folder.rglob(pattern):
        try:
            total += path.stat().st_blocks * 512 if blocks else path.stat().st_size
        except OSError:
            continue
    return total


async def make_topics(bootstrap: str, extra: dict[str, str]) -> None:
    """The topics as the product makes them."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    wanted = {TOPIC: topics.SAMPLES.broker_config() | extra, STATUSES: topics.COLLECTOR_STATUS.broker_config()}
    wanted[SNAPSHOTS] = topics.SNAPSHOTS["measure"].broker_config() | SNAPSHOT_SETTINGS
    answer = await admin.create_topics([NewTopic(n, PARTITIONS, 1, topic_configs=s) for n, s in wanted.items()])
    await admin.close()
    assert {error[1] for error in answer.topic_errors} == {0}, answer


async def ends(bootstrap: str) -> int:
    """Return the number of records in the topic."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    found = await consumer.end_offsets([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
    await consumer.stop()
    return sum(found.values())


@contextmanager
def role(out: Path, *arguments: str) -> Iterator[int]:
    """Run one of the parts above as a process; yields its pid."""
    with out.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "tests.bench.broker_cost", *arguments], stdout=output)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def option_of(text: str) -> tuple[str, dict[str, int]]:
    """`NAME:key=number,...` as a name and its options."""
    name, _, rest = text.partition(":")
    return name, {key: int(value) for key, value in (pair.split("=") for pair in rest.split(","))}


def last_line(path: Path) -> dict[str, int]:
    """The last whole line that a consumer wrote."""
    lines = path.read_text().splitlines(keepends=True)
    whole = [line for line in lines[-2:] if line.endswith("\n")]
    return json.loads(whole[-1]) if whole else {"position": 0, "bytes": 0}


def measured(kafka: EmbeddedKafka, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """The window's figures, CPU as seconds a million port-samples (a second of time where the broker is idle)."""
    (node,) = kafka._nodes.values()  # for its pid, which has no public accessor
    assert node.process is not None and node.process.pid is not None
    broker, logs = node.process.pid, folder / "kafka/node-1/data"
    with ExitStack() as stack:
        pids = {"broker": broker}
        if given.rate:
            sending = ("--role", "produce", "--bootstrap", kafka.bootstrap, "--compression", given.compression)
            pace = ("--rate", str(given.rate), "--tick-ms", str(given.tick_ms))
            pids["producer"] = stack.enter_context(role(folder / "producer", *sending, *pace))
            for text in given.consumer or CONSUMERS:
                reading = ("--role", "consume", "--bootstrap", kafka.bootstrap, "--consumer", text)
                pids[option_of(text)[0]] = stack.enter_context(role(folder / option_of(text)[0], *reading))
        time.sleep(given.warm)
        names = [name for name in pids if name not in ("broker", "producer")]
        records, log, began = asyncio.run(ends(kafka.bootstrap)), disk_bytes(logs, f"{TOPIC}-*/*.log"), time.monotonic()
        cpu, busy = {name: cpu_s(pid) for name, pid in pids.items()}, threads(broker)
        disk = 0
        while time.monotonic() < began + given.seconds:
            time.sleep(min(5.0, max(0.0, began + given.seconds - time.monotonic())))
            disk = max(disk, disk_bytes(logs, "*", blocks=True))
        lasted = time.monotonic() - began
        used = {name: cpu_s(pid) - cpu[name] for name, pid in pids.items()}
        taken = asyncio.run(ends(kafka.bootstrap)) - records
        read = {name: last_line(folder / name) for name in names}
        million = taken * PORT_SAMPLES / len(one_second(PARTITIONS)) / 1e6 if given.rate else lasted
        spent = (threads(broker) - busy).most_common(12)
        return {
            "seconds": round(lasted, 1),
            "million_port_samples": round(million, 2) if given.rate else 0,
            "cpu_s_per_million": {name: round(value / million, 4) for name, value in used.items()},
            "sum": round(sum(used.values()) / million, 4),
            "broker_threads_s_per_million": {name: round(value / million, 4) for name, value in spent},
            "log_mb_per_million": round((disk_bytes(logs, f"{TOPIC}-*/*.log") - log) / 1e6 / million, 1),
            "disk_mb_most": round(disk / 1e6),
            "broker_own_mb": round(resident_mb(broker)),
            "behind_records": {name: records + taken - line["position"] for name, line in read.items()},
        }


def crashed(kafka: EmbeddedKafka, folder: Path) -> dict[str, float]:
    """Kill the broker and return its recovery time and log size."""
    log = disk_bytes(folder, "*.log")
    kafka.kill()
    began = time.monotonic()
    kafka.restart()
    return {"return_s": round(time.monotonic() - began, 2), "log_mb": round(log / 1e6)}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm", type=float, default=30, help="seconds before the measured ones")
    parser.add_argument("--rate", type=float, default=1.0, help="times the load of the largest fabric every 10 s")
    parser.add_argument("--tick-ms", type=float, default=50, help="how often the producer sends")
    parser.add_argument("--compression", choices=("none", "lz4", "zstd", "snappy"), default="none")
    parser.add_argument("--jvm-flags", default="")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME=VALUE", help="setting of the topic")
    parser.add_argument("--consumer", action="append", metavar="NAME:every_ms=N[,min_bytes=,wait_ms=,crc=]")
    parser.add_argument("--crash", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--role", choices=("produce", "consume"), help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    given = parsed()
    if given.role == "produce":
        asyncio.run(produce(given.bootstrap, given.compression, given.rate, given.tick_ms / 1000))
    if given.role == "consume":
        asyncio.run(consume(given.bootstrap, option_of(given.consumer[0])[1]))
    if given.jvm_flags:
        os.environ["_JAVA_OPTIONS"] = given.jvm_flags
    with tempfile.TemporaryDirectory(prefix="broker-cost-") as name:
        folder = Path(name)
        began = time.monotonic()
        with EmbeddedKafka(KafkaParams(data=folder / "kafka")) as kafka:
            result: dict[str, Any] = {"start_s": round(time.monotonic() - began, 2)}
            asyncio.run(make_topics(kafka.bootstrap, dict(pair.split("=") for pair in given.topic)))
            result |= measured(kafka, folder, given)
            if given.crash:
                result |= crashed(kafka, folder)
    shown = json.dumps(result) if given.json else "\n".join(f"{key:30} {value}" for key, value in result.items())
    print(shown)  # noqa: T201 — what the command is for


if __name__ == "__main__":
    main()
