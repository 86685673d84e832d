"""`railsight config check`: whether a configuration file can be used, with a line for each problem."""

from pathlib import Path
from typing import Annotated

import typer

from streams.cli.collector_registry import collector_params
from streams.config.settings import load

config = typer.Typer(no_args_is_help=True, help="Check a configuration file.")


@config.callback()
def _group() -> None:
    """Check a configuration file."""


@config.command()
def check(
    path: Annotated[Path, typer.Option("--config", help="The configuration file (TOML).")],
) -> None:
    """Say what is wrong with a configuration, all at once; exit 2 if anything is."""
    settings = load(path, collector_params())
    running = ", ".join(settings.collectors) or "none"
    typer.echo(f"{path}: fine (collectors: {running})")
