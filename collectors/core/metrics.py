"""The self-metrics of a collector's process; each name is defined once."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, NamedTuple, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streams.health.health import Health
from streams.health.metrics_export import Sender
from streams.health.status_server import StatusServer, exported

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
    "passed_over",
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


Gauge = Literal["waiting", "clock_offset_seconds", "sensors_left_out", "hidden_hosts"]

_TOPIC, _DEVICE, _NOTHING = "topic", "device, or the local reader", "empty"


class Meaning(NamedTuple):
    """The unit of a metric, the meaning of its label `of`, and its help text."""

    unit: str
    label: str
    help: str


MEANINGS: dict[Name | Gauge, Meaning] = {
    "offered": Meaning("records", _TOPIC, "Records handed to the publisher, by topic."),
    "acknowledged": Meaning(
        "records",
        _TOPIC,
        "Records written to Kafka with acks=all, including those that an earlier run left in the spool.",
    ),
    "settled": Meaning(
        "records", _TOPIC, "Records of this process that Kafka or the spool has, or that Kafka can never accept."
    ),
    "acknowledged_rows": Meaning("rows", _TOPIC, "Rows of samples in the acknowledged records."),
    "refused": Meaning("records", _TOPIC, "Records past the buffer's limit: lost, never acknowledged."),
    "rejected": Meaning("records", _TOPIC, "Records that Kafka can never accept: too large, or not allowed."),
    "spooled": Meaning("records", _TOPIC, "Records written to the spool and fsynced, by topic."),
    "spool_full": Meaning("times", _NOTHING, "Times that the spool had no room for all waiting records."),
    "spool_failed": Meaning(
        "times", _NOTHING, "Times that the disk refused an access to the spool: read-only, full, broken."
    ),
    "spool_damaged": Meaning("times", _NOTHING, "Times that the spool file was damaged and a new one was created."),
    "spool_lost": Meaning("records", _NOTHING, "Records in damaged spool files."),
    "retried": Meaning("records", _NOTHING, "Deliveries that failed and were repeated."),
    "updates": Meaning("values", _DEVICE, "Values received from devices."),
    "clock_replaced": Meaning("timestamps", _DEVICE, "Timestamps more than 1 s ahead, replaced by the local time."),
    "coarse_times": Meaning(
        "values",
        _DEVICE,
        "Counters that were left out because their times are whole seconds and their readings frequent.",
    ),
    "unreadable": Meaning("values", _DEVICE, "Values of known paths that could not be interpreted."),
    "unknown": Meaning(
        "values or lines",
        "measurement, driver or device",
        "Values of a foreign stream that are not collected, lines of a driver in the kernel log that fit no rule, and "
        "lines of syslog that no table knows.",
    ),
    "passed_over": Meaning(
        "records", "reason", "Records of the kernel log, and lines of syslog, that were not evaluated."
    ),
    "poisoned": Meaning(
        "records", _NOTHING, "Records of a foreign stream, or lines of them, that could not be parsed."
    ),
    "unnamed": Meaning("values", _DEVICE, "Values of a port that the device did not name."),
    "out_of_bounds": Meaning("values", _DEVICE, "Paths and ports past the limit of one target."),
    "reconnects": Meaning("connections", _DEVICE, "Connections opened again after one ended."),
    "reloads": Meaning("times", _NOTHING, "Times that the configuration was reloaded."),
    "reload_refused": Meaning(
        "times", _NOTHING, "Times that a changed configuration was invalid and the old one stayed in force."
    ),
    "late": Meaning("readings", _DEVICE, "Scheduled readings left out because an earlier one was still running."),
    "overdue": Meaning("readings", _DEVICE, "Readings cancelled at their deadline."),
    "restricted": Meaning("functions", "port", "Functions whose counters are not read because reading them does harm."),
    "throttled": Meaning(
        "times", "device, local reader or source topic", "Times that a target exceeded its rate limit and was delayed."
    ),
    "not_admitted": Meaning(
        "streams or lines",
        "empty, listener or unknown senders",
        "Streams, connections and lines of syslog that were refused: not one of the targets, or too many of one.",
    ),
    "waiting": Meaning("records", _NOTHING, "Records that Kafka has not acknowledged yet."),
    "clock_offset_seconds": Meaning("seconds", _DEVICE, "Device clock minus local clock."),
    "hidden_hosts": Meaning("hosts", "scheduler", "Allocated hosts on which the scheduler shows no job to this login."),
    "sensors_left_out": Meaning("sensors", _DEVICE, "Sensors that may be a port's and match none."),
}
"""The meaning of each metric; a test checks that it is complete."""


_PREFIX = "railsight_collector_"


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
        """Yield the metrics for prometheus_client, which calls this in its own thread: copies, which are atomic.

        A counter that was never incremented is 0, so that a scrape shows which metrics exist.
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
            families[name] = kind(f"{_PREFIX}{name}", MEANINGS[name].help, labels=["of"])
        families[name].add_metric([label], value)
    yield from families.values()


@contextmanager
def metrics_outputs(
    metrics: CollectorMetrics, host: str, port: int | None, health: Health, sender: Sender
) -> Iterator[None]:
    """Serve the metrics on a port, and send them by OTLP, if the settings have one; raises Misconfigured."""
    registry = CollectorRegistry()
    registry.register(AsCollector(metrics))
    with ExitStack() as stack:
        if port is not None:
            stack.callback(StatusServer(host, port, registry, health).close)
        if (export := exported(sender, registry, unit_of)) is not None:
            stack.callback(export.close)
        yield


def unit_of(scraped: str) -> str:
    """Return the unit of a metric by its name in a scrape."""
    units = {f"{_PREFIX}{name}": meaning.unit for name, meaning in MEANINGS.items()}
    return units.get(scraped) or units[scraped.removesuffix("_total")]


class AsCollector(Collector):
    """Adapts CollectorMetrics to prometheus_client's registry."""

    def __init__(self, metrics: CollectorMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return self._metrics.collect()
