"""`railsight remediations`: lists the open remediations, follows their revisions, and explains one."""

import asyncio
from typing import Annotated

import typer

from streams.cli.options import AsJson, Bootstrap, Config, settings_of
from streams.cli.printing import Cell, Output, OutputForm, echo, fail, form_of, print_lines, print_rows, print_text
from streams.instrument.text import format_time
from streams.report.records import NoSuchRemediation, follow_remediations, open_remediations, remediation_revisions
from streams.report.render import decision_reason, explanation, remediation_line, state_name
from streams.wire import codec
from streams.wire.models import Remediation, RemediationState
from streams.wire.topics import READER

_COLORS = {
    RemediationState.WAITING: typer.colors.YELLOW,
    RemediationState.DENIED: typer.colors.RED,
    RemediationState.ESCALATED: typer.colors.RED,
}

remediations = typer.Typer(invoke_without_command=True, help="List the open remediations, or explain one.")


@remediations.callback()
def list_open(
    context: typer.Context,
    config: Config = None,
    bootstrap: Bootstrap = None,
    follow: Annotated[bool, typer.Option("--follow", help="Continue with each revision as it arrives.")] = False,
    output: OutputForm = Output.TABLE,
    as_json: AsJson = False,
) -> None:
    """List the open remediations, newest first.

    Examples: `railsight remediations -o wide`, `railsight remediations explain ID`, then `railsight approve ID`.
    """
    if context.invoked_subcommand is not None:
        return
    kafka, form = settings_of(config, bootstrap, READER).kafka, form_of(output, as_json)
    found = asyncio.run(open_remediations(kafka))
    header = ["ID", "STATE", "ACTION", *(["DECIDED", "EXPIRES"] if form is Output.WIDE else []), "TARGET", "REASON"]
    print_rows(form, found, codec.to_json, header, lambda one: _cells(one, form), "no remediation is open")
    if follow:
        is_json = form is Output.JSON
        asyncio.run(
            follow_remediations(kafka, lambda value, one: echo(value) if is_json else print_text(remediation_line(one)))
        )


def _cells(one: Remediation, form: Output) -> list[Cell | str]:
    color = _COLORS.get(one.state)
    times = [format_time(one.decided_at_ns), format_time(one.expires_at_ns)] if form is Output.WIDE else []
    return [one.id[:12], Cell(state_name(one), color), one.action.name, *times, one.target.id, decision_reason(one)]


@remediations.command()
def explain(
    identity: Annotated[str, typer.Argument(metavar="ID", help="Id of a remediation, or a prefix of it.")],
    config: Config = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Print the guard that binds one remediation, the condition that would satisfy it, and its history.

    Example: `railsight remediations explain 9a41c0`.
    """
    try:
        revisions = asyncio.run(remediation_revisions(settings_of(config, bootstrap, READER).kafka, identity))
    except NoSuchRemediation as error:
        fail("remediations explain", error)
    if as_json:
        for one in revisions:
            echo(codec.to_json(one))
        return
    print_lines(explanation(revisions))
