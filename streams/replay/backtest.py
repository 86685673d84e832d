"""A backtest: recordings or what ClickHouse holds in, every revision of findings and remediations out."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from streams.config.settings import Settings
from streams.config.stages import stage_factory
from streams.detect.params import ns
from streams.fabric.inventory import InvalidInventory, digest, read_folder
from streams.fabric.topology import Topology
from streams.replay import recording, results
from streams.replay.driver import Stages, drive
from streams.replay.recording import Refused
from streams.store import history
from streams.store.clickhouse import ClickHouse
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
    """What a backtest did; `refused` has a line for each reason for which rows were left out."""

    messages: int
    findings: int
    revisions: int
    refused: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """As JSON would have it."""
        return asdict(self)


def read(source: Recording, refused: Refused) -> list[Message]:
    """All messages of a recording; raises Misconfigured where a file cannot be read at all."""
    messages: list[Message] = [*recording.read_samples(source.samples, refused)]
    messages += recording.read_events(source.events, refused)
    if source.facts:
        messages += recording.read_lines(Facts, source.facts, refused)
    if source.status:
        messages += recording.read_lines(CollectorStatus, source.status, refused)
    if source.controls:
        messages += recording.read_lines(Control, source.controls, refused)
    return messages


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


def run(source: Recording, settings: Settings, out: Path) -> Summary:
    """Drive the stages over a recording and write what they say; raises Misconfigured on input that cannot be read."""
    refused = Refused()
    return _run(read(source, refused), source.inventory, settings, out, refused)


def run_history(since_ns: int, until_ns: int, inventory: Path, settings: Settings, out: Path) -> Summary:
    """The same over what ClickHouse holds of [since, until); raises Retry where it is away."""
    clickhouse = ClickHouse(settings.store)
    try:
        return _run(list(history.messages(clickhouse, since_ns, until_ns)), inventory, settings, out, Refused())
    finally:
        clickhouse.close()


def _run(messages: Sequence[Message], inventory: Path, settings: Settings, out: Path, refused: Refused) -> Summary:
    said = list(drive(stages(settings), read_topology(inventory), messages, ns(settings.detect.lateness_s)))
    try:
        with out.open("w", encoding="utf-8") as file:
            revisions = results.write(said, file)
    except OSError as error:
        raise Misconfigured(f"{out}: {error}") from error
    findings = {message.id for message in said if isinstance(message, Finding)}
    return Summary(len(messages), len(findings), revisions, tuple(refused.lines()))
