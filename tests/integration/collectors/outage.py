"""Makes Kafka unreachable under load, kills the collector meanwhile, and starts another that takes over its spool.

As a program it is that collector: it offers samples of many devices, and writes to a file what is promised so far.
"""

import asyncio
import json
import random
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aiokafka import AIOKafkaConsumer, TopicPartition

from collectors.core.columns import CellKey, Layout, Reading
from collectors.core.context import CollectorContext
from collectors.core.metrics import CollectorMetrics
from collectors.core.params import Core, PublisherParams
from collectors.core.publisher import KafkaPublisher
from collectors.core.spool import Spool
from lab.constants import with_constants
from streams.config.kafka import KafkaSettings
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.fabric.catalogue import Metric
from streams.runtime.admin import ensure_topics
from streams.store.rows.deduplication import SequenceDedup
from streams.wire.models import Samples, Source
from streams.wire.topics import SAMPLES, Partitions, decode

DEVICES = 200
PORTS = 64
SPOOL_AFTER_S = 0.5
_PATIENCE_S = 120.0


@dataclass(frozen=True)
class Acknowledgements:
    """The last state of one run: of `offered` samples, device after device, the first `promised` must not be lost."""

    run: int
    offered: int = 0
    promised: int = 0
    refused: int = 0
    spooled: int = 0
    stored: int = 0
    """The number of records in the spool now; `spooled` counts all that have been in it."""


async def collector(bootstrap: str, folder: Path, state_file: Path, cadence_s: float) -> None:
    """Offer samples of every device, one after the other, until cancelled; then send what waits."""
    params = with_constants(PublisherParams, spool_after_s=SPOOL_AFTER_S)(spool=folder)
    core = Core({"bootstrap_servers": bootstrap}, Partitions(), "outage", params)
    metrics = CollectorMetrics()
    layout = Layout([CellKey(f"Ethernet{port}", metric) for port in range(PORTS) for metric in _METRICS])
    rng = random.Random(1)
    async with KafkaPublisher(core, metrics) as publisher:
        context = CollectorContext(publisher, "outage", metrics)
        emitter = context.emitter(Source.SOURCE_GNMI)
        buffer = publisher._buffer
        offered = 0
        while True:
            values = [rng.getrandbits(48) for _ in range(PORTS * len(_METRICS))]
            for device in range(DEVICES):
                at_ns = context.clock.now_ns()
                reading = Reading(at_ns, at_ns, 1, layout.row, layout.rows_digest, *layout.tables(values))
                emitter.samples(f"leaf{device}", reading)
                offered += 1
                if not offered % 20:
                    _write_state(
                        state_file,
                        Acknowledgements(
                            context.run,
                            offered,
                            metrics.value("settled"),
                            metrics.value("refused"),
                            metrics.value("spooled"),
                            buffer.stored,
                        ),
                    )
                    await asyncio.sleep(20 * cadence_s / DEVICES)


_METRICS = (Metric.RX_BYTES, Metric.TX_BYTES, Metric.RX_ERRORS, Metric.TX_ERRORS)


def _write_state(path: Path, state: Acknowledgements) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(state.__dict__))
    fresh.replace(path)


@contextmanager
def running(bootstrap: str, folder: Path, state_file: Path, cadence_s: float) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the collector as a process of its own, which is killed at the end if it still runs."""
    command = [sys.executable, "-m", __name__, bootstrap, str(folder), str(state_file), str(cadence_s)]
    with state_file.with_suffix(".log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            yield process
        finally:
            process.kill()


@dataclass(frozen=True)
class Outcome:
    """The promises of both runs, Kafka's final content, and the resent records."""

    runs: tuple[Acknowledgements, ...]
    missing: int
    disordered: int
    twice: int
    twice_downstream: int
    records: int
    complaints: int
    """Lines that the collectors logged: a few per second, however long Kafka is unavailable."""


