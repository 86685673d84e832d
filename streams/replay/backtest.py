"""Runs backtests: from recordings or ClickHouse to every revision of findings and remediations."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from heapq import merge
from pathlib import Path
from typing import Any

from streams.config.settings import Settings
from streams.config.stages import stage_factory
from streams.detect.thresholds import ns
from streams.fabric.inventory import InvalidInventory, digest, read_usable
from streams.fabric.inventory_rows import Job
from streams.fabric.job_placement import FOREVER, JobAllocation
from streams.fabric.topology import Topology
from streams.instrument.memory import relaxed_gc
from streams.replay import difference, recording
from streams.replay.difference import Differences
from streams.replay.driver import Conclusion, Driver, Stages, batches, event_time
from streams.replay.policy_comparison import PolicyComparison, PolicyRun
from streams.replay.recording import RejectedRows
from streams.replay.score import write_revisions
from streams.store.clickhouse import ClickHouse
from streams.store.queries import history
from streams.store.queries.jobs import query_allocations
from streams.wire.errors import Misconfigured
from streams.wire.models import CollectorStatus, Control, Facts, Finding, Message, Remediation
from streams.wire.topics import REMEDIATIONS

OnMessages = Callable[[int], None]
"""Receives the number of messages so far, after each batch is read."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The files of a recording."""

    samples: tuple[Path, ...]
    events: tuple[Path, ...]
    facts: Path | None
    status: Path | None
    controls: Path | None
    inventory: Path


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a backtest.

    `rejected` has a line for each reason for skipped rows, `warnings` one for each reason to doubt the input.
    `differences` compares with another configuration, `policies` compares decisions.
    """

    messages: int
    findings: int
    revisions: int
    rejected: tuple[str, ...]
    differences: Differences | None = None
    policies: PolicyComparison | None = None
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        values: dict[str, Any] = {
            "messages": self.messages, "findings": self.findings, "revisions": self.revisions,
            "rejected": list(self.rejected), "warnings": list(self.warnings),
        }  # fmt: skip
        if self.policies is not None:
            return values | {"policies": self.policies.as_dict()}
        return values if self.differences is None else values | {"differences": self.differences.as_dict()}


def ordered_messages(source: Recording, rejected: RejectedRows) -> Iterator[Message]:
    """Yield the messages of a recording in the order of a backtest; has one chunk of each samples file in memory."""
    others: list[Message] = [*recording.read_events(source.events, rejected)]
    if source.facts:
        others += recording.read_lines(Facts, source.facts, rejected)
    if source.status:
        others += recording.read_lines(CollectorStatus, source.status, rejected)
    if source.controls:
        others += recording.read_lines(Control, source.controls, rejected)
    return merge(recording.stream_samples(source.samples, rejected), sorted(others, key=event_time), key=event_time)


def read_topology(folder: Path, rejected: RejectedRows) -> Topology:
    """Return the topology of the usable rows of an inventory folder, and add the others to `rejected`.

    Raises Misconfigured with a line for each error of a table as a whole.
    """
    try:
        usable = read_usable(folder)
    except InvalidInventory as error:
        raise Misconfigured("\n".join(error.problems)) from error
    rejected.reasons.update(f"inventory: {problem}" for problem in dict.fromkeys(usable.errors))
    return Topology(usable.inventory, digest(usable.inventory))


def stages(settings: Settings) -> Stages:
    """Return one instance of each stage."""
    measure, correlate, attribute, decide = (
        stage_factory(name, settings)(0) for name in ("measure", "correlate", "attribute", "decide")
    )
    return Stages(measure, correlate, attribute, decide)


def run(
    source: Recording,
    settings: Settings,
    out: Path,
    against: Settings | None = None,
    *,
    policies: bool = False,
    on_messages: OnMessages = lambda _count: None,
) -> Summary:
    """Run the stages over a recording and write their conclusions; raises Misconfigured on unreadable input.

    With a second configuration, the summary compares the findings of both. With `policies`, approved actions are
    carried out in memory, and the summary compares the decisions.
    """
    rejected = RejectedRows()
    with recording_of(source, rejected) as (messages, topology):
        return _run(messages, topology, (settings, against), out, rejected, policies, on_messages)


def run_history(
    since_ns: int,
    until_ns: int,
    inventory: Path,
    settings: Settings,
    out: Path,
    against: Settings | None = None,
    *,
    policies: bool = False,
    on_messages: OnMessages = lambda _count: None,
) -> Summary:
    """Run the stages over the rows of [since, until) in ClickHouse; raises Retry while it is unavailable."""
    rejected = RejectedRows()
    with history_of(since_ns, until_ns, inventory, settings, rejected) as (messages, topology):
        return _run(messages, topology, (settings, against), out, rejected, policies, on_messages)


@contextmanager
def recording_of(
    source: Recording, rejected: RejectedRows | None = None
) -> Iterator[tuple[Iterable[Message], Topology]]:
    """Open a recording: its messages in the order of a backtest, and its topology."""
    rejected = RejectedRows() if rejected is None else rejected
    yield ordered_messages(source, rejected), read_topology(source.inventory, rejected)


@contextmanager
def history_of(
    since_ns: int, until_ns: int, inventory: Path, settings: Settings, rejected: RejectedRows | None = None
) -> Iterator[tuple[Iterable[Message], Topology]]:
    """Open the rows of [since, until) in ClickHouse, with the topology and the jobs of that time."""
    topology = read_topology(inventory, RejectedRows() if rejected is None else rejected)
    clickhouse = ClickHouse(settings.store)
    try:
        topology = topology.with_jobs(_jobs(topology, query_allocations(clickhouse, since_ns, until_ns)))
        yield history.messages(clickhouse, since_ns, until_ns), topology
    finally:
        clickhouse.close()


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The last revisions of the findings of several configurations over one history, and its extent in event time."""

    findings: tuple[dict[str, Finding], ...]
    messages: int
    span_ns: int


