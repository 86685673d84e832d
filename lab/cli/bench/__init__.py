"""Subcommands of `railsight bench`: each parses its options, calls `lab.bench`, and prints the result."""

from collections.abc import Iterable
from typing import Any

import typer


def print_result(values: Any, lines: Iterable[str], *, as_json: bool, is_passed: bool = True) -> None:
    """Print `values` as JSON, or the lines; exit with 1 if the benchmark did not pass."""
    import orjson

    for line in (orjson.dumps(values).decode(),) if as_json else lines:
        typer.echo(line)
    if not is_passed:
        raise typer.Exit(1)
