"""A pipeline of two fake stages on topics of its own, run by real workers in processes of their own.

`python -m tests.integration.runtime.rig PREFIX BOOTSTRAP STAGE...` is one such worker.
"""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from streams.config.kafka import KafkaSettings
from streams.config.runtime import RuntimeSettings
from streams.runtime.bindings import Binding, Upstream
from streams.runtime.serve import StageSet, run_stages
from streams.wire import topics
from streams.wire.models import (
    Event,
    EventKind,
    InventoryChunk,
    Job,
    Message,
    Progress,
    SnapshotChunk,
    Source,
    Symptom,
)
from streams.wire.topics import PartitionScheme, Topic
from tests.fakes.stages import BLOCK, CountingStage, WindowStage, count_of

if TYPE_CHECKING:
    from streams.runtime.partition_processor import MakeStage

TELEMETRY, PODS = 4, 2
START_NS = 1_700_000_000 * 10**9
ROOT = Path(__file__).parents[3]


class Rig:
    """The topics of one pipeline and what is done with them."""

    def __init__(self, prefix: str, bootstrap: str) -> None:
        self.prefix = prefix
        self.kafka = KafkaSettings(
            bootstrap=bootstrap, cluster=prefix, telemetry_partitions=TELEMETRY, pod_partitions=PODS
        )

        def topic(name: str, model: type[Message], spread: PartitionScheme, kept_s: int | None = 3600) -> Topic:
            others: tuple[type[Message], ...] = () if model is Progress else (Progress,)
            return Topic(f"{prefix}.{name}", model, spread, kept_s, other_models=others)

        self.events = topic("events", Event, PartitionScheme.TELEMETRY)
        self.more = topic("more", Event, PartitionScheme.TELEMETRY)
        self.symptoms = topic("symptoms", Symptom, PartitionScheme.POD)
        self.windows = topic("windows", Symptom, PartitionScheme.SINGLE)
        self.progress = topic("progress", Progress, PartitionScheme.SINGLE)
        first = topic("snapshots.first", SnapshotChunk, PartitionScheme.TELEMETRY, None)
        second = topic("snapshots.second", SnapshotChunk, PartitionScheme.POD, None)
        self.inventory = topic("inventory", InventoryChunk, PartitionScheme.SINGLE, None)
        self.jobs = topic("jobs", Job, PartitionScheme.SINGLE, None)
        bindings = {
            "measure": Binding(
                "measure",
                (self.events, self.more),
                first,
                None,
                (self.symptoms,),
                self.progress,
                bulk=(self.events,),
            ),
            "correlate": Binding(
                "correlate",
                (self.symptoms,),
                second,
                Upstream("measure", self.events, (self.symptoms,)),
                (),
                self.progress,
                covers=self.windows,
            ),
        }
        own = (self.events, self.more, self.symptoms, self.windows, self.progress, first, second)
        self.wiring = StageSet(bindings, (*own, self.inventory, self.jobs, topics.REJECTED), self.inventory, self.jobs)

    def run(self, stages: Iterable[str]) -> None:
        """Be a worker of these stages."""
        makers: dict[str, MakeStage] = {
            "measure": lambda _: CountingStage(self.symptoms),
            "correlate": lambda _: WindowStage(self.windows),
        }
        runtime = RuntimeSettings(
            inventory_wait_s=float(os.environ.get("INVENTORY_WAIT_S", "0")),
            measure_snapshot_s=0.5,
            snapshot_s=0.5,
            session_s=6,
            data=Path(os.environ["FAUST_DATA"]),
            instance=os.environ.get("INSTANCE"),
            settle_s=0.5,
        )
        run_stages({stage: makers[stage] for stage in stages}, self.kafka, runtime, wiring=self.wiring)


class Worker:
    """A worker in a process of its own; what it logs is in `log`."""

    def __init__(self, rig: Rig, log: Path, *stages: str, env: dict[str, str] | None = None) -> None:
        self.log = log
        command = [sys.executable, "-m", __name__, rig.prefix, rig.kafka.bootstrap, *stages]
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                command,
                stdout=out,
                stderr=out,
                cwd=ROOT,
                env=os.environ | {"FAUST_DATA": str(log.parent)} | (env or {}),
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self) -> tuple[int, float]:
        """Ask it to stop; answer its exit code and how long that took."""
        began = time.monotonic()
        self.process.terminate()
        code = self.process.wait(10)
        return code, time.monotonic() - began


@contextmanager
def working(rig: Rig, log: Path, *stages: str, env: dict[str, str] | None = None) -> Iterator[Worker]:
    """A worker that does not outlive the test."""
    worker = Worker(rig, log, *stages, env=env)
    try:
        yield worker
    finally:
        worker.kill()


