"""`railsight findings`: prints the open findings, and with `--follow` each revision as it arrives."""

import asyncio
import time
from typing import Annotated

import typer

from streams.cli.options import AsJson, Bootstrap, Config, settings_of
from streams.cli.printing import echo
from streams.report.finding_reader import follow_findings, open_findings
from streams.report.render_finding import finding_line, open_finding_line
from streams.wire import codec
from streams.wire.access import READER
from streams.wire.models import Finding


def findings(
    config: Config = None,
    bootstrap: Bootstrap = None,
    follow: Annotated[bool, typer.Option("--follow", help="Continue with each revision as it arrives.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the open findings, newest first."""
    kafka = settings_of(config, bootstrap, READER).kafka
    _print_open(asyncio.run(open_findings(kafka)), as_json)
    if follow:
        asyncio.run(follow_findings(kafka, lambda value, found: echo(value if as_json else finding_line(found))))


def _print_open(found: list[Finding], as_json: bool) -> None:
    now_ns = time.time_ns()
    for finding in found:
        echo(codec.to_json(finding) if as_json else open_finding_line(finding, now_ns))
    if not found and not as_json:
        typer.echo("nothing is open")
