"""`railsight remediations`: lists the open remediations, follows their revisions, and explains one."""

import asyncio
from typing import Annotated

import typer

from streams.cli.options import AsJson, Bootstrap, Config, settings_of
from streams.cli.publish_control import fail
from streams.report.remediation_reader import (
    NoSuchRemediation,
    follow_remediations,
    open_remediations,
    remediation_revisions,
)
from streams.report.render_remediation import explanation, remediation_line
from streams.wire import codec
from streams.wire.access import READER

remediations = typer.Typer(invoke_without_command=True, help="List the open remediations, or explain one.")


@remediations.callback()
def list_open(
    context: typer.Context,
    config: Config = None,
    bootstrap: Bootstrap = None,
    follow: Annotated[bool, typer.Option("--follow", help="Continue with each revision as it arrives.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the open remediations, newest first."""
    if context.invoked_subcommand is not None:
        return
    kafka = settings_of(config, bootstrap, READER).kafka
    found = asyncio.run(open_remediations(kafka))
    for remediation in found:
        typer.echo(codec.to_json(remediation) if as_json else remediation_line(remediation))
    if not found and not as_json:
        typer.echo("no remediation is open")
    if follow:
        asyncio.run(
            follow_remediations(kafka, lambda value, one: typer.echo(value if as_json else remediation_line(one)))
        )


@remediations.command()
def explain(
    identity: Annotated[str, typer.Argument(metavar="ID", help="Id of a remediation, or a prefix of it.")],
    config: Config = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Print the guard that binds one remediation, the condition that would satisfy it, and its history."""
    try:
        revisions = asyncio.run(remediation_revisions(settings_of(config, bootstrap, READER).kafka, identity))
    except NoSuchRemediation as error:
        fail("remediations explain", str(error))
    for line in (codec.to_json(one) for one in revisions) if as_json else explanation(revisions):
        typer.echo(line)
