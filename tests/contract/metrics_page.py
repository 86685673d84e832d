"""The page of the self-metrics: what each part exposes, with type, labels, unit and meaning.

`python -m tests.contract.metrics_page` writes docs/metrics.md; test_metrics_page.py holds it to the code. Types and
labels are those of a scrape, so that the page has what Prometheus receives.
"""

import time
import typing
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from collectors.core import metrics as collector_metrics
from collectors.core.metrics import AsCollector, CollectorMetrics
from streams.health.health import Health, HealthParams
from streams.health.status_server import PrometheusMetrics
from streams.instrument import metrics

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/metrics.md"

_HEAD = """# Metrics

Every self-metric of every part. This page is generated: `python -m tests.contract.metrics_page` writes it.
The alerts on them are in `deploy/prometheus/rules.yml`; [alerts](alerts.md) has the alerts of the fabric.

Units: a metric with `_seconds` or `_bytes` is in the base unit; other metrics count what the column names.
"""
_STAGES = """## Stages

`railsight process` and `tickets`, with `[runtime] metrics_port` or `--metrics-port`; `railsight persist` and `notify`
with `--metrics-port`; all of them with `[otlp] metrics`.
Labels: `stage` is its name, `partition` that of its input, `topic` the topic of a metric by topic, else empty.
"""
_COLLECTORS = """## Collectors

`railsight collect`, with `--metrics-port`; all have the same metrics, and a counter that one does not use stays 0.
The label `of` has what the column names.
"""
_COLUMNS = "\n| metric | type | labels | unit | meaning |\n|---|---|---|---|---|\n"
_COLLECTOR_COLUMNS = "\n| metric | type | `of` | unit | meaning |\n|---|---|---|---|---|\n"


class Row(typing.NamedTuple):
    """One metric as a scrape has it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


def scraped(text: str) -> Iterator[Row]:
    """Yield the metrics of an exposition, in its order."""
    for family in text_string_to_metric_families(text):
        sample = family.samples[0]
        yield Row(sample.name, family.type, tuple(sample.labels), family.documentation)


def stage_rows() -> list[Row]:
    """Return the metrics of a stage, each with a value, as Prometheus receives them."""
    served = PrometheusMetrics("127.0.0.1", 0, Health(HealthParams(), time.monotonic))
    try:
        for counter in typing.get_args(metrics.Counter):
            served.count(counter, "measure", 0)
        for gauge in typing.get_args(metrics.Gauge):
            served.set(gauge, "measure", 0, 1)
        return list(scraped(_get(served.port)))
    finally:
        served.close()


def collector_rows() -> list[Row]:
    """Return the metrics of a collector, each with a value, as Prometheus receives them."""
    counted = CollectorMetrics()
    for gauge in typing.get_args(collector_metrics.Gauge):
        counted.set(gauge, 1.0)
    registry = CollectorRegistry()
    registry.register(AsCollector(counted))
    return list(scraped(generate_latest(registry).decode()))


def _get(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def _stage_line(row: Row) -> str:
    unit = {str(name): unit for name, unit in metrics.UNIT.items()}[row.name]
    return _line(row, ", ".join(f"`{label}`" for label in row.labels), unit)


def _collector_line(row: Row) -> str:
    known = {f"railsight_collector_{name}": meaning for name, meaning in collector_metrics.MEANINGS.items()}
    unit, label, _ = known[row.name.removesuffix("_total") if row.kind == "counter" else row.name]
    return _line(row, label, unit)


def _line(row: Row, labels: str, unit: str) -> str:
    return f"| `{row.name}` | {row.kind} | {labels} | {unit} | {row.help} |\n"


def page() -> str:
    stages = "".join(_stage_line(row) for row in stage_rows())
    collectors = "".join(_collector_line(row) for row in collector_rows())
    return f"{_HEAD}\n{_STAGES}{_COLUMNS}{stages}\n{_COLLECTORS}{_COLLECTOR_COLUMNS}{collectors}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
