"""A real OpenTelemetry Collector and a real Prometheus take what railsight sends, unchanged."""

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka import AIOKafkaProducer

from collectors.core.clock import SystemClock
from lab.constants import params_of
from streams.health.health import Health, HealthParams
from streams.health.metrics_export import Sender, resource
from streams.health.status_server import PrometheusMetrics
from streams.notify.log_export import LogExport
from streams.notify.log_records import log_row
from streams.wire.models import Finding
from streams.wire.otlp_client import OtlpClient
from streams.wire.otlp_messages import encode_logs
from streams.wire.otlp_params import OtlpParams
from streams.wire.topics import FINDINGS, INPUT_LOSSES, REJECTED, REMEDIATIONS, encode
from tests.fixtures.external_programs import output_of, program
from tests.fixtures.notify_examples import T0, finding, remediation
from tests.fixtures.ports import free_port
from tests.fixtures.runtime_bindings import CountedMetrics
from tests.integration.notify.conftest import empty_topics, running_service, send
from tests.integration.notify.conftest import until as eventually


def until(condition: Callable[[], Any], what: str, within_s: float = 60) -> Any:
    """Return the first true value of a condition."""
    give_up = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < give_up, f"not in time: {what}"
        time.sleep(0.1)
    return value


@contextmanager
def running(command: list[str], log: Path, is_ready: Callable[[], bool]) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a server on loopback until the end of the context; it may be killed before."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        until(lambda: process.poll() is not None or is_ready(), "the start")
        assert process.poll() is None, log.read_text()
        yield process
    finally:
        process.terminate()
        process.wait(20)


def get(url: str) -> bytes:
    """Return the body of a successful answer; empty otherwise."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bytes(answer.read()) or b"ok"
    except OSError:
        return b""


@contextmanager
def metrics_sent_to(url: str) -> Iterator[PrometheusMetrics]:
    """Send one process's metrics to a receiver."""
    params = params_of(OtlpParams, {"metrics": url, "interval_s": 0.5})
    sender = Sender(params, resource("measure", "test", "one"), time.time_ns)
    metrics = PrometheusMetrics("127.0.0.1", None, Health(HealthParams(), time.monotonic), sender)
    try:
        metrics.count("railsight_messages_total", "measure", 3, topic="t", by=5)
        metrics.count("railsight_snapshot_bytes_total", "measure", 3, by=7)
        metrics.set("railsight_watermark_seconds", "measure", 3, 1.5)
        metrics.set("railsight_epoch", "measure", 3, 2)
        metrics.set("railsight_tickets_blocked", "tickets", 0, 1)
        yield metrics
    finally:
        metrics.close()


@pytest.fixture
async def bootstrap(broker: str) -> AsyncIterator[str]:
    """Yield the broker with the topics empty."""
    async with empty_topics(broker, FINDINGS, REMEDIATIONS, REJECTED, INPUT_LOSSES):
        yield broker


class Collector:
    """A Collector that writes what it receives to a file."""

    def __init__(self, urls: dict[str, str], written: Path, command: list[str], log: Path) -> None:
        self.urls, self.written = urls, written
        self._command, self._log = command, log

    @contextmanager
    def running(self) -> Iterator["subprocess.Popen[bytes]"]:
        """Run it until the end of the context."""
        self._log.write_text("")
        with running(
            self._command, self._log, lambda: "Everything is ready" in self._log.read_text(errors="replace")
        ) as process:
            yield process


@pytest.fixture
def stopped_collector(tmp_path: Path) -> Collector:
    """Return a Collector that does not run yet."""
    binary = shutil.which("otelcol")
    if binary is None:
        pytest.skip("otelcol is not on PATH (make otlp-peers)")
    ports, written = {name: free_port() for name in ("grpc", "http")}, tmp_path / "received.json"
    protocols = {name: {"endpoint": f"127.0.0.1:{port}"} for name, port in ports.items()}
    pipeline = {"receivers": ["otlp"], "exporters": ["file"]}
    config = {
        "receivers": {"otlp": {"protocols": protocols}},
        "exporters": {"file": {"path": str(written), "flush_interval": "100ms", "append": True}},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"logs": pipeline, "metrics": pipeline},
        },
    }
    file = tmp_path / "collector.yaml"
    file.write_text(yaml.safe_dump(config))
    urls = {name: f"{name}://127.0.0.1:{port}" for name, port in ports.items()}
    return Collector(urls, written, [binary, "--config", f"file:{file}"], tmp_path / "collector.log")


@pytest.fixture
def collector(stopped_collector: Collector) -> Iterator[Collector]:
    """Yield a running Collector."""
    with stopped_collector.running():
        yield stopped_collector


def received(written: Path, kind: str) -> list[dict[str, Any]]:
    """Return the log records or metrics in the Collector's file, of complete lines."""
    text = written.read_text() if written.exists() else ""
    requests = [json.loads(line) for line in text.split("\n")[:-1]]
    inner, items = {"logs": ("scopeLogs", "logRecords"), "metrics": ("scopeMetrics", "metrics")}[kind]
    return [
        item
        for request in requests
        for of_resource in request.get(f"resource{kind.capitalize()}", ())
        for of_scope in of_resource[inner]
        for item in of_scope[items]
    ]


