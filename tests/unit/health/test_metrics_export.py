"""Self-metrics are sent by OTLP under the names of a scrape, with units of UCUM, and cumulatively."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily

from collectors.core.metrics import CollectorMetrics, metrics_outputs
from lab.constants import params_of
from streams.health.health import Health, HealthParams
from streams.health.metrics_export import Sender, resource, series
from streams.health.status_server import process_metrics
from streams.instrument.metrics import NullMetrics
from streams.wire.otlp_params import OtlpParams
from streams.wire.v1 import otlp_pb2
from tests.fakes.otlp_receiver import OK, Answer, Receiver, attributes

START_NS, STEP_NS = 1_000_000_000, 7_000_000_000


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver("http")
    receiver.start()
    yield receiver
    receiver.stop()


def sender(receiver: Receiver) -> Sender:
    """Return a sender whose clock advances by a step at each reading."""
    times = iter(range(START_NS, 1 << 62, STEP_NS))
    params = params_of(OtlpParams, {"metrics": f"{receiver.url}/api/v1/otlp", "interval_s": 0.05, "timeout_s": 5})
    return Sender(params, resource("measure", "test", "one"), lambda: next(times))


def until(condition: Callable[[], object]) -> None:
    give_up = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < give_up, "the condition was not met in time"
        time.sleep(0.02)


def of_scope(body: bytes) -> dict[str, Any]:
    request = otlp_pb2.ExportMetricsServiceRequest.FromString(body)
    return {metric.name.decode(): metric for metric in request.resource_metrics[0].scope_metrics[0].metrics}


def point(data: Any) -> Any:
    """Return the only point of a gauge or sum."""
    (only,) = data.data_points
    return otlp_pb2.NumberDataPoint.FromString(only)


def test_counters_are_sums_since_the_start_and_an_outage_loses_none(receiver: Receiver) -> None:
    """The receiver refuses at first; the next request has the later values."""
    receiver.respond = lambda _: Answer(503)
    metrics = process_metrics("127.0.0.1", None, Health(HealthParams(), time.monotonic), sender(receiver))
    try:
        metrics.count("railsight_messages_total", "measure", 3, topic="t", by=5)
        metrics.set("railsight_watermark_seconds", "measure", 3, 1.5)
        metrics.set("railsight_epoch", "measure", 3, 2)
        until(lambda: receiver.attempts >= 2)
        metrics.count("railsight_messages_total", "measure", 3, topic="t")
        receiver.respond = lambda _: OK
        until(lambda: receiver.accepted)
    finally:
        metrics.close()  # type: ignore[attr-defined]
    path, body = receiver.accepted[0]
    assert path == "/api/v1/otlp/v1/metrics"
    found = of_scope(body)
    messages, watermark = found["railsight_messages_total"], found["railsight_watermark_seconds"]
    assert (messages.unit.decode(), messages.sum.aggregation_temporality, messages.sum.is_monotonic) == (
        "{records}",
        2,
        True,
    )
    sent = point(messages.sum)
    assert (sent.as_double, sent.start_time_unix_nano) == (6, START_NS)
    assert (sent.time_unix_nano - START_NS) % STEP_NS == 0 and sent.time_unix_nano > START_NS
    assert attributes(sent) == {"stage": "measure", "partition": "3", "topic": "t"}
    assert (watermark.unit, point(watermark.gauge).as_double) == (b"s", 1.5)
    assert point(watermark.gauge).start_time_unix_nano == 0
    assert found["railsight_epoch"].unit == b""
    described = otlp_pb2.ExportMetricsServiceRequest.FromString(body).resource_metrics[0].resource
    assert attributes(otlp_pb2.Resource.FromString(described)).items() >= {
        "service.namespace": "railsight", "service.name": "measure", "service.instance.id": "one",
        "railsight.cluster": "test",
    }.items()  # fmt: skip


def test_a_collector_sends_its_metrics_too(receiver: Receiver) -> None:
    """A unit of several words is one annotation."""
    counted = CollectorMetrics()
    counted.add("acknowledged", "samples", 4)
    counted.set("waiting", 2.0)
    health = Health(HealthParams(), time.monotonic)
    with metrics_outputs(counted, "127.0.0.1", None, health, sender(receiver)):
        until(lambda: receiver.accepted)
    found = of_scope(receiver.accepted[0][1])
    assert point(found["railsight_collector_acknowledged_total"].sum).as_double == 4
    assert found["railsight_collector_waiting"].unit == b"{records}"
    assert found["railsight_collector_unknown_total"].unit == b"{values_or_lines}"


def test_without_a_receiver_and_a_port_nothing_is_counted() -> None:
    own = Sender(OtlpParams(), {}, lambda: 0)
    assert isinstance(process_metrics("127.0.0.1", None, Health(HealthParams(), time.monotonic), own), NullMetrics)


def test_only_counters_and_gauges_are_sent() -> None:
    """Another kind would need its own data of OTLP."""
    registry = CollectorRegistry()
    assert series([HistogramMetricFamily("h", "text"), *registry.collect()], lambda _: "") == []
