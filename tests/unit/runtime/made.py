"""Bindings, chunks and folds for tests of what the runner does without Kafka."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from streams.instrument.metrics import Silent
from streams.runtime.bindings import Binding, Upstream
from streams.runtime.chunk import Chunk
from streams.runtime.fold import Fold, MakeStage
from streams.runtime.versions import Versions
from streams.wire import topics
from streams.wire.models import Event, EventKind, Message, Progress, SnapshotChunk, Source, Symptom, SymptomKind
from streams.wire.topics import Partitions, Spread, Topic

IN = Topic("in", Event, Spread.TELEMETRY, 3600, others=(Progress,))
KEPT = Topic("kept", Event, Spread.TELEMETRY)
MID = Topic("mid", Symptom, Spread.POD, 3600, others=(Progress,))
OUT = Topic("out", Symptom, Spread.ONE, 3600)
BESIDE = Topic("beside", Progress, Spread.ONE, 3600)
SNAPSHOTS = Topic("snapshots", SnapshotChunk, Spread.TELEMETRY)
FIRST = Binding("measure", (IN, KEPT), SNAPSHOTS, None, (MID,), BESIDE)
SECOND = Binding("correlate", (MID,), SNAPSHOTS, Upstream("measure", IN, (MID,)), (), BESIDE, covers=OUT)
LAST = Binding("decide", (OUT, BESIDE), SNAPSHOTS, Upstream("attribute", OUT, (BESIDE,), barrier=OUT), (), BESIDE)
PARTITIONS = Partitions(telemetry=2, pod=1)


@dataclass
class Clock:
    """Stands where it was set."""

    ns: int = 1_000

    def now_ns(self) -> int:
        return self.ns


@dataclass(frozen=True)
class Fetched:
    """A record as it was fetched."""

    offset: int
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()
    key: bytes | None = b""
    timestamp: int = 0


@dataclass
class Log:
    """One partition of a topic, to cut chunks from."""

    topic: Topic
    records: list[Fetched] = field(default_factory=list)

    def add(self, *messages: Message | bytes | None, at_ms: int = 0) -> "Log":
        for message in messages:
            offset = len(self.records)
            if message is None or isinstance(message, bytes):
                self.records.append(Fetched(offset, message, timestamp=at_ms))
            else:
                record = topics.encode(self.topic, message, key="k")
                self.records.append(Fetched(offset, record.value, record.headers, record.key, at_ms))
        return self

    def chunk(self, start: int = 0, end: int | None = None) -> Chunk:
        end = len(self.records) if end is None else end
        return Chunk(self.topic.name, 0, start, end, self.records[start:end], len(self.records))


def event(number: int, device: str = "d", at_ns: int | None = None) -> Event:
    at = number if at_ns is None else at_ns
    return Event(device, "", EventKind.LOG, at, at, Source.SOURCE_GNMI, sequence=number, code=number)


def symptom(number: int, at_ns: int, device: str = "d") -> Symptom:
    return Symptom(device, str(number), SymptomKind.WENT_DOWN, at_ns)


def fold(binding: Binding, make_stage: MakeStage, versions: Versions | None = None, clock: Clock | None = None) -> Fold:
    return Fold(
        binding,
        0,
        make_stage,
        PARTITIONS,
        Versions() if versions is None else versions,
        clock=clock or Clock(),
        metrics=Silent(),
    )


def begun(binding: Binding, make_stage: MakeStage, end: int = 0, versions: Versions | None = None) -> Fold:
    """A fold that took over from nobody; each of its inputs ends at `end`."""
    made = fold(binding, make_stage, versions)
    nothing = {topic.name: 0 for topic in binding.inputs}
    made.begin(1, None, nothing, {topic.name: end for topic in binding.inputs})
    return made