async def play(folder: Path, outage_s: float, cadence_s: float) -> Outcome:
    """Run the whole scenario: a kill in the middle of the outage; at the end, a copy of the old spool is sent again."""
    kafka = EmbeddedKafka(KafkaParams(data=folder / "kafka"))
    await asyncio.to_thread(kafka.start)
    try:
        bootstrap = kafka.bootstrap
        await ensure_topics(KafkaSettings(bootstrap=bootstrap), [SAMPLES])
        files = (folder / "first.json", folder / "second.json", folder / "third.json")
        with running(bootstrap, folder / "spool", files[0], cadence_s) as first:
            await _until(files[0], lambda state: state.promised > 2 * DEVICES)
            await asyncio.to_thread(kafka.stop)
            await asyncio.sleep(outage_s / 2)
            first.kill()
            await asyncio.to_thread(first.wait)
        await asyncio.to_thread(shutil.copytree, folder / "spool", folder / "old")
        with running(bootstrap, folder / "spool", files[1], cadence_s) as second:
            await asyncio.sleep(outage_s / 2)
            await asyncio.to_thread(kafka.start)
            back = await _until(files[1], lambda state: state.offered > 0)
            await _until(files[1], lambda state: state.promised > back.offered and not state.stored)
            await _end(second)
        with running(bootstrap, folder / "old", files[2], cadence_s) as third:
            await _until(files[2], lambda state: state.promised > 0 and not state.stored)
            await _end(third)
        state = tuple(Acknowledgements(**json.loads(path.read_text())) for path in files)
        complaints = sum(path.with_suffix(".log").read_bytes().count(b"\n") for path in files)
        in_spools = [
            samples for name in ("spool", "old") for samples in await asyncio.to_thread(_spooled, folder / name)
        ]
        return await _evaluate(bootstrap, state, in_spools, complaints)
    finally:
        await asyncio.to_thread(kafka.stop)


async def _end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.wait, _PATIENCE_S) == 0


async def _until(path: Path, holds: Callable[[Acknowledgements], bool]) -> Acknowledgements:
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            if (state := _read_state(path)) is not None and holds(state):
                return state
            await asyncio.sleep(0.05)


def _read_state(path: Path) -> Acknowledgements | None:
    return Acknowledgements(**json.loads(path.read_text())) if path.exists() else None


def _spooled(folder: Path) -> list[Samples]:
    """Return the records that a collector left in its spool: it ends before all is sent if Kafka takes long."""
    found: list[Samples] = []
    for path in folder.glob("*.spool"):
        spool = Spool(path, 1 << 30)
        spool.open()
        while records := spool.oldest(1_000):
            for record in (buffered.record for buffered in records):
                message = decode(SAMPLES, record.value, record.headers)
                assert isinstance(message, Samples)
                found.append(message)
            spool.drop(len(records))
        spool.close()
    return found


async def _evaluate(
    bootstrap: str, state: tuple[Acknowledgements, ...], in_spools: Sequence[Samples], complaints: int
) -> Outcome:
    """Compare the content of Kafka, and of the spools, with the promised samples, device by device."""
    taken: dict[str, list[tuple[int, int]]] = defaultdict(list)
    downstream = SequenceDedup(window_ms=3_600_000)
    retained: list[tuple[str, int, int]] = []
    records = 0
    for samples in await _read(bootstrap):
        records += 1
        taken[samples.device].append((samples.collector_run, samples.sequence))
        run = (samples.device, "gnmi", samples.collector, samples.collector_run)
        if downstream.is_new(run, samples.sequence, 0):
            retained.append((samples.device, samples.collector_run, samples.sequence))
    spooled = {(samples.device, samples.collector_run, samples.sequence) for samples in in_spools}
    missing = disordered = 0
    runs = [one.run for one in state]
    for device in range(DEVICES):
        once = list(dict.fromkeys(taken[f"leaf{device}"]))
        disordered += once != sorted(once, key=lambda own: (runs.index(own[0]), own[1]))
        for one in state:
            promised = len(range(device, one.promised, DEVICES))
            absent = {(one.run, number) for number in range(1, promised + 1)} - set(once)
            missing += sum((f"leaf{device}", run, number) not in spooled for run, number in absent)
    return Outcome(
        state,
        missing,
        disordered,
        records - len(set(retained)),
        len(retained) - len(set(retained)),
        records,
        complaints,
    )


async def _read(bootstrap: str) -> list[Samples]:
    """Return all messages in Kafka, in the order of each partition."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        places = [TopicPartition(SAMPLES.name, number) for number in range(Partitions().count(SAMPLES))]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        found: list[Samples] = []
        async with asyncio.timeout(_PATIENCE_S):
            while len(found) < sum(ends.values()):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    for record in records:
                        message = decode(SAMPLES, record.value, record.headers)
                        assert isinstance(message, Samples)
                        found.append(message)
        return found
    finally:
        await consumer.stop()


if __name__ == "__main__":
    import structlog

    from collectors.core.spec import run_until_signalled

    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))

    bootstrap, folder, state, cadence = sys.argv[1:]
    run_until_signalled(collector(bootstrap, Path(folder), Path(state), float(cadence)))
