"""Runs a pipeline of two fake stages on separate topics, with real workers in separate processes.

`python -m tests.integration.runtime.rig PREFIX BOOTSTRAP STAGE...` runs one such worker.
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

from aiokafka import AIOKafkaProducer
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import UnknownError

from lab.constants import with_constants
from streams.config.kafka import KafkaSettings
from streams.config.runtime import RuntimeSettings
from streams.runtime.bindings import Binding, Upstream
from streams.runtime.serve import StageSet, run_stages
from streams.runtime.topic_io import read_to_end
from streams.wire import topics
from streams.wire.errors import Retry
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


class PipelineRig:
    """The topics and stages of one pipeline."""

    def __init__(self, prefix: str, bootstrap: str) -> None:
        self.prefix = prefix
        self.session_s = 6.0
        self.kafka = KafkaSettings(
            bootstrap=bootstrap, cluster=prefix, telemetry_partitions=TELEMETRY, pod_partitions=PODS
        )

        def topic(name: str, model: type[Message], scheme: PartitionScheme, retention_s: int | None = 3600) -> Topic:
            others: tuple[type[Message], ...] = () if model is Progress else (Progress,)
            return Topic(f"{prefix}.{name}", model, scheme, retention_s, other_models=others)

        self.events = topic("events", Event, PartitionScheme.TELEMETRY)
        self.extra_events = topic("extra", Event, PartitionScheme.TELEMETRY)
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
                (self.events, self.extra_events),
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
        pipeline_topics = (self.events, self.extra_events, self.symptoms, self.windows, self.progress, first, second)
        self.wiring = StageSet(
            bindings,
            (*pipeline_topics, self.inventory, self.jobs, topics.REJECTED, topics.INPUT_LOSSES),
            self.inventory,
            self.jobs,
        )

    def run_worker(self, stages: Iterable[str]) -> None:
        """Run a worker of these stages in this process."""
        makers: dict[str, MakeStage] = {
            "measure": lambda _: CountingStage(self.symptoms),
            "correlate": lambda _: WindowStage(self.windows),
        }
        runtime = with_constants(
            RuntimeSettings,
            inventory_wait_s=float(os.environ.get("INVENTORY_WAIT_S", "0")),
            measure_snapshot_s=0.5,
            session_s=self.session_s,
            settle_s=0.5,
            snapshot_s=0.5,
        )(data=Path(os.environ["FAUST_DATA"]), instance=os.environ.get("INSTANCE"))
        refuse_syncs(int(os.environ.get("REFUSED_SYNCS", "0")))
        run_stages({stage: makers[stage] for stage in stages}, self.kafka, runtime, wiring=self.wiring)


def refuse_syncs(count: int) -> None:
    """Let the first answers to SyncGroup be an error, as those of a broker that starts again after a failure are."""
    send = GroupCoordinator._send_req
    left = count

    async def send_or_refuse(self: GroupCoordinator, request: Any) -> Any:
        nonlocal left
        response = await send(self, request)
        if type(request).__name__.startswith("SyncGroup") and left > 0:
            left -= 1
            response.error_code = UnknownError.errno
        return response

    GroupCoordinator._send_req = send_or_refuse


class Worker:
    """A worker in a separate process, which writes its log to `log`."""

    def __init__(self, rig: PipelineRig, log: Path, *stages: str, env: dict[str, str] | None = None) -> None:
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

    def send_signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        """Stop the worker by SIGTERM; return its exit code."""
        self.process.terminate()
        return self.process.wait(60)


@contextmanager
def running_worker(rig: PipelineRig, log: Path, *stages: str, env: dict[str, str] | None = None) -> Iterator[Worker]:
    """Run a worker until the end of the context."""
    worker = Worker(rig, log, *stages, env=env)
    try:
        yield worker
    finally:
        worker.kill()


@asynccontextmanager
async def started_producer(rig: PipelineRig) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(**rig.kafka.client_options(), acks="all", linger_ms=2)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def send(
    producer: AIOKafkaProducer, rig: PipelineRig, topic: Topic, message: Message, key: str | None = None
) -> Any:
    """Send one message to the partition that the registry selects; return the future of its delivery."""
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


async def read_records(rig: PipelineRig, topic: Topic) -> list[Any]:
    """Return all records that a topic has now."""
    return [record async for record in read_to_end(rig.kafka, topic)]


async def read_messages(rig: PipelineRig, topic: Topic) -> list[Message]:
    return [topics.decode(topic, record.value, record.headers) for record in await read_records(rig, topic)]


async def read_symptoms(rig: PipelineRig, topic: Topic) -> dict[tuple[str, str], set[Symptom]]:
    """Return the different symptoms of a topic by id; more than one for an id is a contradiction."""
    found: dict[tuple[str, str], set[Symptom]] = defaultdict(set)
    with suppress(Retry):
        for message in await read_messages(rig, topic):
            if isinstance(message, Symptom):
                found[message.device, message.port].add(message)
    return found


class EventSender:
    """Sends events of some devices at a constant rate, one of each device at a time, while it is running."""

    def __init__(self, rig: PipelineRig, per_s: int = 1500, devices: int = 12) -> None:
        self._rig = rig
        self._per_s = per_s
        self._devices = [f"d{number}" for number in range(devices)]
        self._sent = 0
        self._stop = False

    async def run(self) -> None:
        async with started_producer(self._rig) as producer:
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


async def expected_counts(rig: PipelineRig) -> dict[tuple[str, str], int]:
    """Return the outputs of an uninterrupted single reader of the log: the running sum by (device, block).

    It reads both inputs in the order in which the broker stored their records.
    """
    records = await read_records(rig, rig.events) + await read_records(rig, rig.extra_events)
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    expected = {}
    for record in sorted(records, key=lambda r: (r.partition, r.timestamp, r.topic == rig.extra_events.name, r.offset)):
        message = topics.decode(rig.events, record.value, record.headers)
        assert isinstance(message, Event)
        count = counts[message.device]
        count[0] += 1
        count[1] += message.code
        if count[0] % BLOCK == 0:
            expected[message.device, str(count[0] // BLOCK)] = count[1]
    return expected


async def assert_exact(rig: PipelineRig, within_s: float, *workers: Worker) -> None:
    """Assert that the outputs are those of an uninterrupted single reader: none is missing and none differs."""
    expected = await expected_counts(rig)
    assert expected, "nothing was sent"

    async def complete() -> bool:
        return set(await read_symptoms(rig, rig.symptoms)) >= set(expected)

    await wait_until(complete, within_s, f"{len(expected)} outputs", every_s=0.5, workers=workers)
    found = {
        key: {count_of(symptom) for symptom in symptoms}
        for key, symptoms in (await read_symptoms(rig, rig.symptoms)).items()
    }
    assert found == {key: {count} for key, count in expected.items()}


async def wait_until(
    condition: Callable[[], Any],
    within_s: float,
    description: str,
    every_s: float = 0.2,
    workers: Sequence[Worker] = (),
    logs: Sequence[Path] = (),
) -> Any:
    """Wait for a condition; after the timeout fail with its description and the end of the workers' logs."""
    deadline = time.monotonic() + within_s
    while True:
        result = condition()
        if asyncio.iscoroutine(result):
            result = await result
        if result:
            return result
        if time.monotonic() > deadline:
            ends = "\n".join(log.read_text()[-3000:] for log in (*logs, *(worker.log for worker in workers)))
            raise AssertionError(f"not within {within_s} s: {description}\n{ends}")
        await asyncio.sleep(every_s)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    PipelineRig(sys.argv[1], sys.argv[2]).run_worker(sys.argv[3:])