def run_all(messages: Iterable[Message], topology: Topology, configurations: Sequence[Settings]) -> Outcomes:
    """Run the stages with each configuration over the same messages; read the messages once."""
    runs = [_Run(settings, topology) for settings in configurations]
    count, first_ns, last_ns = 0, 0, 0
    with relaxed_gc():
        for batch in batches(messages):
            count += len(batch)
            times = [event_time(message)[0] for message in batch]
            first_ns, last_ns = min(first_ns or times[0], *times), max(last_ns, *times)
            for run_ in runs:
                run_.process(batch)
        for run_ in runs:
            run_.end()
    return Outcomes(tuple(run_.last for run_ in runs), count, last_ns - first_ns)


def _jobs(topology: Topology, allocations: Iterable[JobAllocation]) -> tuple[Job, ...]:
    """Return the jobs of the inventory and of the scheduler's messages."""
    merged = topology.placement.apply(allocations).allocations
    return tuple(
        Job(one.job, one.device, _when(one.start_ns), None if one.end_ns == FOREVER else _when(one.end_ns))
        for one in merged
    )


def _when(ns_: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns_ // 1000)


def _run(
    messages: Iterable[Message],
    topology: Topology,
    configurations: tuple[Settings, Settings | None],
    out: Path,
    rejected: RejectedRows,
    policies: bool,
    on_messages: OnMessages,
) -> Summary:
    settings, against = configurations
    run = _Run(settings, topology, policies)
    other = None if against is None else _Run(against, topology, policies)
    count, warnings = 0, InputWarnings(topology)
    try:
        with relaxed_gc(), out.open("w", encoding="utf-8") as file:
            for batch in batches(messages):
                count += len(batch)
                on_messages(count)
                warnings.examine(batch)
                write_revisions(run.process(batch), file)
                if other is not None:
                    other.process(batch)
            write_revisions(run.end(), file)
            if other is not None:
                other.end()
    except OSError as error:
        raise Misconfigured(f"{out}: {error.strerror or error}") from error
    summary = Summary(count, len(run.last), run.revisions, tuple(rejected.lines()), warnings=tuple(warnings.lines()))
    if run.policy is not None:
        return replace(summary, policies=PolicyComparison(run.policy, None if other is None else other.policy))
    differences = None if other is None else difference.diff(other.last.values(), run.last.values())
    return replace(summary, differences=differences)


class _Run:
    """The run of one configuration: the last revision of each finding, and the number of revisions."""

    def __init__(self, settings: Settings, topology: Topology, acts: bool = False) -> None:
        made = stages(settings)
        self._driver, self._decide = Driver(made, topology), made.decide
        self.policy = PolicyRun() if acts else None
        self._lateness_ns = ns(settings.detect.lateness_s)
        self.last: dict[str, Finding] = {}
        self.revisions = 0

    def process(self, batch: Sequence[Message]) -> list[Conclusion]:
        return self._record(self._driver.process(batch))

    def end(self) -> list[Conclusion]:
        return self._record(self._driver.end(self._lateness_ns))

    def _record(self, conclusions: list[Conclusion]) -> list[Conclusion]:
        if self.policy is not None:
            conclusions = [*conclusions, *self._act(self.policy, conclusions)]
        self.revisions += len(conclusions)
        for message in conclusions:
            if isinstance(message, Finding):
                self.last[message.id] = message
        return conclusions

    def _act(self, policy: PolicyRun, conclusions: Sequence[Conclusion]) -> list[Conclusion]:
        """Carry out the approved actions and the actions that follow; return the resulting revisions."""
        decided = [one for one in conclusions if isinstance(one, Remediation)]
        answered: list[Conclusion] = []
        while decided:
            for remediation in decided:
                policy.record(remediation)
            outputs = self._decide.process(policy.answers(decided))
            decided = [o.message for o in outputs if o.topic is REMEDIATIONS and isinstance(o.message, Remediation)]
            answered += decided
        return answered


_UNITS = (("seconds", 10**11), ("milliseconds", 10**14), ("microseconds", 10**17))
"""Units with a limit: a present time in the unit, read as nanoseconds, is below the limit."""
_SHOWN = 5


class InputWarnings:
    """Examines the messages of a run as they pass."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._devices: set[str] = set()
        self._last_ns = 0

    def examine(self, batch: Sequence[Message]) -> None:
        """Examine a batch; batches come in the order of event time."""
        self._last_ns = event_time(batch[-1])[0]
        self._devices.update(getattr(message, "device", "") for message in batch)

    def lines(self) -> list[str]:
        """Return one line for each warning."""
        found = []
        devices = self._devices - {""}
        if devices and 0 < self._last_ns < _UNITS[-1][1]:
            unit = next(unit for unit, below in _UNITS if self._last_ns < below)
            at = datetime.fromtimestamp(self._last_ns / 1e9, UTC)
            found.append(
                f"the recording ends at {at:%Y-%m-%d %H:%M:%S}: its times look like {unit}; times are Unix nanoseconds"
                " or RFC 3339"
            )
        if unknown := sorted(devices - self._topology.devices.keys()):
            names = ", ".join(unknown[:_SHOWN]) + (", …" if len(unknown) > _SHOWN else "")
            found.append(f"{len(unknown)} of {len(devices)} devices are not in the inventory: {names}")
        return found
