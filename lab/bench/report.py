"""Results of one run as data, with verdicts on promises that hold at any size, and on the targets of DESIGN 8."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from lab.bench.clickhouse_metrics import TableSize
from lab.bench.load.group import METRICS
from lab.bench.statistics import Observation, Spread

PROMISE, TARGET = "promise", "target"
_STORED = 0.9
_OPEN_BLOCK_S = 6.0
"""Half of the longest time of an open block, and of the interval of sampling rows: the rest of a short window."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One verdict: a `promise` holds at any size; a `target` applies to the largest fabric (DESIGN 8)."""

    kind: str
    statement: str
    holds: bool


@dataclass(frozen=True, slots=True)
class PartCost:
    """One part over the window; memory is in bytes and over the whole run."""

    part: str
    cpu_s: float
    peak_bytes: int
    growth_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class StageRate:
    """One stage, or the sink, over the window: records read per second, and its lag."""

    stage: str
    records_per_s: float
    lag_p50: float
    lag_worst: float
    lag_end: float
    grows: bool


@dataclass(frozen=True, slots=True)
class LoadFacts:
    """The load; rates are over the window, counts over the whole run."""

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
    """The number of messages of one topic, partition and sender that are handled at once."""


@dataclass(frozen=True, slots=True)
class FaultScore:
    """Injected faults compared with findings."""

    injected: int
    found: int
    missed: tuple[str, ...]
    undecided: tuple[str, ...]
    """Not found, but the pipeline had not read up to their end when the run ended."""
    invented: tuple[str, ...]
    false_pages: int


@dataclass(frozen=True, slots=True)
class StoredFacts:
    """Rows in ClickHouse at the end, and sizes on disk."""

    rows: int
    messages: int
    statuses: int
    events: int
    tables: tuple[TableSize, ...]
    kafka_bytes: dict[str, int]


@dataclass(frozen=True, slots=True)
class WorkerKill:
    """One kill of a worker: seconds until one partition, and all, had an owner again, and until the lag recovered."""

    part: str
    at_s: float
    first_owner_s: float | None
    all_owned_s: float | None
    caught_up_s: float | None


@dataclass(frozen=True, slots=True)
class Report:
    """The results of one run."""

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
    """The number sent in the window, in millions."""
    load: LoadFacts
    parts: tuple[PartCost, ...]
    bench_cpu_s: float
    stages: tuple[StageRate, ...]
    sample_to_row_s: Spread
    flap_to_finding_s: Spread
    flap_in_kafka_to_finding_s: Spread
    """The same from the record of the event in Kafka, without the delay of the load generator and its producer."""
    down_to_finding_s: Spread
    faults: FaultScore
    stored: StoredFacts
    kills: tuple[WorkerKill, ...]
    restarts: dict[str, int]
    lags: dict[str, list[Observation]]
    memory: dict[str, list[Observation]]
    problems: tuple[str, ...]
    behind_s: float = 0.0
    """The age of the watermark of `decide` at the end of the window."""
    delays: tuple[str, ...] = ()
    """The findings by which the pipeline reported that it was behind."""
    machine: str = ""
    verdicts: tuple[Verdict, ...] = ()

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the pipeline: broker, workers, sink and ClickHouse."""
        return sum(part.cpu_s for part in self.parts)

    @property
    def cpu_s_per_million(self) -> float:
        """CPU seconds per million port-samples."""
        return self.cpu_s / self.port_samples if self.port_samples else 0.0

    @property
    def cpu_s_per_million_values(self) -> float:
        """CPU seconds per million values."""
        return self.cpu_s_per_million / METRICS

    @property
    def machine_used(self) -> float:
        """The share of all cores that the pipeline used."""
        return self.cpu_s / (self.seconds * self.cores)

    @property
    def stored_in_window(self) -> float:
        """The rows that became readable in the window, over the rows sent in it; below 1, the sink fell behind."""
        return self.sample_to_row_s.count / (self.port_samples * 1e6) if self.port_samples else 0.0

    @property
    def is_sustained(self) -> bool:
        """True if the CPU used is the cost of the load: no lag grew, and the rows were stored (a block may be open)."""
        stored = min(_STORED, 1 - _OPEN_BLOCK_S / self.seconds)
        return self.stored_in_window >= stored and not any(stage.grows for stage in self.stages)

    @property
    def is_passed(self) -> bool:
        """True if every promise holds and there are no problems."""
        return not self.problems and all(verdict.holds for verdict in self.verdicts if verdict.kind == PROMISE)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values, with derived figures."""
        return asdict(self) | {
            "cpu_s": self.cpu_s,
            "cpu_s_per_million_port_samples": self.cpu_s_per_million,
            "cpu_s_per_million_values": self.cpu_s_per_million_values,
            "machine_used": self.machine_used,
            "stored_in_window": self.stored_in_window,
            "sustained": self.is_sustained,
            "fine": self.is_passed,
        }


