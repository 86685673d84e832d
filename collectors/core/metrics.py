"""The self-metrics of a collector's process, each name spelled once."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streams.health.health import Health
from streams.health.status_server import StatusServer

Name = Literal[
    "offered",
    "acknowledged",
    "settled",
    "acknowledged_rows",
    "refused",
    "rejected",
    "spooled",
    "spool_full",
    "spool_failed",
    "spool_damaged",
    "spool_lost",
    "retried",
    "updates",
    "clock_replaced",
    "coarse_times",
    "unreadable",
    "unknown",
    "poisoned",
    "unnamed",
    "out_of_bounds",
    "reconnects",
    "reloads",
    "reload_refused",
    "late",
    "overdue",
    "restricted",
    "throttled",
    "not_admitted",
]


Gauge = Literal["waiting", "clock_offset_seconds", "sensors_left_out"]

HELP: dict[Name | Gauge, str] = {
    "offered": "Records handed to the publisher, by topic.",
    "acknowledged": "Records written to Kafka with acks=all, including those that an earlier run left in the spool.",
    "settled": "Records of this process that Kafka or the spool has, or that Kafka can never accept.",
    "acknowledged_rows": "Rows of samples in the acknowledged records.",
    "refused": "Records past the buffer's limit: lost, never acknowledged.",
    "rejected": "Records that Kafka can never accept: too large, or not allowed.",
    "spooled": "Records written to the spool and fsynced, by topic.",
    "spool_full": "Times that the spool had no room for all waiting records.",
    "spool_failed": "Times that the disk refused an access to the spool: read-only, full, broken.",
    "spool_damaged": "Times that the spool file was damaged and a new one was created.",
    "spool_lost": "Records in damaged spool files.",
    "retried": "Deliveries that failed and were repeated.",
    "updates": "Values received from devices.",
    "clock_replaced": "Timestamps more than 1 s ahead, replaced by the local time.",
    "coarse_times": "Counters that were left out because their times are whole seconds and their readings frequent.",
    "unreadable": "Values of known paths that could not be interpreted.",
    "unknown": "Values of a foreign stream that are not collected, by measurement.",
    "poisoned": "Records of a foreign stream, or lines of them, that could not be parsed.",
    "unnamed": "Values of a port that the device did not name.",
    "out_of_bounds": "Paths and ports past the limit of one target.",
    "reconnects": "Connections opened again after one ended.",
    "reloads": "Times that the configuration was reloaded.",
    "reload_refused": "Times that a changed configuration was invalid and the old one stayed in force.",
    "late": "Scheduled readings left out because an earlier one was still running.",
    "overdue": "Readings cancelled at their deadline.",
    "restricted": "Functions whose counters are not read because reading them does harm.",
    "throttled": "Times that a target exceeded its rate limit and was delayed.",
    "not_admitted": "Streams that were refused: not one of the targets, or too many of one.",
    "waiting": "Records that Kafka has not acknowledged yet.",
    "clock_offset_seconds": "Device clock minus local clock.",
    "sensors_left_out": "Sensors that may be a port's and match none.",
}
"""The help text of each metric; a test keeps it complete."""

_TOPIC, _DEVICE, _NOTHING = "topic", "device, or the local reader", "empty"

UNIT_AND_LABEL: dict[Name | Gauge, tuple[str, str]] = {
    "offered": ("records", _TOPIC),
    "acknowledged": ("records", _TOPIC),
    "settled": ("records", _TOPIC),
    "acknowledged_rows": ("rows", _TOPIC),
    "refused": ("records", _TOPIC),
    "rejected": ("records", _TOPIC),
    "spooled": ("records", _TOPIC),
    "spool_full": ("times", _NOTHING),
    "spool_failed": ("times", _NOTHING),
    "spool_damaged": ("times", _NOTHING),
    "spool_lost": ("records", _NOTHING),
    "retried": ("records", _NOTHING),
    "updates": ("values", _DEVICE),
    "clock_replaced": ("timestamps", _DEVICE),
    "coarse_times": ("values", _DEVICE),
    "unreadable": ("values", _DEVICE),
    "unknown": ("values", "measurement"),
    "poisoned": ("records", _NOTHING),
    "unnamed": ("values", _DEVICE),
    "out_of_bounds": ("values", _DEVICE),
    "reconnects": ("connections", _DEVICE),
    "reloads": ("times", _NOTHING),
    "reload_refused": ("times", _NOTHING),
    "late": ("readings", _DEVICE),
    "overdue": ("readings", _DEVICE),
    "restricted": ("functions", "port"),
    "throttled": ("times", "device, local reader or source topic"),
    "not_admitted": ("streams", _NOTHING),
    "waiting": ("records", _NOTHING),
    "clock_offset_seconds": ("seconds", _DEVICE),
    "sensors_left_out": ("sensors", _DEVICE),
}
"""The unit of each metric, and the meaning of its label `of`."""


class CollectorMetrics:
    """Counters and gauges by name and one label: a topic or a device."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Name, str]] = Counter()
        self._gauges: dict[tuple[Gauge, str], float] = {}

    def add(self, name: Name, label: str = "", count: int = 1) -> None:
        """Add to a counter."""
        self._counts[name, label] += count

    def set(self, name: Gauge, value: float, label: str = "") -> None:
        """Set a gauge."""
        self._gauges[name, label] = value

    def unset(self, name: Gauge, label: str = "") -> None:
        """Remove a gauge whose value is no longer known."""
        self._gauges.pop((name, label), None)

    def value(self, name: Name, label: str | None = None) -> int:
        """Return a counter's value for one label, or its sum over all."""
        if label is not None:
            return self._counts[name, label]
        return sum(count for (known, _), count in self._counts.items() if known == name)

    def by_label(self, name: Name) -> dict[str, int]:
        """Return a counter's values by label."""
        return {label: count for (known, label), count in sorted(self._counts.items()) if known == name}

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics for prometheus_client, which calls from its own thread: from copies, which are atomic.

        A counter without a count is 0, so that a scrape shows which metrics exist.
        """
        counts, gauges = dict(self._counts), dict(self._gauges)
        counted = {name for name, _ in counts}
        counts |= {(name, ""): 0 for name in get_args(Name) if name not in counted}
        yield from _families(counts, CounterMetricFamily)
        yield from _families(gauges, GaugeMetricFamily)


def _families(
    values: Mapping[tuple[Any, str], float], kind: type[CounterMetricFamily | GaugeMetricFamily]
) -> Iterator[Metric]:
    families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
    for (name, label), value in sorted(values.items()):
        if name not in families:
            families[name] = kind(f"railsight_collector_{name}", HELP[name], labels=["of"])
        families[name].add_metric([label], value)
    yield from families.values()


def serve_metrics(metrics: CollectorMetrics, host: str, port: int, health: Health) -> StatusServer:
    """Start and return the server; raises Misconfigured if it cannot listen there."""
    registry = CollectorRegistry()
    registry.register(AsCollector(metrics))
    return StatusServer(host, port, registry, health)


class AsCollector(Collector):
    """Adapts CollectorMetrics to prometheus_client's registry."""

    def __init__(self, metrics: CollectorMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return self._metrics.collect()
