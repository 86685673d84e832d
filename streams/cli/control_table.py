"""Prints the controls in effect: maintenance, exclusions, kill switches."""

from collections.abc import Sequence

import typer

from streams.cli.printing import echo
from streams.cli.tables import Output, print_table
from streams.instrument.time_format import format_time
from streams.wire import codec
from streams.wire.models import Control


def print_controls(controls: Sequence[Control], form: Output, empty: str) -> None:
    """Print a row for each control; `empty` if there is none and the form is for people."""
    if form is Output.JSON:
        for control in controls:
            echo(codec.to_json(control))
    elif controls:
        print_table(["KIND", "SUBJECT", "FROM", "UNTIL", "ACTOR", "REASON"], map(_cells, controls), form)
    else:
        typer.echo(empty)


def _cells(control: Control) -> list[str]:
    until = "no end" if control.until_ns is None else format_time(control.until_ns)
    kind = control.kind.name.lower().replace("_", " ")
    return [kind, control.subject_id or "everything", format_time(control.at_ns), until, control.actor, control.reason]
