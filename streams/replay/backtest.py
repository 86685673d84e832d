"""A backtest: recordings or what ClickHouse holds in, every revision of findings and remediations out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import merge
from pathlib import Path
from typing import Any

from streams.config.settings import Settings
from streams.config.stages import stage_factory
from streams.detect.thresholds import ns
from streams.fabric.inventory import InvalidInventory, digest, read_folder
from streams.fabric.inventory_rows import Job
from streams.fabric.job_placement import FOREVER, JobAllocation
from streams.fabric.topology import Topology
from streams.instrument.garbage import relaxed_gc
from streams.replay import difference, recording, results
from streams.replay.difference import Differences
from streams.replay.driver import Conclusion, Driver, Stages, batches, event_time
from streams.replay.recording import RejectedRows
from streams.store.clickhouse import ClickHouse
from streams.store.queries import history, job_allocations
from streams.wire.errors import Misconfigured
from streams.wire.models import CollectorStatus, Control, Facts, Finding, Message


@dataclass(frozen=True, slots=True)
class Recording:
    """Where a recording lies."""

    samples: tuple[Path, ...]
    events: tuple[Path, ...]
    facts: Path | None
    status: Path | None
    controls: Path | None
    inventory: Path


@dataclass(frozen=True, slots=True)
class Summary:
    """What a backtest did.

    `refused` has a line for each reason for which rows were left out, `differences` what another configuration says.
    """

    messages: int
    findings: int
    revisions: int
    rejected: tuple[str, ...]
    differences: Differences | None = None

    def as_dict(self) -> dict[str, Any]:
        """As JSON would have it."""
        said: dict[str, Any] = {
            "messages": self.messages, "findings": self.findings, "revisions": self.revisions,
            "refused": list(self.rejected),
        }  # fmt: skip
        return said if self.differences is None else said | {"differences": self.differences.as_dict()}


def read_messages(source: Recording, refused: RejectedRows) -> list[Message]:
    """All messages of a recording; raises Misconfigured where a file cannot be read at all."""
    return list(ordered_messages(source, refused))


def ordered_messages(source: Recording, refused: RejectedRows) -> Iterator[Message]:
    """The messages of a recording in the order of a backtest; of samples, no more than a piece of each file is held."""
    others: list[Message] = [*recording.read_events(source.events, refused)]
    if source.facts:
        others += recording.read_lines(Facts, source.facts, refused)
    if source.status:
        others += recording.read_lines(CollectorStatus, source.status, refused)
    if source.controls:
        others += recording.read_lines(Control, source.controls, refused)
    return merge(recording.stream_samples(source.samples, refused), sorted(others, key=event_time), key=event_time)


def read_topology(folder: Path) -> Topology:
    """The inventory of a folder; raises Misconfigured with a line for each thing that is wrong with it."""
    try:
        inventory = read_folder(folder)
    except InvalidInventory as error:
        raise Misconfigured("\n".join(error.problems)) from error
    return Topology(inventory, digest(inventory))


def stages(settings: Settings) -> Stages:
    """One of each stage."""
    measure, correlate, attribute, decide = (
        stage_factory(name, settings)(0) for name in ("measure", "correlate", "attribute", "decide")
    )
    return Stages(measure, correlate, attribute, decide)


def run(source: Recording, settings: Settings, out: Path, against: Settings | None = None) -> Summary:
    """Drive the stages over a recording and write what they say; raises Misconfigured on input that cannot be read.

    With a second configuration, says as well what of it would be otherwise with that one.
    """
    refused = RejectedRows()
    return _run(ordered_messages(source, refused), read_topology(source.inventory), (settings, against), out, refused)


def run_history(
    since_ns: int, until_ns: int, inventory: Path, settings: Settings, out: Path, against: Settings | None = None
) -> Summary:
    """The same over what ClickHouse holds of [since, until); raises Retry where it is away."""
    topology = read_topology(inventory)
    clickhouse = ClickHouse(settings.store)
    try:
        topology = topology.with_jobs(
            _placed(topology, job_allocations.query_allocations(clickhouse, since_ns, until_ns))
        )
        past = history.messages(clickhouse, since_ns, until_ns)
        return _run(past, topology, (settings, against), out, RejectedRows())
    finally:
        clickhouse.close()


def _placed(topology: Topology, told: Iterable[JobAllocation]) -> tuple[Job, ...]:
    """The inventory's jobs, and those that were told of one by one."""
    own = topology.placement.apply(told).allocations
    return tuple(
        Job(stay.job, stay.device, _when(stay.start_ns), None if stay.end_ns == FOREVER else _when(stay.end_ns))
        for stay in own
    )


def _when(ns_: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns_ // 1000)


def _run(
    messages: Iterable[Message],
    topology: Topology,
    configurations: tuple[Settings, Settings | None],
    out: Path,
    refused: RejectedRows,
) -> Summary:
    settings, against = configurations
    own, other = _Run(settings, topology), None if against is None else _Run(against, topology)
    count = 0
    try:
        with relaxed_gc(), out.open("w", encoding="utf-8") as file:
            for batch in batches(messages):
                count += len(batch)
                results.write(own.take(batch), file)
                if other is not None:
                    other.take(batch)
            results.write(own.end(), file)
            if other is not None:
                other.end()
    except OSError as error:
        raise Misconfigured(f"{out}: {error}") from error
    differences = None if other is None else difference.diff(other.last.values(), own.last.values())
    return Summary(count, len(own.last), own.revisions, tuple(refused.lines()), differences)


class _Run:
    """One configuration over the messages: the last revision of each finding, and how many there were."""

    def __init__(self, settings: Settings, topology: Topology) -> None:
        self._driver = Driver(stages(settings), topology)
        self._lateness_ns = ns(settings.detect.lateness_s)
        self.last: dict[str, Finding] = {}
        self.revisions = 0

    def take(self, batch: Sequence[Message]) -> list[Conclusion]:
        return self._noted(self._driver.process(batch))

    def end(self) -> list[Conclusion]:
        return self._noted(self._driver.end(self._lateness_ns))

    def _noted(self, said: list[Conclusion]) -> list[Conclusion]:
        self.revisions += len(said)
        for message in said:
            if isinstance(message, Finding):
                self.last[message.id] = message
        return said
