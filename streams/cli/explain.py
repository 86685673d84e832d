"""`railsight explain ID`: one finding with its evidence, what it explains, and what was decided for it.

Findings come from Kafka, or from ClickHouse where Kafka has them no more or is away; samples from ClickHouse. What is
away is said, and the rest is printed.
"""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from streams.cli import behind, shown
from streams.cli.behind import Behind
from streams.cli.found import findings_like, newest, remediations_of
from streams.cli.options import AsJson, Bootstrap, Config, settings_of
from streams.config.kafka import KafkaSettings
from streams.store.clickhouse import ClickHouse
from streams.store.queries import finding_queries
from streams.wire import codec
from streams.wire.errors import Misconfigured, Retry
from streams.wire.models import Finding, Remediation


@dataclass(frozen=True, slots=True)
class _Told:
    """All revisions of a finding and of what it explains, and the remediations that answer it."""

    revisions: list[Finding]
    remediations: list[Remediation]


def explain(
    identity: Annotated[str, typer.Argument(metavar="ID", help="Id of a finding, or how it begins.")],
    config: Config = None,
    bootstrap: Bootstrap = None,
    samples: Annotated[bool, typer.Option(help="Show the samples behind the evidence, from ClickHouse.")] = True,
    as_json: AsJson = False,
) -> None:
    """Print one finding with all that speaks for it; exit 1 if there is none of this id."""
    settings = settings_of(config, bootstrap)
    clickhouse = ClickHouse(settings.store)
    try:
        told = _told(settings.kafka, clickhouse, identity)
        last = newest(told.revisions)
        own = [finding for finding in last.values() if finding.id.startswith(identity)]
        if len(own) != 1:
            many = ", ".join(finding.id for finding in own)
            typer.echo(f"railsight explain: {'several: ' + many if own else f'no finding {identity}'}", err=True)
            raise typer.Exit(1)
        finding = own[0]
        found = _behind(clickhouse, finding) if samples else []
    finally:
        clickhouse.close()
    children = [child for child in last.values() if child.parent_id == finding.id]
    revisions = [revision for revision in told.revisions if revision.id == finding.id]
    if as_json:
        _json(finding, revisions, children, told.remediations, found)
        return
    for text in shown.whole(finding, children, told.remediations, len(revisions)):
        typer.echo(text)
    if found:
        typer.echo("  samples")
    for text in behind.lines(found):
        typer.echo(f"  {text}")
    typer.echo("  revisions")
    for text in shown.history(revisions):
        typer.echo(text)


def _told(kafka: KafkaSettings, clickhouse: ClickHouse, identity: str) -> _Told:
    """From Kafka; from ClickHouse where it has none of this id or is away. Raises Retry where both are."""
    away: Retry | None = None
    try:
        revisions = asyncio.run(findings_like(kafka, identity))
        ids = {finding.id for finding in revisions if finding.id.startswith(identity)}
        if ids:
            remediations = asyncio.run(remediations_of(kafka, next(iter(ids)))) if len(ids) == 1 else []
            return _Told(revisions, remediations)
    except Retry as error:
        away = error
    try:
        return _Told(*finding_queries.by_id_prefix(clickhouse, identity))
    except (Retry, Misconfigured) as error:
        if away is not None:
            raise Retry(f"{away}\n{error}") from error
        return _Told([], [])


def _behind(clickhouse: ClickHouse, finding: Finding) -> list[Behind]:
    try:
        return behind.behind(clickhouse, finding)
    except (Retry, Misconfigured) as error:
        typer.echo(f"railsight explain: no samples: {str(error).splitlines()[0]}", err=True)
        return []


def _json(
    finding: Finding,
    revisions: list[Finding],
    children: list[Finding],
    remediations: list[Remediation],
    found: list[Behind],
) -> None:
    import orjson

    def plain(message: Finding | Remediation) -> Any:
        return orjson.loads(codec.to_json(message))

    said = {
        "finding": plain(finding),
        "revisions": [plain(revision) for revision in revisions],
        "children": [plain(child) for child in children],
        "remediations": [plain(remediation) for remediation in remediations],
        "samples": [one.as_dict() for one in found],
    }
    typer.echo(orjson.dumps(said))
