"""What one run measured, as data: every number that the benchmark prints stands here once."""

from dataclasses import asdict, dataclass
from typing import Any

from streams.bench.clickhouse_metrics import TableSize
from streams.bench.load.group import METRICS
from streams.bench.statistics import Observation, Spread

PROMISE, TARGET = "promise", "target"
_STORED = 0.9


@dataclass(frozen=True, slots=True)
class Verdict:
    """One line of judgement. A `promise` holds at any size; a `target` is DESIGN 8's, made for the largest fabric."""

    kind: str
    statement: str
    holds: bool


@dataclass(frozen=True, slots=True)
class PartCost:
    """One part over the window; memory in bytes, over the whole run."""

    part: str
    cpu_s: float
    peak_bytes: int
    growth_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class StageRate:
    """One stage, or the sink, over the window: records read a second, and how far it was behind."""

    stage: str
    records_per_s: float
    lag_p50: float
    lag_worst: float
    lag_end: float
    grows: bool


@dataclass(frozen=True, slots=True)
class LoadFacts:
    """What the load generator did; rates are those of the window, counts of the whole run."""

    devices: int
    ports: int
    links: int
    messages_per_s: float
    port_samples_per_s: float
    port_samples_sent: int
    messages_sent: int
    statuses_sent: int
    events_sent: int
    refused: int
    bytes_per_port_sample: float
    late_max_s: float
    late_p99_s: float
    cpu_s: float
    senders: int = 1
    messages_per_batch: float = 0.0
    """Of one topic, one partition and one sender: what the broker and its readers handle at once."""


@dataclass(frozen=True, slots=True)
class FaultScore:
    """Injected faults against findings."""

    injected: int
    found: int
    missed: tuple[str, ...]
    invented: tuple[str, ...]
    false_pages: int


@dataclass(frozen=True, slots=True)
class StoredFacts:
    """What ClickHouse holds at the end against what was sent."""

    rows: int
    messages: int
    statuses: int
    events: int
    tables: tuple[TableSize, ...]
    kafka_bytes: dict[str, int]


@dataclass(frozen=True, slots=True)
class WorkerKill:
    """One kill of a worker: seconds until any partition had an owner again, all had, and the lag was as before."""

    part: str
    at_s: float
    first_owner_s: float | None
    all_owned_s: float | None
    caught_up_s: float | None


@dataclass(frozen=True, slots=True)
class Report:
    """One run."""

    gpus: int
    cadence_s: float
    seconds: float
    partitions: int
    workers: int
    compression: str
    cores: int
    warm_up_s: float
    start_s: float
    port_samples: float
    """In the window, in millions."""
    load: LoadFacts
    parts: tuple[PartCost, ...]
    bench_cpu_s: float
    stages: tuple[StageRate, ...]
    sample_to_row_s: Spread
    flap_to_finding_s: Spread
    down_to_finding_s: Spread
    faults: FaultScore
    stored: StoredFacts
    kills: tuple[WorkerKill, ...]
    restarts: dict[str, int]
    lags: dict[str, list[Observation]]
    memory: dict[str, list[Observation]]
    problems: tuple[str, ...]
    machine: str = ""
    verdicts: tuple[Verdict, ...] = ()

    @property
    def cpu_s(self) -> float:
        """Of the pipeline: broker, workers, sink and ClickHouse."""
        return sum(part.cpu_s for part in self.parts)

    @property
    def cpu_s_per_million(self) -> float:
        """CPU seconds a million port-samples."""
        return self.cpu_s / self.port_samples if self.port_samples else 0.0

    @property
    def cpu_s_per_million_values(self) -> float:
        """CPU seconds a million values."""
        return self.cpu_s_per_million / METRICS

    @property
    def machine_used(self) -> float:
        """The share of all cores that the pipeline took."""
        return self.cpu_s / (self.seconds * self.cores)

    @property
    def stored_in_window(self) -> float:
        """Rows that could first be read in the window, over those sent in it: below 1, the sink fell behind."""
        return self.sample_to_row_s.count / (self.port_samples * 1e6) if self.port_samples else 0.0

    @property
    def kept_up(self) -> bool:
        """Whether what was used is the cost of what was sent: no lag grew, and the rows came (a block may be open)."""
        return self.stored_in_window >= _STORED and not any(stage.grows for stage in self.stages)

    @property
    def is_passed(self) -> bool:
        """Every promise held and nothing else went wrong."""
        return not self.problems and all(verdict.holds for verdict in self.verdicts if verdict.kind == PROMISE)

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it, with what follows from it."""
        return asdict(self) | {
            "cpu_s": self.cpu_s,
            "cpu_s_per_million_port_samples": self.cpu_s_per_million,
            "cpu_s_per_million_values": self.cpu_s_per_million_values,
            "machine_used": self.machine_used,
            "stored_in_window": self.stored_in_window,
            "kept_up": self.kept_up,
            "fine": self.is_passed,
        }
