"""Tests the registry of topics: names, keys, partitions and headers."""

import pytest

from streams.wire.errors import Reject
from streams.wire.models import Finding, Message, Symptom
from streams.wire.topics import (
    BY_NAME,
    COLLECTOR_STATUS,
    CONTROLS,
    EPISODES,
    EVENTS,
    FACTS,
    FINDINGS,
    FINDINGS_OPEN,
    INVENTORY,
    JOBS,
    PROGRESS,
    REJECTED,
    REMEDIATION_RESULTS,
    REMEDIATIONS,
    REMEDIATIONS_OPEN,
    SAMPLES,
    SNAPSHOTS,
    SYMPTOMS,
    TARGETS,
    TOPICS,
    Partitions,
    PartitionScheme,
    Topic,
    decode,
    encode,
    partition_of,
    tombstone,
)
from tests.fixtures import wire_examples as e

# Kafka's own vectors: UtilsTest.testMurmur2 of Apache Kafka's Java client, as signed 32-bit numbers.
VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
LINK = "link:host1/e0--leaf1/e1"


@pytest.mark.parametrize("name", VECTORS)
def test_partition_is_kafkas_murmur2(name: bytes) -> None:
    """A client in any language with Kafka's default hash finds the same partition."""
    for partitions in (1, 3, 8, 64):
        assert partition_of(name.decode(), partitions) == (VECTORS[name] & 0x7FFFFFFF) % partitions


@pytest.mark.parametrize(
    ("topic", "message", "key", "route"),
    [
        (SAMPLES, e.SAMPLES, "leaf1", "leaf1"),
        (EVENTS, e.EVENT, "leaf1", "leaf1"),
        (FACTS, e.FACTS, "host1/SOURCE_NIC", "host1"),
        (COLLECTOR_STATUS, e.STATUS, "leaf1/SOURCE_GNMI/gnmi-0", "leaf1"),
        (INVENTORY, e.INVENTORY, f"{'d' * 64}/1", None),
        (JOBS, e.JOB, "job1/host1/2", None),
        (EPISODES, e.EPISODE, LINK, None),
        (FINDINGS, e.FINDING, LINK, None),
        (REMEDIATIONS, e.REMEDIATION, LINK, None),
        (REMEDIATION_RESULTS, e.RESULT, "r" * 32, None),
        (CONTROLS, e.CONTROL, "c1", None),
        (REJECTED, e.REJECTED, "railsight.samples.v1/2/77", None),
        (SNAPSHOTS["measure"], e.CHUNK, "1/4/0.0", None),
    ],
    ids=lambda value: value.name if isinstance(value, Topic) else None,
)
def test_each_record_has_the_key_of_its_topic(topic: Topic, message: Message, key: str, route: str | None) -> None:
    """Keys follow the table of topics; telemetry goes to the partition of its device, for any key."""
    record = encode(topic, message)
    assert record.key == key.encode()
    assert record.partition(Partitions(8, 4)) == (partition_of(route, 8) if route else record.partition(Partitions()))
    if topic.scheme is PartitionScheme.SINGLE:
        assert record.partition(Partitions(8, 4)) == 0


def test_the_caller_routes_a_symptom() -> None:
    """Its pod is its key and its route."""
    record = encode(SYMPTOMS, e.SYMPTOM, key="pod7")
    assert record.key == b"pod7"
    assert record.partition(Partitions(8, 16)) == partition_of("pod7", 16) or record.route == "leaf1"


def test_findings_are_cloud_events() -> None:
    """In Kafka's binary mode the attributes are headers and the value is the JSON."""
    headers = dict(encode(FINDINGS, e.FINDING, cluster="east").headers)
    assert headers == {
        "ce_specversion": b"1.0",
        "ce_type": b"railsight.finding.v1",
        "ce_id": f"{e.FINDING.id}/{e.FINDING.revision}".encode(),
        "ce_source": b"/railsight/east",
        "ce_subject": LINK.encode(),
        "ce_time": b"2026-09-21T14:13:20.123456790Z",
        "content-type": b"application/json",
    }
    assert dict(encode(REMEDIATIONS, e.REMEDIATION).headers)["ce_type"] == b"railsight.remediation.v1"


def test_a_second_kind_of_message_has_a_type_header() -> None:
    """The main message of a topic needs no header, another valid one has one, an invalid one is refused."""
    assert encode(SYMPTOMS, e.SYMPTOM).headers == ()
    record = encode(EPISODES, e.SYMPTOM, key="device:leaf1")
    assert record.headers == (("type", b"symptom"),)
    assert record.value is not None
    assert isinstance(decode(EPISODES, record.value, record.headers), Symptom)
    for topic, headers in ((EVENTS, [("type", b"progress")]), (EPISODES, [("type", b"\xff")]), (TARGETS, [])):
        with pytest.raises(Reject, match=topic.name):
            decode(topic, record.value, headers)


def test_a_tombstone_has_no_message() -> None:
    """It has only a key, in the only partition of its topic."""
    record = tombstone(FINDINGS_OPEN, "f1")
    assert (record.key, record.value, record.partition(Partitions())) == (b"f1", None, 0)
    with pytest.raises(Reject, match="tombstone"):
        decode(FINDINGS_OPEN, None)


def test_open_findings_are_compacted_and_findings_are_retained_for_a_month() -> None:
    """Retention equals the table of topics, by append time."""
    assert FINDINGS_OPEN.broker_config()["cleanup.policy"] == "compact"
    assert REMEDIATIONS_OPEN.broker_config()["cleanup.policy"] == "compact"
    assert FINDINGS.broker_config()["retention.ms"] == str(30 * 86_400_000)
    assert {topic.broker_config()["message.timestamp.type"] for topic in TOPICS} == {"LogAppendTime"}


def test_samples_are_bounded_in_bytes() -> None:
    """Six hours of a large fabric would fill a disk; findings are limited by time alone."""
    assert (int(SAMPLES.broker_config()["retention.bytes"]), SAMPLES.broker_config()["retention.ms"]) == (
        8 << 30,
        "21600000",
    )
    assert "retention.bytes" not in FINDINGS.broker_config() | FACTS.broker_config()


def test_every_name_is_unique() -> None:
    """No two topics share a name, and all names have a version."""
    assert len(BY_NAME) == len(TOPICS)
    assert all(name.startswith("railsight.") and name.endswith(".v1") for name in BY_NAME)
    assert PROGRESS.model is not None and FINDINGS.model is Finding
