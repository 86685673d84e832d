"""Lists the persisted topics, with the builder of their rows and the identities restored after a restart.

The -open topics (they repeat messages of other topics), snapshots, targets, schedulers and summaries are not persisted.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import Any

from streams.store.clickhouse import QueryClient
from streams.store.enum_labels import enum_label
from streams.store.rows import table_schemas
from streams.store.rows.deduplication import KeyDedup, SequenceDedup
from streams.store.rows.inventory_rows import InventoryBuilder
from streams.store.rows.minute_rollups import MinuteRollups
from streams.store.rows.row_builder import MessageRowBuilder, RowBuilder, TableSchema
from streams.store.rows.sample_rows import SampleBuilder
from streams.store.rows.symptom_rows import SYMPTOMS, symptom_rows
from streams.wire import topics
from streams.wire.models import Message, SymptomsReplaced
from streams.wire.topics import Access, Topic


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The rows whose identities are restored: rows of one partition before offset `end` that arrived in the window."""

    partition: int
    end: int
    window_ms: int
    now_ms: int

    @property
    def parameters(self) -> dict[str, int]:
        """Return the parameters of the queries below."""
        return {"p": self.partition, "before": self.end, "since": self.now_ms - self.window_ms}


class LatencyClass(Enum):
    """The time that a topic's rows may wait for a larger block, which costs less per row."""

    PROMPT = "prompt"  # people wait for these rows: `linger_s`
    STEADY = "steady"  # continuous streams: `linger_max_s`, except for a block after a silence of that length
    BACKGROUND = "background"  # as STEADY with `linger_background_s`: recent rows are rarely queried


@dataclass(frozen=True, slots=True)
class PersistedTopic:
    """One topic of the sink.

    `tables` are its tables in the order of insertion; `start` makes its builder, with identities restored from
    ClickHouse; with `from_beginning`, the builder needs all records of the topic from its beginning.
    """

    topic: Topic
    tables: tuple[str, ...]
    start: Callable[[QueryClient, OffsetRange], RowBuilder]
    from_beginning: bool = False
    resume: Callable[[QueryClient, OffsetRange], int] | None = None
    """Returns the first offset that the builder needs again after a restart, to restore its state."""
    latency: LatencyClass = LatencyClass.PROMPT
    other_models: tuple[type[Message], ...] = ()
    """Further message types with rows besides the topic's own; other types in the topic have no rows."""

    @property
    def models(self) -> tuple[type[Message], ...]:
        """The message types with rows."""
        assert self.topic.model is not None
        return self.topic.model, *self.other_models


OPEN_MINUTES_S = 150
"""Readings of this time before the newest are read again after a restart. For a source with a longer cadence, the first
increase after a restart is absent."""

_IN_RANGE = (
    "kafka_partition = {p:UInt16} AND kafka_offset < {before:Int64}"
    " AND arrived_at >= fromUnixTimestamp64Milli({since:Int64}, 'UTC')"
)

# Sequences as ranges: a range begins or ends at a sequence that is not adjacent to its neighbor.
_SPANS = """SELECT device, source, collector, collector_run, lows, highs, newest FROM (
    SELECT device, source, collector, collector_run, arraySort(groupUniqArray(sequence)) AS s,
        arrayFilter((x, i) -> i = 1 OR s[i - 1] + 1 != x, s, arrayEnumerate(s)) AS lows,
        arrayFilter((x, i) -> i = length(s) OR s[i + 1] != x + 1, s, arrayEnumerate(s)) AS highs,
        toUnixTimestamp64Milli(max(arrived_at)) AS newest
    FROM {table} WHERE {range} GROUP BY device, source, collector, collector_run
)"""


def _restore_sequences(client: QueryClient, offsets: OffsetRange, table: str) -> SequenceDedup:
    dedup = SequenceDedup(offsets.window_ms)
    for *run, lows, highs, newest in client.query(_SPANS.format(table=table, range=_IN_RANGE), offsets.parameters):
        dedup.restore((run[0], run[1], run[2], run[3]), lows, highs, newest)
    return dedup


# The first reading of the newest minute of each device and source.
_OPEN_MINUTES = """SELECT count(), min(first) FROM (
    SELECT device, source, row_kind, toStartOfMinute(sampled_at) AS minute, min(kafka_offset) AS first
    FROM sample_messages
    WHERE {range} AND arrived_at >= (
        SELECT max(arrived_at) FROM sample_messages WHERE {range}
    ) - toIntervalSecond({seconds})
    GROUP BY device, source, row_kind, minute
    ORDER BY minute DESC LIMIT 1 BY device, source, row_kind
)"""


def _start_samples(client: QueryClient, offsets: OffsetRange, *, rollups: bool) -> RowBuilder:
    dedup = _restore_sequences(client, offsets, "sample_messages")
    return SampleBuilder(dedup, MinuteRollups() if rollups else None)