@asynccontextmanager
async def producing(rig: Rig) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(**rig.kafka.client_options(), acks="all", linger_ms=2)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def send(producer: AIOKafkaProducer, rig: Rig, topic: Topic, message: Message, key: str | None = None) -> Any:
    """Send one message to where the registry puts it; answer its delivery."""
    record = topics.encode(topic, message, key=key)
    return await producer.send(
        topic.name,
        record.value,
        key=record.key,
        partition=record.partition(rig.kafka.partitions),
        headers=list(record.headers),
    )


def event(device: str, number: int, at_ns: int) -> Event:
    return Event(device, "", EventKind.LOG, at_ns, at_ns, Source.SOURCE_GNMI, sequence=number, code=number)


async def records_of(rig: Rig, topic: Topic) -> list[Any]:
    """All that a topic holds now."""
    consumer = AIOKafkaConsumer(**rig.kafka.client_options(), enable_auto_commit=False, auto_offset_reset="earliest")
    found: list[Any] = []
    try:
        await consumer.start()
        tps = [TopicPartition(topic.name, p) for p in range(rig.kafka.partitions.count(topic))]
        consumer.assign(tps)
        ends = await consumer.end_offsets(tps)
        for tp in tps:
            await consumer.seek_to_beginning(tp)
            while await consumer.position(tp) < ends[tp]:
                found += (await consumer.getmany(tp, timeout_ms=500)).get(tp, [])
    finally:
        await consumer.stop()
    return found


async def messages_of(rig: Rig, topic: Topic) -> list[Message]:
    return [topics.decode(topic, record.value, record.headers) for record in await records_of(rig, topic)]


async def symptoms_of(rig: Rig, topic: Topic) -> dict[tuple[str, str], set[Symptom]]:
    """What a topic says by id: more than one thing of an id is a contradiction."""
    found: dict[tuple[str, str], set[Symptom]] = defaultdict(set)
    with suppress(KafkaError):
        for message in await messages_of(rig, topic):
            if isinstance(message, Symptom):
                found[message.device, message.port].add(message)
    return found


class Feed:
    """Sends events of some devices, the next of each at once, at a rate, until it is told to stop."""

    def __init__(self, rig: Rig, per_s: int = 1500, devices: int = 12) -> None:
        self._rig = rig
        self._per_s = per_s
        self._devices = [f"d{number}" for number in range(devices)]
        self._sent = 0
        self._stop = False

    async def run(self) -> None:
        async with producing(self._rig) as producer:
            while not self._stop:
                deliveries = []
                for _ in range(max(1, self._per_s // (20 * len(self._devices)))):
                    at_ns = START_NS + self._sent * 1_000_000
                    deliveries += [
                        await send(producer, self._rig, self._rig.events, event(device, self._sent, at_ns))
                        for device in self._devices
                    ]
                    self._sent += 1
                await asyncio.gather(*deliveries)
                await asyncio.sleep(0.05)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.run())
        try:
            yield
            self._stop = True
            await task
        finally:
            task.cancel()


async def expected_counts(rig: Rig) -> dict[tuple[str, str], int]:
    """What a single reader of the log that never stopped would have said: the running sum by (device, block).

    It reads both inputs in the order in which the broker took their records.
    """
    records = await records_of(rig, rig.events) + await records_of(rig, rig.more)
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    expected = {}
    for record in sorted(records, key=lambda r: (r.partition, r.timestamp, r.topic == rig.more.name, r.offset)):
        message = topics.decode(rig.events, record.value, record.headers)
        assert isinstance(message, Event)
        seen = counts[message.device]
        seen[0] += 1
        seen[1] += message.code
        if seen[0] % BLOCK == 0:
            expected[message.device, str(seen[0] // BLOCK)] = seen[1]
    return expected


async def assert_exact(rig: Rig, within_s: float, *workers: Worker) -> None:
    """All outputs are there, and none says anything else than a single uninterrupted reader would have said."""
    expected = await expected_counts(rig)
    assert expected, "nothing was sent"

    async def complete() -> bool:
        return set(await symptoms_of(rig, rig.symptoms)) >= set(expected)

    await until(complete, within_s, f"{len(expected)} outputs", every_s=0.5, workers=workers)
    found = {
        key: {count_of(said) for said in all_said} for key, all_said in (await symptoms_of(rig, rig.symptoms)).items()
    }
    assert found == {key: {count} for key, count in expected.items()}


async def until(
    condition: Callable[[], Any],
    within_s: float,
    what: str,
    every_s: float = 0.2,
    workers: Sequence[Worker] = (),
    logs: Sequence[Path] = (),
) -> Any:
    """Await a condition; fails after the bound with what was awaited and the end of the workers' logs."""
    give_up = time.monotonic() + within_s
    while True:
        result = condition()
        if asyncio.iscoroutine(result):
            result = await result
        if result:
            return result
        if time.monotonic() > give_up:
            ends = "\n".join(log.read_text()[-3000:] for log in (*logs, *(worker.log for worker in workers)))
            raise AssertionError(f"not within {within_s} s: {what}\n{ends}")
        await asyncio.sleep(every_s)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    Rig(sys.argv[1], sys.argv[2]).run(sys.argv[3:])
