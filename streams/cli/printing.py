"""Prints texts that contain what devices report: a terminal must not execute it."""

import typer

from streams.wire.bounds import clean


def echo(text: str | bytes) -> None:
    """Print one line without control characters."""
    typer.echo(clean(text.decode(errors="replace") if isinstance(text, bytes) else text))
