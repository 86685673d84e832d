"""Measures the records per second of one worker of the runner, and the latency of a record.

    python -m tests.bench.runner_throughput [--records 400000] [--bytes 200] [--probes 2000]

A real broker is started, a stage of numpy arithmetic runs in a worker process of its own, and what is measured is
read from Kafka: outputs carry what was counted by when. The producer's own speed is left out of the throughput (the
log is written before the worker starts); CPU seconds are those of the worker alone.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from lab.constants import with_constants
from streams.config.kafka import KafkaSettings
from streams.config.runtime import RuntimeSettings
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.fabric.topology import Topology
from streams.runtime.admin import ensure_topics
from streams.runtime.bindings import Binding
from streams.runtime.serve import StageSet, run_stages
from streams.wire import topics
from streams.wire.models import Event, EventKind, InventoryChunk, Job, Message, Progress, SnapshotChunk, Source, Symptom
from streams.wire.stage import Output
from streams.wire.symptoms import PortChange, PortTransition
from streams.wire.topics import PartitionScheme, Topic

PARTITIONS = 4
SECOND = 10**9
IN = Topic("bench.in", Event, PartitionScheme.TELEMETRY, 3600, other_models=(Progress,))
OUT = Topic("bench.out", Symptom, PartitionScheme.SINGLE, 3600, other_models=(Progress,))
BESIDE = Topic("bench.progress", Progress, PartitionScheme.SINGLE, 3600)
SNAPSHOTS = Topic("bench.snapshots", SnapshotChunk, PartitionScheme.TELEMETRY)
INVENTORY, JOBS = (
    Topic(f"bench.{name}", model, PartitionScheme.SINGLE) for name, model in (("i", InventoryChunk), ("j", Job))
)
WIRING = StageSet(
    {"measure": Binding("measure", (IN,), SNAPSHOTS, None, (), BESIDE)},
    (IN, OUT, BESIDE, SNAPSHOTS, INVENTORY, JOBS, topics.REJECTED),
    INVENTORY,
    JOBS,
)


class NumpyStage:
    """Histograms codes of all events of a batch at once; answers each event that has a detail: a probe."""

    name = "measure"

    def __init__(self) -> None:
        self.watermark_ns = 0
        self._counts = np.zeros(4096, np.int64)

    def start_epoch(self, epoch: int) -> None:
        pass

    def set_topology(self, topology: Topology) -> list[Output]:
        return []

    def process(self, batch: Sequence[Message]) -> list[Output]:
        events = [message for message in batch if isinstance(message, Event)]
        codes = np.fromiter((event.code for event in events), np.int64, len(events))
        self._counts += np.bincount(codes & 4095, minlength=4096)
        self.watermark_ns = max(self.watermark_ns, events[-1].at_ns)
        return [
            Output(
                OUT, Symptom(event.device, event.port, PortTransition(PortChange.WENT_DOWN), event.at_ns), event.device
            )
            for event in events
            if event.port
        ]

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        return []

    def snapshot(self) -> bytes:
        return self._counts.tobytes()

    def restore(self, data: bytes) -> None:
        self._counts = np.frombuffer(data, np.int64).copy()


def settings(bootstrap: str) -> KafkaSettings:
    return KafkaSettings(bootstrap=bootstrap, cluster="bench", telemetry_partitions=PARTITIONS)


def work(bootstrap: str) -> None:
    """Be the worker."""
    runtime = with_constants(RuntimeSettings, inventory_wait_s=0, measure_snapshot_s=1)(
        data=Path(tempfile.gettempdir())
    )
    run_stages({"measure": lambda _: NumpyStage()}, settings(bootstrap), runtime, wiring=WIRING)


@dataclass
class Worker:
    """A worker process and what it has used."""

    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, bootstrap: str) -> "Worker":
        return cls(subprocess.Popen([sys.executable, "-m", "tests.bench.runner_throughput", "--worker", bootstrap]))

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)


async def fill(producer: AIOKafkaProducer, records: int, size: int) -> None:
    """Write the log, by whole batches, which is the fastest way."""
    for partition in range(PARTITIONS):
        left = records // PARTITIONS
        while left:
            builder = producer.create_batch()
            while left:
                event = Event(
                    f"d{left % 50}", "", EventKind.LOG, left, left, Source.SOURCE_GNMI, code=left, detail="x" * size
                )
                if builder.append(key=b"k", value=topics.encode(IN, event).value, timestamp=None) is None:
                    break
                left -= 1
            await producer.send_batch(builder, IN.name, partition=partition)
    await producer.flush()


async def read_until(consumer: Any, until: Any, within_s: float) -> list[tuple[float, Any]]:
    """Records with when they came, until one makes `until` true."""
    found: list[tuple[float, Any]] = []
    async with asyncio.timeout(within_s):
        while True:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found += [(time.perf_counter(), record) for record in records]
            if until(found):
                return found


async def throughput(bootstrap: str, records: int) -> dict[str, float]:
    """Measure from the first Progress to the one that covers all records."""
    consumer = AIOKafkaConsumer(
        BESIDE.name, bootstrap_servers=bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=20
    )
    await consumer.start()
    worker = Worker.start(bootstrap)
    read: dict[int, int] = {}
    marks: list[tuple[float, float, int]] = []

    def done(found: list[tuple[float, Any]]) -> bool:
        for at, record in found[len(marks) :]:
            progress = topics.decode(BESIDE, record.value, record.headers)
            assert isinstance(progress, Progress)
            read[progress.partition] = progress.records
            marks.append((at, worker.cpu_s(), sum(read.values())))
        return sum(read.values()) >= records

    try:
        await read_until(consumer, done, 120)
    finally:
        worker.stop()
        await consumer.stop()
    (began, cpu, first), (ended, cpu_end, last) = marks[0], marks[-1]
    return {
        "records_per_s": (last - first) / (ended - began),
        "cpu_s_per_million": (cpu_end - cpu) / (last - first) * 1e6,
        "measured_records": last - first,
    }


async def latency(bootstrap: str, probes: int, per_s: int) -> dict[str, float]:
    """Of events at a steady rate, from before the send to when the output is in the reader's hands."""
    worker = Worker.start(bootstrap)
    try:
        return await answers(bootstrap, probes, per_s)
    finally:
        worker.stop()


