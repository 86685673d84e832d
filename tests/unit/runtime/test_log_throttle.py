"""A worker serves its metrics, and its log stays readable in an outage."""

import logging
import urllib.request

from streams.health.health import Health, HealthParams
from streams.health.status_server import PrometheusMetrics
from streams.runtime.log_setup import MissingTopicFilter, RepeatFilter


def record(name: str, message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, "", 0, message, args, None)


def health() -> Health:
    return Health(HealthParams(), lambda: 0.0)


def test_prometheus_scrapes_the_counters_and_gauges() -> None:
    """Counts and gauges are served on the port with their labels."""
    metrics = PrometheusMetrics("127.0.0.1", 0, health())
    metrics.count("railsight_messages_total", "measure", 3, topic="railsight.samples.v1", by=5)
    metrics.set("railsight_watermark_seconds", "measure", 3, 17.5)
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=5) as response:
        text = response.read().decode()
    metrics.close()
    assert 'railsight_messages_total{partition="3",stage="measure",topic="railsight.samples.v1"} 5.0' in text
    assert 'railsight_watermark_seconds{partition="3",stage="measure"} 17.5' in text
    assert "_created" not in text


def test_a_repeated_library_message_is_logged_once_in_ten_seconds() -> None:
    """A library's message with other arguments is dropped; other messages, and those of railsight, are logged."""
    now = 0.0
    repeats = RepeatFilter(lambda: now)
    assert repeats.filter(record("aiokafka.conn", "node %s gone", 1))
    assert not repeats.filter(record("aiokafka.conn", "node %s gone", 2))
    assert repeats.filter(record("aiokafka.conn", "something else"))
    assert all(repeats.filter(record("streams.runtime.partition_owner", "own message")) for _ in range(3))
    now = 10.5
    assert repeats.filter(record("aiokafka.conn", "node %s gone", 3))


def test_the_number_of_remembered_messages_is_bounded() -> None:
    """The filter forgets messages of a library that formats them itself, so that each is different."""
    repeats = RepeatFilter(lambda: 0.0)
    for number in range(5000):
        repeats.filter(record("faust", f"{number} is new"))
    assert repeats.known <= 1001


def test_a_missing_topic_is_reported_once_with_the_next_step() -> None:
    """The client logs it at each refresh of its metadata."""
    missing = MissingTopicFilter()
    found = [record("aiokafka.cluster", "Topic %s not found in cluster metadata", t) for t in ("a", "a", "b", "a")]
    shown = [one for one in found if missing.filter(one)]
    assert [one.getMessage() for one in shown] == [
        f"Kafka has no topic {topic}; create the topics with `railsight topics`" for topic in ("a", "b")
    ]
    assert missing.filter(record("aiokafka.cluster", "another message"))
