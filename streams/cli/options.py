"""Options that several subcommands share, and the settings that follow from them."""

import os
from pathlib import Path
from typing import Annotated

import typer

from streams.config.settings import Settings, load

Config = Annotated[Path | None, typer.Option("--config", help="The configuration file (TOML); default: none.")]
Bootstrap = Annotated[str | None, typer.Option(help="Kafka's addresses; default: those of the configuration.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]


def settings_of(config: Path | None, bootstrap: str | None = None) -> Settings:
    """The settings of the file and the environment, with what the command line says over both."""
    said = {} if bootstrap is None else {"RAILSIGHT__KAFKA__BOOTSTRAP": bootstrap}
    return load(config, None, dict(os.environ) | said)
