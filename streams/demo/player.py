"""Plays a recording into Kafka as its collectors would have sent it, at a chosen speed, with the times it has.

What was recorded names the end of time as well: after the last reading, each partition is told that nothing earlier
comes any more, so that windows become final exactly where a backtest's do.
"""

import asyncio
import time
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from streams.config.kafka import KafkaSettings
from streams.replay.backtest import Recording, read_messages
from streams.replay.driver import event_time
from streams.replay.recording import RejectedRows
from streams.runtime.topic_writer import open_producer, send
from streams.wire.errors import Misconfigured
from streams.wire.models import CollectorStatus, Control, Event, Facts, Message, Progress, Samples
from streams.wire.topics import COLLECTOR_STATUS, CONTROLS, EVENTS, FACTS, SAMPLES, Topic, encode

STAGE = "replay"
"""Whose Progress it is that says how far a recording has come."""
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
    """A recording ready to play: its messages in the order of their time."""

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


def find_recording(place: Path, inventory: Path) -> Recording:
    """The recording at `place`: a samples file, or a folder that holds samples and perhaps events."""
    if not place.is_dir():
        return Recording((place,), (), None, None, None, inventory)
    samples = tuple(place / name for name in _SAMPLES_NAMES if (place / name).exists())
    events = tuple(place / name for name in _EVENTS_NAMES if (place / name).exists())
    if not samples:
        raise Misconfigured(f"{place}: no {', '.join(_SAMPLES_NAMES)}")
    return Recording(samples, events, None, None, None, inventory)


def load_playback(recording: Recording) -> Playback:
    """Read a recording; raises Misconfigured where it cannot be read or holds nothing."""
    rejected = RejectedRows()
    messages = tuple(sorted(read_messages(recording, rejected), key=event_time))
    if not messages:
        raise Misconfigured(f"{recording.samples[0]}: nothing in it can be read")
    return Playback(messages, tuple(rejected.lines()))


async def play(tape: Playback, kafka: KafkaSettings, speed: float) -> int:
    """Send all messages at `speed` times the pace of the recording; return how many once all are acknowledged."""
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
    """Tell every partition of samples that nothing before `watermark_ns` comes any more."""
    async with open_producer(kafka) as producer:
        for partition in range(kafka.partitions.count(SAMPLES)):
            progress = Progress(STAGE, partition, 1, watermark_ns)
            await (await send(producer, encode(SAMPLES, progress, key=f"{STAGE}/{partition}"), partition))
