"""Sends a recording and control records to Kafka, and reads the state of the pipeline from it.

After the last reading of a recording it publishes a watermark to each partition, so that windows become final exactly
as in a backtest.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from lab.demo.state import DemoState
from streams.config.kafka import KafkaSettings
from streams.fabric.topology import Topology
from streams.replay.backtest import Recording, ordered_messages
from streams.replay.driver import event_time
from streams.replay.recording import RejectedRows
from streams.runtime.topic_io import follow, open_producer, send
from streams.wire.errors import Misconfigured, Reject, Retry
from streams.wire.inventory_topic import Assembler
from streams.wire.models import (
    CollectorStatus,
    Control,
    ControlKind,
    Event,
    Facts,
    InventoryChunk,
    Message,
    Outcome,
    Progress,
    Remediation,
    RemediationResult,
    Samples,
)
from streams.wire.topics import (
    BY_NAME,
    COLLECTOR_STATUS,
    CONTROLS,
    EVENTS,
    FACTS,
    FINDINGS,
    INVENTORY,
    PROGRESS,
    REMEDIATION_RESULTS,
    REMEDIATIONS,
    SAMPLES,
    Record,
    Topic,
    decode,
    encode,
)

STAGE = "replay"
"""The stage name in the Progress messages of a recording."""
_TOPICS: dict[type, Topic] = {
    Samples: SAMPLES,
    Event: EVENTS,
    Facts: FACTS,
    CollectorStatus: COLLECTOR_STATUS,
    Control: CONTROLS,
}
_SAMPLES_NAMES = ("samples.csv.gz", "samples.csv", "samples.parquet")
_EVENTS_NAMES = ("events.csv.gz", "events.csv", "events.parquet")


@dataclass(frozen=True, slots=True)
class Playback:
    """A recording that is ready to play: its messages in the order of their time."""

    messages: tuple[Message, ...]
    rejected: tuple[str, ...]

    @property
    def first_ns(self) -> int:
        """The time of the first message."""
        return event_time(self.messages[0])[0]

    @property
    def last_ns(self) -> int:
        """The time of the last message."""
        return event_time(self.messages[-1])[0]


def find_recording(path: Path, inventory: Path) -> Recording:
    """Return the recording at a path: a samples file, or a folder with samples and optionally events."""
    if not path.is_dir():
        return Recording((path,), (), None, None, None, inventory)
    samples = tuple(path / name for name in _SAMPLES_NAMES if (path / name).exists())
    events = tuple(path / name for name in _EVENTS_NAMES if (path / name).exists())
    if not samples:
        raise Misconfigured(f"{path}: no {', '.join(_SAMPLES_NAMES)}")
    return Recording(samples, events, None, None, None, inventory)


def load_playback(recording: Recording) -> Playback:
    """Read a recording; raise Misconfigured if it cannot be read or is empty."""
    rejected = RejectedRows()
    messages = tuple(sorted(ordered_messages(recording, rejected), key=event_time))
    if not messages:
        raise Misconfigured(f"{recording.samples[0]}: no row of it can be read")
    return Playback(messages, tuple(rejected.lines()))


async def play(tape: Playback, kafka: KafkaSettings, speed: float) -> int:
    """Send all messages at `speed` times the recorded pace; return their number after all are acknowledged."""
    began = time.monotonic()
    sent = []
    async with open_producer(kafka) as producer:
        for at_ns, messages in groupby(tape.messages, key=lambda message: event_time(message)[0]):
            ahead_s = (at_ns - tape.first_ns) / 1e9 / speed - (time.monotonic() - began)
            if ahead_s > 0:
                await asyncio.sleep(ahead_s)
            for message in messages:
                record = encode(_TOPICS[type(message)], message)
                sent.append(await send(producer, record, record.partition(kafka.partitions)))
        for acknowledged in sent:
            await acknowledged
    return len(tape.messages)


async def publish_end_of_time(kafka: KafkaSettings, watermark_ns: int) -> None:
    """Publish the watermark to every partition of samples: no earlier message follows."""
    async with open_producer(kafka) as producer:
        for partition in range(kafka.partitions.count(SAMPLES)):
            progress = Progress(STAGE, partition, 1, watermark_ns)
            await (await send(producer, encode(SAMPLES, progress, key=f"{STAGE}/{partition}"), partition))


FOLLOWED = (FINDINGS, PROGRESS, REMEDIATIONS, INVENTORY, CONTROLS, COLLECTOR_STATUS)
RETRY_S = 0.5


async def follow_pipeline(kafka: KafkaSettings, state: DemoState) -> None:
    """Update the state with the messages of the topics until cancelled."""
    assembler = Assembler()
    positions: dict[tuple[str, int], int] = {}
    while True:
        with suppress(Retry):
            async for message in _messages(kafka, assembler, positions):
                state.update(message, time.monotonic())
        await asyncio.sleep(RETRY_S)


async def _messages(
    kafka: KafkaSettings, assembler: Assembler, positions: dict[tuple[str, int], int]
) -> AsyncIterator[Message | Topology]:
    async for record in follow(kafka, *FOLLOWED, positions=positions):
        try:
            message = decode(BY_NAME[record.topic], record.value, record.headers)
            if isinstance(message, InventoryChunk):
                if (version := assembler.add(message)) is not None:
                    yield version[1]
            else:
                yield message
        except Reject:
            continue


ACTOR = "railsight demo"
POISON = b"\xff\xff this is no Samples message"
"""Field 31 with wire type 7, which protobuf does not define."""


def result_record(remediations: Iterable[Remediation], now_ns: int) -> Record:
    """Return a result that answers one of the remediations, or an unknown one if there are none."""
    remediation_id = next((remediation.id for remediation in remediations), "demo/none-seen")
    return encode(
        REMEDIATION_RESULTS,
        RemediationResult(remediation_id, Outcome.REJECTED, now_ns, ACTOR, "a demo does not touch anything"),
    )


def control_record(now_ns: int) -> Record:
    """Return a control that applies to no device."""
    return encode(
        CONTROLS,
        Control(
            "demo/maintenance",
            ControlKind.MAINTENANCE,
            subject_id="device:none-of-this-fabric",
            at_ns=now_ns,
            until_ns=now_ns + 60_000_000_000,
            actor=ACTOR,
            reason="shows the path",
        ),
    )


def poison_record() -> Record:
    """Return a message that cannot be decoded."""
    return Record(SAMPLES, b"poisoned", POISON, route="poisoned")