CPU_S_PER_MILLION = 6.0
MACHINE = 0.5
FULL_P99_S, TENTH_P99_S = 0.25, 0.1
TENTH_PER_S = 7_864.0
"""A tenth of 786,432 ports every 10 s."""
OWNED_AGAIN_S = 30.0
LATE_S = 0.5
"""A generator with a longer delay did not produce the load that it reports."""


def verdicts(report: Report) -> Iterator[Verdict]:
    """Yield all verdicts."""
    load, stored, faults = report.load, report.stored, report.faults
    yield Verdict(
        PROMISE,
        f"the load generator kept its schedule: at most {load.late_max_s * 1000:.0f} ms late,"
        f" {LATE_S * 1000:.0f} allowed, {load.refused} messages refused",
        load.late_max_s <= LATE_S and not load.refused,
    )
    sent = (load.port_samples_sent, load.messages_sent, load.statuses_sent, load.events_sent)
    found = (stored.rows, stored.messages, stored.statuses, stored.events)
    yield Verdict(
        PROMISE,
        f"nothing lost and nothing duplicated: {sent[0]:,} port-samples of {sent[1]:,} messages sent, {found[0]:,} of"
        f" {found[1]:,} stored; {sent[2]:,} statuses and {sent[3]:,} events sent, {found[2]:,} and {found[3]:,} stored",
        sent == found,
    )
    yield Verdict(
        PROMISE,
        f"every injected fault found: {faults.found} of {faults.injected}"
        f"{f', {len(faults.undecided)} not read yet when the run ended' if faults.undecided else ''};"
        f" invented {len(faults.invented)}, false pages {faults.false_pages}",
        not faults.missed and not faults.invented and not faults.false_pages,
    )
    growing = [stage.stage for stage in report.stages if stage.grows]
    yield Verdict(PROMISE, f"lag does not grow{': but that of ' if growing else ''}{', '.join(growing)}", not growing)
    yield Verdict(
        TARGET,
        f"{report.cpu_s_per_million:.2f} CPU s per million port-samples, at most {CPU_S_PER_MILLION:g}"
        f"{'' if report.is_sustained else ', had it kept up'}",
        report.cpu_s_per_million <= CPU_S_PER_MILLION and report.is_sustained,
    )
    yield Verdict(
        TARGET,
        f"{report.machine_used:.0%} of {report.cores} cores used, at most {MACHINE:.0%}",
        report.machine_used <= MACHINE,
    )
    if report.faults.injected:
        flap = report.flap_to_finding_s
        allowed = TENTH_P99_S if load.port_samples_per_s <= TENTH_PER_S else FULL_P99_S
        p99 = "none" if flap.p99 is None else f"{flap.p99 * 1000:.0f} ms"
        yield Verdict(
            TARGET,
            f"link-down event to finding p99 {p99} over {flap.count}, at most {allowed * 1000:.0f} ms",
            flap.p99 is not None and flap.p99 <= allowed,
        )
    if report.kills:
        slowest = max(kill.all_owned_s or inf for kill in report.kills)
        yield Verdict(
            TARGET,
            f"{len(report.kills)} killed workers: every partition owned again after {slowest:.1f} s at worst, at most"
            f" {OWNED_AGAIN_S:g} s",
            slowest <= OWNED_AGAIN_S,
        )
