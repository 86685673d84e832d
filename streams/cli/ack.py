"""`railsight ack ID`: acknowledges a finding, so that it does not page."""

import asyncio
import getpass
import time
from typing import Annotated

import typer

from streams.cli.options import Bootstrap, Config, settings_of
from streams.cli.printing import echo
from streams.report.finding_reader import open_findings
from streams.runtime.topic_writer import publish
from streams.wire.models import Control, ControlKind
from streams.wire.topics import CONTROLS, encode


def ack(
    identity: Annotated[str, typer.Argument(metavar="ID", help="Id of an open finding, or a prefix of it.")],
    config: Config = None,
    bootstrap: Bootstrap = None,
    reason: Annotated[str, typer.Option(help="Reason, for the record.")] = "",
    hours: Annotated[float | None, typer.Option(min=0, help="Duration; default: until it is resolved.")] = None,
) -> None:
    """Acknowledge one open finding; exit 1 if no open finding, or more than one, has this id."""
    kafka = settings_of(config, bootstrap).kafka
    matches = [finding for finding in asyncio.run(open_findings(kafka)) if finding.id.startswith(identity)]
    if len(matches) != 1:
        several = ", ".join(finding.id for finding in matches)
        typer.echo(f"railsight ack: {'several: ' + several if matches else f'no open finding {identity}'}", err=True)
        raise typer.Exit(1)
    finding, now = matches[0], time.time_ns()
    until = None if hours is None else now + round(hours * 3600e9)
    asyncio.run(publish(kafka, [encode(CONTROLS, acknowledgement(finding.id, now, until, getpass.getuser(), reason))]))
    echo(f"acknowledged {finding.id}: {finding.summary}")


def acknowledgement(finding: str, at_ns: int, until_ns: int | None, actor: str, reason: str) -> Control:
    """Return the acknowledgement; its id is made from the finding's, so that a second one replaces the first."""
    return Control(f"ack/{finding}", ControlKind.ACKNOWLEDGE, finding, at_ns, until_ns, actor, reason)
