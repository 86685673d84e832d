"""`railsight config check`: checks a configuration file and prints a line for each problem."""

from pathlib import Path
from typing import Annotated

import typer

from streams.cli.collector_registry import collector_params
from streams.config.settings import load
from streams.decide.policy import load_policy

config = typer.Typer(no_args_is_help=True, help="Check a configuration file.")


@config.callback()
def _group() -> None:
    """Check a configuration file."""


@config.command()
def check(
    path: Annotated[Path, typer.Option("--config", help="The configuration file (TOML).")],
) -> None:
    """Check a configuration and print all its problems at once; exit 2 if there are any."""
    settings = load(path, collector_params())
    load_policy(settings.decide.policy)
    running = ", ".join(settings.collectors) or "none"
    typer.echo(f"{path}: valid (collectors: {running})")
