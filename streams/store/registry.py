"""Which topics are persisted, what makes their rows, and what of them is remembered across restarts.

Not persisted: the -open topics (the same messages as those they are cut from), snapshots, targets and summaries.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from streams.store import shapes
from streams.store.build import Builder, PlainBuilder, Shape
from streams.store.inventory import InventoryBuilder
from streams.store.names import spelled
from streams.store.samples import SampleBuilder
from streams.store.seen import Keys, Sequences
from streams.wire import topics
from streams.wire.models import Message
from streams.wire.topics import Topic


class Asks(Protocol):
    """Answers a query; raises Retry while ClickHouse is away."""

    def query(self, sql: str, parameters: Any = None) -> Any: ...


@dataclass(frozen=True, slots=True)
class Stretch:
    """What to remember: rows of one partition before an offset that came within the window."""

    partition: int
    before: int
    window_ms: int
    now_ms: int

    @property
    def parameters(self) -> dict[str, int]:
        """As the queries below name them."""
        return {"p": self.partition, "before": self.before, "since": self.now_ms - self.window_ms}


class Pace(Enum):
    """How long a topic's rows may wait for others, which a block is the dearer for lacking."""

    PROMPT = "prompt"  # people wait for them: `linger_s`
    BULK = "bulk"  # thousands a second at a large fabric: `linger_most_s` where `bulk_rows` came in `linger_s`
    STEADY = "steady"  # what goes on and on: `linger_most_s` but for a block that comes after as long a silence
    SLOW = "slow"  # the same with `linger_slow_s`: nobody reads it from ClickHouse while it is new


@dataclass(frozen=True, slots=True)
class Persisted:
    """One topic of the sink.

    `tables` are those that it fills, the last one last; `start` makes its builder with what ClickHouse remembers;
    `whole` says that the builder must be shown the topic from its beginning.
    """

    topic: Topic
    tables: tuple[str, ...]
    start: Callable[[Asks, Stretch], Builder]
    whole: bool = False
    pace: Pace = Pace.PROMPT

    @property
    def model(self) -> type[Message]:
        """The message whose rows these are; others that stand in the topic make none."""
        assert self.topic.model is not None
        return self.topic.model


_WITHIN = (
    "kafka_partition = {p:UInt16} AND kafka_offset < {before:Int64}"
    " AND arrived_at >= fromUnixTimestamp64Milli({since:Int64}, 'UTC')"
)

# Sequences as spans: where one does not follow its neighbour, a span begins or ends.
_SPANS = """SELECT device, source, collector, collector_run, lows, highs, newest FROM (
    SELECT device, source, collector, collector_run, arraySort(groupUniqArray(sequence)) AS s,
        arrayFilter((x, i) -> i = 1 OR s[i - 1] + 1 != x, s, arrayEnumerate(s)) AS lows,
        arrayFilter((x, i) -> i = length(s) OR s[i + 1] != x + 1, s, arrayEnumerate(s)) AS highs,
        toUnixTimestamp64Milli(max(arrived_at)) AS newest
    FROM {table} WHERE {within} GROUP BY device, source, collector, collector_run
)"""


def _sequences(asks: Asks, stretch: Stretch, table: str) -> Sequences:
    seen = Sequences(stretch.window_ms)
    for *run, lows, highs, newest in asks.query(_SPANS.format(table=table, within=_WITHIN), stretch.parameters):
        seen.restore((run[0], run[1], run[2], run[3]), lows, highs, newest)
    return seen


def _samples(asks: Asks, stretch: Stretch) -> Builder:
    return SampleBuilder(_sequences(asks, stretch, "sample_messages"))


def _plain(shape: Shape) -> Callable[[Asks, Stretch], Builder]:
    return lambda _asks, _stretch: PlainBuilder(shape)


def _keyed(
    shape: Shape, columns: str, identity: Callable[[Any], Hashable | None]
) -> Callable[[Asks, Stretch], Builder]:
    def start(asks: Asks, stretch: Stretch) -> Builder:
        keys = Keys(stretch.window_ms)
        sql = (
            f"SELECT {columns}, toUnixTimestamp64Milli(arrived_at) AS came FROM {shape.table}"  # noqa: S608 — ours
            f" WHERE {_WITHIN} ORDER BY kafka_offset"
        )
        for *key, came in asks.query(sql, stretch.parameters):
            keys.fresh(tuple(key), came)
        return PlainBuilder(shape, keys, identity)

    return start


def _revision(message: Any) -> Hashable:
    return message.id, message.revision


def _episode_revision(message: Any) -> Hashable:
    return message.finding.id, message.finding.revision


def _event(message: Any) -> Hashable | None:
    # Without a run there is no identity: what a bridge passes on may lack it.
    if not message.collector_run:
        return None
    return message.device, spelled(message.source), message.collector, message.collector_run, message.sequence


def _rejection(message: Any) -> Hashable:
    return message.topic, message.partition, message.offset, message.stage


def _one(topic: Topic, shape: Shape, pace: Pace = Pace.PROMPT) -> Persisted:
    return Persisted(topic, (shape.table,), _plain(shape), pace=pace)


PERSISTED: tuple[Persisted, ...] = (
    Persisted(topics.SAMPLES, ("samples", "sample_lanes", "sample_messages"), _samples, pace=Pace.BULK),
    Persisted(
        topics.EVENTS,
        ("events",),
        _keyed(shapes.EVENTS, "device, source, collector, collector_run, sequence", _event),
        pace=Pace.STEADY,
    ),
    _one(topics.FACTS, shapes.FACTS, Pace.SLOW),
    _one(topics.COLLECTOR_STATUS, shapes.COLLECTOR_STATUS, Pace.SLOW),
    Persisted(topics.FINDINGS, ("findings",), _keyed(shapes.FINDINGS, "id, revision", _revision)),
    Persisted(topics.REMEDIATIONS, ("remediations",), _keyed(shapes.REMEDIATIONS, "id, revision", _revision)),
    _one(topics.REMEDIATION_RESULTS, shapes.REMEDIATION_RESULTS),
    _one(topics.CONTROLS, shapes.CONTROLS),
    Persisted(
        topics.REJECTED,
        ("rejected",),
        _keyed(shapes.REJECTED, "topic, partition, offset, stage", _rejection),
    ),
    _one(topics.PROGRESS, shapes.PROGRESS, Pace.SLOW),
    _one(topics.SYMPTOMS, shapes.SYMPTOMS, Pace.SLOW),
    Persisted(
        topics.EPISODES,
        ("episodes",),
        _keyed(shapes.EPISODES, "id, revision", _episode_revision),
        pace=Pace.SLOW,
    ),
    Persisted(
        topics.INVENTORY,
        ("inventory_devices", "inventory_links", "inventory_jobs"),
        lambda _asks, _stretch: InventoryBuilder(),
        whole=True,
    ),
    _one(topics.JOBS, shapes.JOBS),
)
