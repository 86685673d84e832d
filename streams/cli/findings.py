"""`railsight findings`: what is wrong now, and with `--follow` each revision as it comes."""

import asyncio
import time
from typing import Annotated

import typer

from streams.cli import shown
from streams.cli.found import open_findings
from streams.cli.options import AsJson, Bootstrap, Config, settings_of
from streams.cli.reading import on_and_on
from streams.config.kafka import KafkaSettings
from streams.wire import codec
from streams.wire.errors import Reject
from streams.wire.models import Finding
from streams.wire.topics import FINDINGS, decode


def findings(
    config: Config = None,
    bootstrap: Bootstrap = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with each revision as it comes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the findings that are open, the newest first."""
    kafka = settings_of(config, bootstrap).kafka
    _list(asyncio.run(open_findings(kafka)), as_json)
    if follow:
        asyncio.run(_follow(kafka, as_json))


def _list(found: list[Finding], as_json: bool) -> None:
    if as_json:
        for finding in found:
            typer.echo(codec.to_json(finding))
        return
    now = time.time_ns()
    for finding in found:
        words = (
            f"{finding.severity.name:<8}  {shown.lasting(now - finding.started_at_ns):>7}  {finding.condition.slug:<22}"
        )
        typer.echo(f"{finding.id[:12]}  {words}  {finding.subject.id}  {finding.summary}")
    if not found:
        typer.echo("nothing is open")


async def _follow(kafka: KafkaSettings, as_json: bool) -> None:
    async for record in on_and_on(kafka, FINDINGS, from_end=True):
        try:
            finding = decode(FINDINGS, record.value, record.headers)
        except Reject:
            continue
        if isinstance(finding, Finding):
            typer.echo(record.value if as_json else shown.line(finding))
