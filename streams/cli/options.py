"""Options that several subcommands share, and the settings that they lead to."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from streams.config.settings import Settings, load
from streams.embedded.known_brokers import login_at

Config = Annotated[Path | None, typer.Option("--config", help="The configuration file (TOML); default: none.")]
Bootstrap = Annotated[str | None, typer.Option(help="Kafka's addresses; default: those of the configuration.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]

TIMES = ["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"]
"""Formats of a time on the command line; without a zone it is UTC."""


def ns_of(moment: datetime) -> int:
    """Return a time of the command line as Unix ns."""
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000


def settings_of(config: Path | None, bootstrap: str | None = None, part: str = "") -> Settings:
    """Return the settings of the file and the environment, with the login of a part of railsight to Kafka.

    Options of the command line override both. An embedded broker of this user needs no further settings.
    """
    settings = load_with_login(bootstrap, dict(os.environ), lambda environ: load(config, None, environ))
    return settings.model_copy(update={"kafka": settings.kafka.of_part(part)}) if part else settings


def load_with_login(
    bootstrap: str | None, environ: dict[str, str], read: Callable[[dict[str, str]], Settings]
) -> Settings:
    """Return the settings with the option --bootstrap, and with the login of an embedded broker at that address."""
    if bootstrap is None:
        return read(environ)
    environ = environ | {"RAILSIGHT__KAFKA__BOOTSTRAP": bootstrap}
    settings = read(environ)
    if settings.kafka.sasl_mechanism is None and (known := login_at(bootstrap)):
        return read(environ | {f"RAILSIGHT__KAFKA__{name.upper()}": str(value) for name, value in known.items()})
    return settings