def _open_minutes(client: QueryClient, offsets: OffsetRange) -> int:
    found = client.query(_OPEN_MINUTES.format(range=_IN_RANGE, seconds=OPEN_MINUTES_S), offsets.parameters)
    return int(found[0][1]) if found and found[0][0] else offsets.end


@dataclass(frozen=True, slots=True)
class _Identity:
    """The identity of a topic's messages: the columns of its table, and the corresponding values of a message."""

    columns: str
    of: Callable[[Any], Hashable | None]


def _event(message: Any) -> Hashable | None:
    # A message without a run has no identity; events that a bridge forwards may lack the run.
    if not message.collector_run:
        return None
    return message.device, enum_label(message.source), message.collector, message.collector_run, message.sequence


_REVISION = _Identity("id, revision", attrgetter("id", "revision"))
_EPISODE = _Identity("id, revision", attrgetter("finding.id", "finding.revision"))
_EVENT = _Identity("device, source, collector, collector_run, sequence", _event)
_REJECTION = _Identity("topic, partition, offset, stage", attrgetter("topic", "partition", "offset", "stage"))


def _table(
    topic: Topic, schema: TableSchema, latency: LatencyClass = LatencyClass.PROMPT, identity: _Identity | None = None
) -> PersistedTopic:
    """Return a topic with one row per message; a message with a stored identity has no row."""

    def start(client: QueryClient, offsets: OffsetRange) -> RowBuilder:
        if identity is None:
            return MessageRowBuilder(schema)
        keys = KeyDedup(offsets.window_ms)
        sql = (
            f"SELECT {identity.columns}, toUnixTimestamp64Milli(arrived_at) AS came FROM {schema.table}"  # noqa: S608
            f" WHERE {_IN_RANGE} ORDER BY kafka_offset"
        )
        for *key, arrived_ms in client.query(sql, offsets.parameters):
            keys.is_new(tuple(key), arrived_ms)
        return MessageRowBuilder(schema, keys, identity.of)

    return PersistedTopic(topic, (schema.table,), start, latency=latency)


SAMPLES = PersistedTopic(
    topics.SAMPLES,
    ("samples", "sample_lanes", "samples_1m", "sample_lanes_1m", "sample_messages"),
    partial(_start_samples, rollups=True),
    resume=_open_minutes,
    latency=LatencyClass.STEADY,
)
SAMPLES_ONLY = replace(
    SAMPLES,
    tables=("samples", "sample_lanes", "sample_messages"),
    start=partial(_start_samples, rollups=False),
    resume=None,
)
"""The topic of samples without rollups."""

PERSISTED_TOPICS: tuple[PersistedTopic, ...] = (
    SAMPLES,
    _table(topics.EVENTS, table_schemas.EVENTS, LatencyClass.STEADY, _EVENT),
    _table(topics.FACTS, table_schemas.FACTS, LatencyClass.BACKGROUND),
    _table(topics.COLLECTOR_STATUS, table_schemas.COLLECTOR_STATUS, LatencyClass.BACKGROUND),
    _table(topics.FINDINGS, table_schemas.FINDINGS, identity=_REVISION),
    _table(topics.REMEDIATIONS, table_schemas.REMEDIATIONS, identity=_REVISION),
    _table(topics.REMEDIATION_RESULTS, table_schemas.REMEDIATION_RESULTS),
    _table(topics.CONTROLS, table_schemas.CONTROLS),
    _table(topics.LEMONS, table_schemas.LEMONS, LatencyClass.BACKGROUND),
    _table(topics.REJECTED, table_schemas.REJECTED, identity=_REJECTION),
    _table(topics.PROGRESS, table_schemas.PROGRESS, LatencyClass.BACKGROUND),
    PersistedTopic(
        topics.SYMPTOMS,
        ("symptoms",),
        lambda _client, _offsets: MessageRowBuilder(SYMPTOMS, items_of=symptom_rows),
        latency=LatencyClass.BACKGROUND,
        other_models=(SymptomsReplaced,),
    ),
    _table(topics.EPISODES, table_schemas.EPISODES, LatencyClass.BACKGROUND, _EPISODE),
    PersistedTopic(
        topics.INVENTORY,
        ("inventory_devices", "inventory_links", "inventory_jobs"),
        lambda _client, _offsets: InventoryBuilder(),
        from_beginning=True,
    ),
    _table(topics.JOBS, table_schemas.JOBS),
)


def access(group: str) -> Access:
    """Return the access to Kafka of a sink of this consumer group."""
    return Access(
        reads=tuple(one.topic for one in PERSISTED_TOPICS),
        writes=(topics.REJECTED, topics.INPUT_LOSSES),
        groups=(group,),
    )


def persisted_topics(*, rollups: bool) -> tuple[PersistedTopic, ...]:
    """Return the topics of a sink, with or without rollups of samples."""
    return tuple(SAMPLES_ONLY if one is SAMPLES and not rollups else one for one in PERSISTED_TOPICS)