def uids(records: list[dict[str, Any]]) -> list[str]:
    """Return the identities of log records."""
    return [
        attribute["value"]["stringValue"]
        for record in records
        for attribute in record["attributes"]
        if attribute["key"] == "log.record.uid"
    ]


@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_a_collector_that_is_killed_and_started_has_each_revision_once(
    stopped_collector: Collector, protocol: str, bootstrap: str, producer: AIOKafkaProducer
) -> None:
    """Revisions of its dead time wait in Kafka; it is killed after it wrote what it had acknowledged."""
    written, sent = stopped_collector.written, []

    async def publish(first: int) -> None:
        for number in range(first, first + 100):
            one = finding(id=f"f{number}") if number % 2 else remediation(id=f"r{number}")
            await send(producer, encode(FINDINGS if isinstance(one, Finding) else REMEDIATIONS, one))
            sent.append(f"{one.id}/{one.revision}")

    async def all_written() -> None:
        await eventually(lambda: len(uids(received(written, "logs"))) >= len(sent), 60)

    settings = {"logs": stopped_collector.urls[protocol], "backoff_s": 0.1, "backoff_max_s": 0.3}
    export = LogExport(
        params_of(OtlpParams, settings), resource("notify", "test"), {"bootstrap_servers": bootstrap}, SystemClock(),
        CountedMetrics(),
    )  # fmt: skip
    async with running_service(export):
        with stopped_collector.running() as process:
            await publish(0)
            await all_written()
            process.kill()
        await publish(100)
        await eventually(lambda: export.is_retrying, 60)
        with stopped_collector.running():
            await publish(200)
            await all_written()
    assert sorted(uids(received(written, "logs"))) == sorted(sent)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_collector_takes_log_records_and_metrics(collector: Collector, protocol: str) -> None:
    """Its file has every record with its identity, and the metrics with their units."""
    urls, written = collector.urls, collector.written
    client = OtlpClient(OtlpParams(logs=urls[protocol]), "logs")
    rows = [log_row(one, T0) for one in (finding(), finding(revision=2), remediation())]
    assert client.send(encode_logs(resource("notify", "test"), rows)) is None
    records = until(lambda: received(written, "logs"), "the records")
    assert uids(records) == ["f1/1", "f1/2", "r1/1"]
    assert {record["eventName"] for record in records} == {"railsight.finding", "railsight.remediation"}
    with metrics_sent_to(urls[protocol]):
        metrics = until(lambda: received(written, "metrics"), "the metrics")
    units = {metric["name"]: metric.get("unit", "") for metric in metrics}
    assert units.items() >= {"railsight_messages_total": "{records}", "railsight_watermark_seconds": "s"}.items()
    assert all(("sum" in metric) == metric["name"].endswith("_total") for metric in metrics)


def test_prometheus_has_the_metrics_under_the_names_of_a_scrape(tmp_path: Path) -> None:
    """Its receiver of OTLP adds no suffix to them; labels are equal, and the process is `job` and `instance`."""
    binary = program("prometheus")
    if "web.enable-otlp-receiver" not in output_of(binary, "--help"):
        pytest.skip(f"{binary} has no --web.enable-otlp-receiver, which is of Prometheus 3.0 (make otlp-peers)")
    port, config = free_port(), tmp_path / "prometheus.yml"
    config.write_text("{}\n")
    url = f"http://127.0.0.1:{port}"
    command = [
        binary, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}", "--web.enable-otlp-receiver",
    ]  # fmt: skip

    def query(text: str) -> list[dict[str, Any]]:
        answer = get(f"{url}/api/v1/query?{urllib.parse.urlencode({'query': text})}")
        return list(json.loads(answer)["data"]["result"]) if answer else []

    with (
        running(command, tmp_path / "prometheus.log", lambda: bool(get(f"{url}/-/ready"))),
        metrics_sent_to(f"{url}/api/v1/otlp"),
    ):
        found = until(lambda: query('{__name__=~"railsight_.+"}'), "the metrics")
    place = {"job": "railsight/measure", "instance": "one"}
    labels = {"stage": "measure", "partition": "3", **place}
    expected = [
        ({"__name__": "railsight_messages_total", "topic": "t", **labels}, "5"),
        ({"__name__": "railsight_snapshot_bytes_total", **labels}, "7"),
        ({"__name__": "railsight_watermark_seconds", **labels}, "1.5"),
        ({"__name__": "railsight_epoch", **labels}, "2"),
        ({"__name__": "railsight_tickets_blocked", "stage": "tickets", "partition": "0", **place}, "1"),
    ]
    own = [(one["metric"], one["value"][1]) for one in found]
    assert sorted(own, key=str) == sorted(expected, key=str)