async def answers(bootstrap: str, probes: int, per_s: int) -> dict[str, float]:
    """The same with a worker that runs already."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=20)
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=0)
    await consumer.start()
    await producer.start()
    sent: dict[str, float] = {}
    try:
        consumer.assign([TopicPartition(OUT.name, 0)])
        await consumer.seek_to_end()
        await _probe(producer, sent, "warm")
        await read_until(consumer, bool, 30)
        sent.clear()

        async def feed() -> None:
            began = time.perf_counter()
            for number in range(probes):
                await _probe(producer, sent, str(number))
                await asyncio.sleep(max(0.0, began + (number + 1) / per_s - time.perf_counter()))

        feeding = asyncio.create_task(feed())
        found = await read_until(consumer, lambda found: len(found) >= probes, 60)
        await feeding
    finally:
        await producer.stop()
        await consumer.stop()
    took = []
    for at, record in found:
        answer = topics.decode(OUT, record.value, record.headers)
        assert isinstance(answer, Symptom)
        took.append((at - sent[answer.port]) * 1e3)
    return {f"p{q}_ms": float(np.percentile(took, q)) for q in (50, 90, 99)} | {"per_s": per_s, "probes": len(took)}


async def _probe(producer: AIOKafkaProducer, sent: dict[str, float], name: str) -> None:
    event = Event(f"d{name}", name, EventKind.LOG, SECOND, SECOND, Source.SOURCE_GNMI)
    record = topics.encode(IN, event)
    sent[name] = time.perf_counter()
    await producer.send(IN.name, record.value, key=record.key, partition=topics.partition_of(event.device, PARTITIONS))


async def measured(bootstrap: str, records: int, size: int, probes: int) -> dict[str, Any]:
    await ensure_topics(settings(bootstrap), WIRING.topics)
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, max_batch_size=512 * 1024)
    await producer.start()
    await fill(producer, records, size)
    await producer.stop()
    through = await throughput(bootstrap, records)
    return {"bytes": size, "throughput": through, "latency": [await latency(bootstrap, probes, r) for r in (100, 1000)]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--bytes", type=int, default=200)
    parser.add_argument("--probes", type=int, default=2000)
    parser.add_argument("--worker", metavar="BOOTSTRAP")
    given = parser.parse_args()
    if given.worker:
        work(given.worker)
        return
    with tempfile.TemporaryDirectory() as folder, EmbeddedKafka(KafkaParams(data=Path(folder) / "kafka")) as broker:
        result = asyncio.run(measured(broker.bootstrap, given.records, given.bytes, given.probes))
    print(json.dumps(result, indent=1))  # noqa: T201 — what the command is for


if __name__ == "__main__":
    main()
