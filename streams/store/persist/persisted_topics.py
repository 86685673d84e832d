"""Which topics are persisted, what makes their rows, and what of them is remembered across restarts.

Not persisted: the -open topics (the same messages as those they are cut from), snapshots, targets and summaries.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from streams.store.enum_labels import enum_label
from streams.store.rows import table_schemas
from streams.store.rows.deduplication import KeyDedup, SequenceDedup
from streams.store.rows.inventory_rows import InventoryBuilder
from streams.store.rows.row_builder import MessageRowBuilder, RowBuilder, TableSchema
from streams.store.rows.sample_rows import SampleBuilder
from streams.wire import topics
from streams.wire.models import Message
from streams.wire.topics import Topic


class QueryClient(Protocol):
    """Answers a query; raises Retry while ClickHouse is away."""

    def query(self, sql: str, parameters: Any = None) -> Any: ...


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """What to remember: rows of one partition before an offset that came within the window."""

    partition: int
    end: int
    window_ms: int
    now_ms: int

    @property
    def parameters(self) -> dict[str, int]:
        """As the queries below name them."""
        return {"p": self.partition, "before": self.end, "since": self.now_ms - self.window_ms}


class LatencyClass(Enum):
    """How long a topic's rows may wait for others, which a block is the dearer for lacking."""

    PROMPT = "prompt"  # people wait for them: `linger_s`
    BULK = "bulk"  # thousands a second at a large fabric: `linger_max_s` where `bulk_rows` came in `linger_s`
    STEADY = "steady"  # what goes on and on: `linger_max_s` but for a block that comes after as long a silence
    BACKGROUND = "background"  # the same with `linger_background_s`: nobody reads it from ClickHouse while it is new


@dataclass(frozen=True, slots=True)
class PersistedTopic:
    """One topic of the sink.

    `tables` are those that it fills, the last one last; `start` makes its builder with what ClickHouse remembers;
    `whole` says that the builder must be shown the topic from its beginning.
    """

    topic: Topic
    tables: tuple[str, ...]
    start: Callable[[QueryClient, OffsetRange], RowBuilder]
    from_beginning: bool = False
    latency: LatencyClass = LatencyClass.PROMPT

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


def _sequences(asks: QueryClient, stretch: OffsetRange, table: str) -> SequenceDedup:
    seen = SequenceDedup(stretch.window_ms)
    for *run, lows, highs, newest in asks.query(_SPANS.format(table=table, within=_WITHIN), stretch.parameters):
        seen.restore((run[0], run[1], run[2], run[3]), lows, highs, newest)
    return seen


def _samples(asks: QueryClient, stretch: OffsetRange) -> RowBuilder:
    return SampleBuilder(_sequences(asks, stretch, "sample_messages"))


def _plain(shape: TableSchema) -> Callable[[QueryClient, OffsetRange], RowBuilder]:
    return lambda _asks, _stretch: MessageRowBuilder(shape)


def _keyed(
    shape: TableSchema, columns: str, identity: Callable[[Any], Hashable | None]
) -> Callable[[QueryClient, OffsetRange], RowBuilder]:
    def start(asks: QueryClient, stretch: OffsetRange) -> RowBuilder:
        keys = KeyDedup(stretch.window_ms)
        sql = (
            f"SELECT {columns}, toUnixTimestamp64Milli(arrived_at) AS came FROM {shape.table}"  # noqa: S608 — ours
            f" WHERE {_WITHIN} ORDER BY kafka_offset"
        )
        for *key, came in asks.query(sql, stretch.parameters):
            keys.is_new(tuple(key), came)
        return MessageRowBuilder(shape, keys, identity)

    return start


def _revision(message: Any) -> Hashable:
    return message.id, message.revision


def _episode_revision(message: Any) -> Hashable:
    return message.finding.id, message.finding.revision


def _event(message: Any) -> Hashable | None:
    # Without a run there is no identity: what a bridge passes on may lack it.
    if not message.collector_run:
        return None
    return message.device, enum_label(message.source), message.collector, message.collector_run, message.sequence


def _rejection(message: Any) -> Hashable:
    return message.topic, message.partition, message.offset, message.stage


def _one(topic: Topic, shape: TableSchema, pace: LatencyClass = LatencyClass.PROMPT) -> PersistedTopic:
    return PersistedTopic(topic, (shape.table,), _plain(shape), latency=pace)


PERSISTED_TOPICS: tuple[PersistedTopic, ...] = (
    PersistedTopic(topics.SAMPLES, ("samples", "sample_lanes", "sample_messages"), _samples, latency=LatencyClass.BULK),
    PersistedTopic(
        topics.EVENTS,
        ("events",),
        _keyed(table_schemas.EVENTS, "device, source, collector, collector_run, sequence", _event),
        latency=LatencyClass.STEADY,
    ),
    _one(topics.FACTS, table_schemas.FACTS, LatencyClass.BACKGROUND),
    _one(topics.COLLECTOR_STATUS, table_schemas.COLLECTOR_STATUS, LatencyClass.BACKGROUND),
    PersistedTopic(topics.FINDINGS, ("findings",), _keyed(table_schemas.FINDINGS, "id, revision", _revision)),
    PersistedTopic(
        topics.REMEDIATIONS, ("remediations",), _keyed(table_schemas.REMEDIATIONS, "id, revision", _revision)
    ),
    _one(topics.REMEDIATION_RESULTS, table_schemas.REMEDIATION_RESULTS),
    _one(topics.CONTROLS, table_schemas.CONTROLS),
    PersistedTopic(
        topics.REJECTED,
        ("rejected",),
        _keyed(table_schemas.REJECTED, "topic, partition, offset, stage", _rejection),
    ),
    _one(topics.PROGRESS, table_schemas.PROGRESS, LatencyClass.BACKGROUND),
    _one(topics.SYMPTOMS, table_schemas.SYMPTOMS, LatencyClass.BACKGROUND),
    PersistedTopic(
        topics.EPISODES,
        ("episodes",),
        _keyed(table_schemas.EPISODES, "id, revision", _episode_revision),
        latency=LatencyClass.BACKGROUND,
    ),
    PersistedTopic(
        topics.INVENTORY,
        ("inventory_devices", "inventory_links", "inventory_jobs"),
        lambda _asks, _stretch: InventoryBuilder(),
        from_beginning=True,
    ),
    _one(topics.JOBS, table_schemas.JOBS),
)
