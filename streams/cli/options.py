"""Options that several subcommands share, and the settings that they lead to."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from streams.config.settings import Settings, load

Config = Annotated[Path | None, typer.Option("--config", help="The configuration file (TOML); default: none.")]
Bootstrap = Annotated[str | None, typer.Option(help="Kafka's addresses; default: those of the configuration.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]

TIMES = ["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"]
"""Formats of a time on the command line; without a zone it is UTC."""


def ns_of(moment: datetime) -> int:
    """Return a time of the command line as Unix ns."""
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000


def settings_of(config: Path | None, bootstrap: str | None = None) -> Settings:
    """Return the settings of the file and the environment; options of the command line override both."""
    options = {} if bootstrap is None else {"RAILSIGHT__KAFKA__BOOTSTRAP": bootstrap}
    return load(config, None, dict(os.environ) | options)
