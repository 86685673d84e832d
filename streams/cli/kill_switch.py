"""`railsight kill-switch`: stops every action, and revokes approvals that are not carried out yet."""

import asyncio
import time
from typing import Annotated

import typer

from streams.cli.control_table import print_controls
from streams.cli.options import AsJson, Bootstrap, Config, settings_of
from streams.cli.printing import print_text
from streams.cli.publish_control import HOUR_NS, Actor, Key, Reason, actor_name, publish_control
from streams.cli.subject_controls import control_line, ended
from streams.cli.tables import Output, OutputForm, form_of
from streams.report.remediation_reader import current_controls
from streams.wire.access import OPERATOR
from streams.wire.control_scope import has_ended
from streams.wire.models import Control, ControlKind

IDENTITY = "kill-switch"

kill_switch = typer.Typer(no_args_is_help=True, help="Stop every action.")


@kill_switch.command()
def on(
    config: Config = None,
    bootstrap: Bootstrap = None,
    hours: Annotated[float | None, typer.Option(min=0.01, help="Duration; default: until it is off.")] = None,
    reason: Reason = "",
    actor: Actor = None,
    key: Key = None,
) -> None:
    """Stop every action; approvals that are not carried out yet are revoked, restores go on.

    Example: `railsight kill-switch on --hours 2 --reason 'change freeze'`.
    """
    now_ns = time.time_ns()
    until_ns = None if hours is None else now_ns + round(hours * HOUR_NS)
    control = Control(
        IDENTITY, ControlKind.KILL_SWITCH, "", now_ns, until_ns, actor_name(actor), reason, endless=hours is None
    )
    publish_control(settings_of(config, bootstrap, OPERATOR), control, key)
    print_text(f"kill switch on: {control_line(control)}")


@kill_switch.command()
def off(
    config: Config = None, bootstrap: Bootstrap = None, reason: Reason = "", actor: Actor = None, key: Key = None
) -> None:
    """End every kill switch; what was revoked is evaluated again.

    Example: `railsight kill-switch off`.
    """
    settings, now_ns = settings_of(config, bootstrap, OPERATOR), time.time_ns()
    found = _active(asyncio.run(current_controls(settings.kafka)), now_ns)
    for control in found:
        publish_control(settings, ended(control, now_ns, actor_name(actor), reason), key)
    typer.echo("kill switch off" if found else "kill switch was off")


@kill_switch.command()
def status(
    config: Config = None, bootstrap: Bootstrap = None, output: OutputForm = Output.TABLE, as_json: AsJson = False
) -> None:
    """Print the kill switches that are on.

    Examples: `railsight kill-switch status`, `railsight kill-switch status -o json`.
    """
    found = _active(asyncio.run(current_controls(settings_of(config, bootstrap, OPERATOR).kafka)), time.time_ns())
    print_controls(found, form_of(output, as_json), "kill switch off")


def _active(controls: list[Control], now_ns: int) -> list[Control]:
    return [c for c in controls if c.kind is ControlKind.KILL_SWITCH and not has_ended(c, now_ns)]
