"""`railsight ack ID`: tell the pipeline that a finding is known, so that it does not page."""

import asyncio
import getpass
import time
from typing import Annotated

import typer

from streams.cli.options import Bootstrap, Config, settings_of
from streams.report.finding_reader import open_findings
from streams.runtime.topic_writer import publish
from streams.wire.models import Control, ControlKind
from streams.wire.topics import CONTROLS, encode


def ack(
    identity: Annotated[str, typer.Argument(metavar="ID", help="Id of an open finding, or how it begins.")],
    config: Config = None,
    bootstrap: Bootstrap = None,
    reason: Annotated[str, typer.Option(help="Why, for whoever reads it later.")] = "",
    hours: Annotated[float | None, typer.Option(min=0, help="For how long; default: until it is over.")] = None,
) -> None:
    """Acknowledge one open finding; exit 1 if none of this id is open."""
    kafka = settings_of(config, bootstrap).kafka
    found = [finding for finding in asyncio.run(open_findings(kafka)) if finding.id.startswith(identity)]
    if len(found) != 1:
        many = ", ".join(finding.id for finding in found)
        typer.echo(f"railsight ack: {'several: ' + many if found else f'no open finding {identity}'}", err=True)
        raise typer.Exit(1)
    now = time.time_ns()
    until = None if hours is None else now + round(hours * 3600e9)
    asyncio.run(publish(kafka, [encode(CONTROLS, acknowledgement(found[0].id, now, until, getpass.getuser(), reason))]))
    typer.echo(f"acknowledged {found[0].id}: {found[0].summary}")


def acknowledgement(finding: str, at_ns: int, until_ns: int | None, actor: str, reason: str) -> Control:
    """The control that says so; its id follows from the finding's, so that saying it again changes it."""
    return Control(f"ack/{finding}", ControlKind.ACKNOWLEDGE, finding, at_ns, until_ns, actor, reason)
