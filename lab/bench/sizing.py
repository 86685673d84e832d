"""Computes the capacity that many fabrics need from the cost of one run.

Every fabric has its own pipeline (findings and remediations have one partition each), so that needs add up linearly.
Costs that one machine cannot measure are assumed to be high: a replica costs a broker as much as its leader.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streams.wire.topics import Topic

_DAY_S = 86_400.0
_MIN_BROKERS = 3
_PARTITIONS_PER_WORKER = 4
"""Partitions per worker that is needed today: partitions are fixed for the life of a topic, processes are not."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Assumptions: the used share of a core, the copies, and the days of retention."""

    used: float = 0.6
    kafka_copies: int = 3
    clickhouse_copies: int = 2
    clickhouse_days: float = 7.0
    broker_cores: int = 8


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of a number of fabrics; rates in bytes per second, sizes in bytes, whole cores."""

    fabrics: int
    port_samples_per_s: float
    brokers: int
    partitions: int
    workers: int
    sinks: int
    clickhouse_cores: int
    kafka_in_bytes_per_s: float
    kafka_out_bytes_per_s: float
    kafka_bytes: float
    clickhouse_bytes: float


def capacity_needs(report: Mapping[str, Any], fabrics: int, terms: Terms, samples: "Topic") -> Needs:
    """Return the needs of `fabrics` fabrics like the report's."""
    rate = report["load"]["port_samples_per_s"]
    cores: dict[str, float] = defaultdict(float)
    for part in report["parts"]:
        cores[part["part"].split("-")[0]] += part["cpu_s"] / report["seconds"] / terms.used  # summed over workers
    workers, sinks = ceil(cores["process"]), ceil(cores["persist"])
    partitions = max(8, _PARTITIONS_PER_WORKER * workers)
    bytes_per_s = report["stored"]["kafka_bytes"][samples.name] / report["load"]["port_samples_sent"] * rate
    brokers = max(_MIN_BROKERS, ceil(cores["broker"] * terms.kafka_copies / terms.broker_cores))
    retained_bytes = min(bytes_per_s * (samples.retention_s or 0), (samples.retention_bytes or inf) * partitions)
    row_bytes = next(
        table["bytes"] / table["rows"] for table in report["stored"]["tables"] if table["table"] == "samples"
    )
    return Needs(
        fabrics,
        rate * fabrics,
        brokers * fabrics,
        partitions * fabrics,
        workers * fabrics,
        sinks * fabrics,
        ceil(cores["clickhouse"] * terms.clickhouse_copies * fabrics),
        bytes_per_s * fabrics * terms.kafka_copies,
        # Every sample has two readers (the workers and the sink) and the replicas.
        bytes_per_s * fabrics * (2 + terms.kafka_copies - 1),
        retained_bytes * fabrics * terms.kafka_copies,
        row_bytes * rate * fabrics * _DAY_S * terms.clickhouse_days * terms.clickhouse_copies,
    )


def table_lines(needs: list[Needs]) -> list[str]:
    """Return one line for each number of fabrics."""
    head = (
        f"{'fabrics':>8}{'port-samples/s':>16}{'brokers':>9}{'partitions':>12}{'workers':>9}{'sinks':>7}"
        f"{'ClickHouse cores':>18}{'Kafka in MB/s':>15}{'out MB/s':>10}{'Kafka TB':>10}{'ClickHouse TB':>15}"
    )
    return [head, *map(_line, needs)]


def _line(one: Needs) -> str:
    return (
        f"{one.fabrics:>8,}{one.port_samples_per_s:>16,.0f}{one.brokers:>9,}{one.partitions:>12,}"
        f"{one.workers:>9,}{one.sinks:>7,}{one.clickhouse_cores:>18,}{one.kafka_in_bytes_per_s / 1e6:>15,.0f}"
        f"{one.kafka_out_bytes_per_s / 1e6:>10,.0f}{one.kafka_bytes / 1e12:>10,.1f}"
        f"{one.clickhouse_bytes / 1e12:>15,.1f}"
    )
