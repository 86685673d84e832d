"""The self-metrics of a collector's process, each name spelled once.

Counted in plain integers, where the collectors are; what Prometheus reads is made from them when it asks.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Name = Literal[
    "offered",  # records handed to the publisher, by topic
    "acknowledged",  # written to Kafka with acks=all, what an earlier process left in the spool too
    "settled",  # of those offered to this process, those that Kafka or the spool has, or that Kafka will never take
    "acknowledged_rows",  # rows of samples in them
    "refused",  # past the buffer's bound: lost, never acknowledged
    "rejected",  # Kafka will never take them: too large, or not allowed
    "spooled",  # written to the spool and fsynced, by topic
    "spool_full",  # times that the spool had no room for all that waited
    "spool_failed",  # times that the disk refused: read-only, full, broken
    "spool_damaged",  # times that its file was not what was written, and a new one was begun
    "spool_lost",  # records that the disk had taken and did not keep
    "retried",  # deliveries that failed and were tried again
    "updates",  # values that devices sent
    "clock_replaced",  # the device's time was more than 1 s ahead of ours
    "unreadable",  # values that mean nothing to us although their path does
    "unknown",  # values of a peer's stream that are none of ours, by measurement
    "poisoned",  # records of a peer's stream, or lines of them, that could not be read
    "unnamed",  # values of a port that the device did not name
    "out_of_bounds",  # paths and ports past the bound of one target
    "reconnects",
    "reloads",  # times that the configuration was read again
    "reload_refused",  # times that it was no good, and the old one stayed
    "late",  # moments at which a target was due and another reading of it still went on
    "overdue",  # readings that were cut short at their deadline
    "restricted",  # functions whose counters are left alone, for reading them does harm
    "throttled",  # times a target sent more than its share and was made to wait
]


Gauge = Literal[
    "waiting",  # records that Kafka does not have yet
    "clock_offset_seconds",  # a device's clock minus ours
]


class CollectorMetrics:
    """Counters and gauges by name and one label: a topic or a device."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Name, str]] = Counter()
        self._gauges: dict[tuple[Gauge, str], float] = {}

    def add(self, name: Name, label: str = "", count: int = 1) -> None:
        """Count something that happened."""
        self._counts[name, label] += count

    def set(self, name: Gauge, value: float, label: str = "") -> None:
        """Say how it stands."""
        self._gauges[name, label] = value

    def unset(self, name: Gauge, label: str = "") -> None:
        """Say that nobody knows how it stands any more."""
        self._gauges.pop((name, label), None)

    def value(self, name: Name, label: str | None = None) -> int:
        """How often, for one label or over all."""
        if label is not None:
            return self._counts[name, label]
        return sum(count for (known, _), count in self._counts.items() if known == name)

    def by_label(self, name: Name) -> dict[str, int]:
        """How often, by label."""
        return {label: count for (known, label), count in sorted(self._counts.items()) if known == name}

    def collect(self) -> Iterator[Metric]:
        """What prometheus_client asks a collector for, in a thread of its own: so of copies, which are made at once."""
        counts, gauges = dict(self._counts), dict(self._gauges)
        yield from _families(counts, CounterMetricFamily)
        yield from _families(gauges, GaugeMetricFamily)


def _families(
    values: Mapping[tuple[Any, str], float], kind: type[CounterMetricFamily | GaugeMetricFamily]
) -> Iterator[Metric]:
    families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
    for (name, label), value in sorted(values.items()):
        if name not in families:
            families[name] = kind(f"railsight_collector_{name}", name.replace("_", " "), labels=["of"])
        families[name].add_metric([label], value)
    yield from families.values()
