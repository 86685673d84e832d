"""What a worker says of itself: its metrics, and a log that stays readable in an outage."""

import logging
import urllib.request

import pytest

from streams.runtime.log_throttle import RepeatFilter, install
from streams.runtime.prometheus import PrometheusMetrics
from streams.wire.errors import Misconfigured


def record(name: str, message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, "", 0, message, args, None)


def test_prometheus_reads_what_was_counted() -> None:
    """Counts and gauges are served on the port with their labels."""
    exposed = PrometheusMetrics("127.0.0.1", 0)
    exposed.count("railsight_messages_total", "measure", 3, topic="railsight.samples.v1", by=5)
    exposed.set("railsight_watermark_seconds", "measure", 3, 17.5)
    with urllib.request.urlopen(f"http://127.0.0.1:{exposed.port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    exposed.close()
    assert 'railsight_messages_total{partition="3",stage="measure",topic="railsight.samples.v1"} 5.0' in text
    assert 'railsight_watermark_seconds{partition="3",stage="measure"} 17.5' in text
    assert "_created" not in text


def test_a_port_that_is_taken_is_one_clear_line() -> None:
    """A second worker on the same port is told which one, and does not start."""
    exposed = PrometheusMetrics("127.0.0.1", 0)
    try:
        with pytest.raises(Misconfigured, match=f"cannot listen on 127.0.0.1:{exposed.port}"):
            PrometheusMetrics("127.0.0.1", exposed.port)
    finally:
        exposed.close()


def test_a_library_says_a_thing_once_in_ten_seconds() -> None:
    """The same message of a library with other arguments is held back; another one, and ours, come through."""
    now = 0.0
    repeats = RepeatFilter(lambda: now)
    assert repeats.filter(record("aiokafka.conn", "node %s gone", 1))
    assert not repeats.filter(record("aiokafka.conn", "node %s gone", 2))
    assert repeats.filter(record("aiokafka.conn", "something else"))
    assert all(repeats.filter(record("streams.runtime.partition_owner", "ours")) for _ in range(3))
    now = 10.5
    assert repeats.filter(record("aiokafka.conn", "node %s gone", 3))


def test_what_differs_without_end_does_not_fill_the_memory() -> None:
    """A library that formats its messages itself is forgotten in time."""
    repeats = RepeatFilter(lambda: 0.0)
    for number in range(5000):
        repeats.filter(record("faust", f"{number} is new"))
    assert repeats.known <= 1001


def test_quieten_filters_the_handlers_it_is_given() -> None:
    """Whatever handler writes the log, the flood does not pass it."""
    handler = logging.NullHandler()
    install([handler])
    assert [type(one) for one in handler.filters] == [RepeatFilter]
    assert logging.getLogger("aiokafka").level == logging.WARNING
