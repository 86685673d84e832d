"""Creates the topics of the registry, and waits until the brokers are ready.

An existing topic stays unchanged. It is refused if its number of partitions differs from the configuration, because
producers and stages would map a device to different partitions, and if its records have the producers' times, because
silence is measured by the time of arrival (event_time.py).
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from streams.config.kafka import KafkaSettings
from streams.runtime.topic_io import kafka_errors_as_retry
from streams.wire.errors import Misconfigured, Retry
from streams.wire.kafka_clients import controller_errors
from streams.wire.retry import Backoff, retry
from streams.wire.topics import SNAPSHOTS, TOPICS, Topic

_OK = 0
_EXISTS = 36
_DENIED = 29
# Error codes of a cluster that is not ready yet: no controller, too few brokers, leader unknown, timeout.
_NOT_YET = {3, 5, 7, 15, 38, 41}
_TIMESTAMP_TYPE = "message.timestamp.type"
_READY_PROBE = "railsight.ready"
_RETRY = Backoff.constant(0.1)
_UNAVAILABLE = (Retry, KafkaError, OSError, TimeoutError)


@dataclass(frozen=True, slots=True)
class TopicState:
    """The configured and the present state of one topic; `partitions` is None if the topic is missing."""

    topic: Topic
    expected: int
    partitions: int | None
    created: bool = False
    timestamp_type: str = ""
    """The topic's message.timestamp.type; empty if the brokers do not return it."""

    @property
    def problem(self) -> str:
        """The reason why the topic is not usable, or an empty text."""
        if self.partitions is None:
            return "missing"
        if self.partitions != self.expected:
            return f"{self.partitions} partitions, {self.expected} are configured"
        expected = self.topic.broker_config()[_TIMESTAMP_TYPE]
        if self.timestamp_type != expected:
            return f"{_TIMESTAMP_TYPE} is {self.timestamp_type or 'not readable'}, it must be {expected}"
        return ""


def _settings(topic: Topic) -> dict[str, str]:
    if topic in SNAPSHOTS.values():
        # With one snapshot per second, fast compaction limits a successor's reads to megabytes instead of a day's data.
        extra = {"segment.bytes": str(16 << 20), "segment.ms": "60000", "min.cleanable.dirty.ratio": "0.1"}
        return topic.broker_config() | extra
    return topic.broker_config()


@asynccontextmanager
async def _admin(kafka: KafkaSettings, timeout_s: float = 5.0) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(**kafka.client_options(), request_timeout_ms=int(timeout_s * 1000))
    try:
        await client.start()
        with controller_errors():
            yield client
    finally:
        with suppress(KafkaError, OSError):
            await client.close()


async def until_ready(kafka: KafkaSettings, within_s: float) -> None:
    """Wait until the brokers would create a topic; raises Retry if they do not in time.

    Brokers accept connections and return metadata earlier, while producing still fails. Call this before Faust, which
    exits with 1 if it finds no broker at its start.
    """

    async def probe(_: int) -> None:
        async with asyncio.timeout(5), _admin(kafka) as admin:
            topic = NewTopic(_READY_PROBE, num_partitions=1, replication_factor=kafka.replication)
            response = await admin.create_topics([topic], validate_only=True)
        codes = {error[1] for error in response.topic_errors}
        # The brokers answer only this code to a user who may not create topics.
        if not codes <= {_OK, _EXISTS, _DENIED}:
            raise Retry(f"error {sorted(codes)}")

    try:
        await retry(probe, _UNAVAILABLE, _RETRY, within_s=within_s)
    except _UNAVAILABLE as error:
        why = str(error) or type(error).__name__
        raise Retry(f"Kafka at {kafka.bootstrap} was not ready after {within_s:g} s: {why}") from error


async def list_topics(kafka: KafkaSettings, topics: Iterable[Topic] = TOPICS) -> list[TopicState]:
    """Return the state of every topic of the registry on the brokers; raises Retry if no broker answers."""
    with kafka_errors_as_retry(kafka):
        async with _admin(kafka) as admin:
            return await _states(admin, kafka, list(topics))


async def _states(admin: AIOKafkaAdminClient, kafka: KafkaSettings, wanted: list[Topic]) -> list[TopicState]:
    there = set(await admin.list_topics())
    described = await admin.describe_topics([topic.name for topic in wanted if topic.name in there] or None)
    counts = {entry["topic"]: len(entry["partitions"]) for entry in described}
    times = await _timestamp_types(admin, list(counts))
    return [
        TopicState(
            topic, kafka.partitions.count(topic), counts.get(topic.name), timestamp_type=times.get(topic.name, "")
        )
        for topic in wanted
    ]


async def _timestamp_types(admin: AIOKafkaAdminClient, names: list[str]) -> dict[str, str]:
    """Return the message.timestamp.type of topics, as far as the brokers return it."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, {_TIMESTAMP_TYPE: ""}) for name in names]
    responses = await admin.describe_configs(resources) if resources else []
    return {
        name: value
        for response in responses
        for _error, _message, _type, name, entries in response.resources
        for setting, value, *_ in entries
        if setting == _TIMESTAMP_TYPE
    }


async def ensure_topics(
    kafka: KafkaSettings, topics: Iterable[Topic] = TOPICS, within_s: float = 30.0
) -> list[TopicState]:
    """Create the missing topics.

    Raises Misconfigured if a topic cannot be created or used, Retry if no broker answers.
    """
    wanted = list(topics)

    async def create(_: int) -> tuple[set[str], list[TopicState]]:
        async with _admin(kafka) as admin:
            missing = [state.topic for state in await _states(admin, kafka, wanted) if state.partitions is None]
            created = await _create(admin, kafka, missing) if missing else set()
            states = await _states(admin, kafka, wanted)
        if any(state.partitions is None for state in states):
            raise Retry("created, but not in the metadata yet")
        return created, states

    try:
        created, states = await retry(create, (Retry, KafkaError, OSError), _RETRY, within_s=within_s)
    except (Retry, KafkaError, OSError) as error:
        why = str(error) or type(error).__name__
        raise Retry(f"the topics could not be created within {within_s:g} s: {why}") from error
    if wrong := [f"{state.topic.name}: {state.problem}" for state in states if state.problem]:
        raise Misconfigured("; ".join(wrong))
    return [replace(state, created=state.topic.name in created) for state in states]


async def _create(admin: AIOKafkaAdminClient, kafka: KafkaSettings, wanted: list[Topic]) -> set[str]:
    answer = await admin.create_topics(
        [
            NewTopic(
                topic.name,
                num_partitions=kafka.partitions.count(topic),
                replication_factor=kafka.replication,
                topic_configs=_settings(topic),
            )
            for topic in wanted
        ]
    )
    created = set()
    for name, code, *message in answer.topic_errors:
        if code == _OK:
            created.add(name)
        elif code in _NOT_YET:
            raise KafkaError(f"{name}: error {code}")
        elif code == _DENIED:
            raise Misconfigured(
                f"{name} is missing, or this user may not see it; run `railsight topics` and `railsight acl apply` as"
                " the admin"
            )
        elif code != _EXISTS:
            raise Misconfigured(
                f"{name} cannot be created: {message[0] if message and message[0] else f'error {code}'}"
            )
    return created
