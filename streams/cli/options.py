"""Defines the options that several subcommands share, and loads their settings and the installed collectors."""

import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from streams.config.file_checks import with_absolute_paths
from streams.config.settings import Settings, load
from streams.embedded.running_instances import Instance, login_at, running_instances, running_s
from streams.wire.errors import Misconfigured, Retry
from streams.wire.topics import LOCALITY, OPERATOR, READER, Access

Config = Annotated[Path | None, typer.Option("--config", help="The configuration file (TOML); default: none.")]
Bootstrap = Annotated[str | None, typer.Option(help="Kafka's addresses; default: those of the configuration.")]
WithoutSandbox = Annotated[
    bool, typer.Option("--without-sandbox", help="Run ClickHouse without its sandbox, where Linux has no Landlock.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]

TIMES = ["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"]
"""The formats of a time on the command line; a time without a zone is UTC."""

_BOOTSTRAP = "RAILSIGHT__KAFKA__BOOTSTRAP"


def ns_of(moment: datetime) -> int:
    """Return a time of the command line as Unix ns."""
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000


_OF_PEOPLE = (OPERATOR, READER, LOCALITY)
"""Parts whose commands find this user's running pipeline; a process of a pipeline has its own configuration."""


def settings_of(config: Path | None, bootstrap: str | None = None, part: str = "") -> Settings:
    """Return the settings of the file and the environment, with a part's login to Kafka.

    Options of the command line override both. An embedded broker of this user needs no further settings. Without
    options, the commands for people use this user's running pipeline on this machine.
    """
    instance = local_instance(config, bootstrap, os.environ) if part in _OF_PEOPLE else None
    if instance is not None and not instance.bootstrap:
        raise Retry(f"{starting_text(instance)}; run the command again")
    settings = load_for(
        instance, config, lambda path, environ: load_with_login(bootstrap, environ, lambda all_: load(path, None, all_))
    )
    return settings.model_copy(update={"kafka": settings.kafka.of_part(part)}) if part else settings


def starting_text(instance: Instance) -> str:
    """Return what a pipeline does before all its parts run, and since when."""
    return (
        f"`railsight {instance.command}` (process {instance.pid}) {instance.step} since {running_s(instance):.0f} s;"
        f" its logs are in {instance.run_dir}"
    )


def load_for(
    instance: Instance | None, config: Path | None, read: Callable[[Path | None, dict[str, str]], Settings]
) -> Settings:
    """Return the settings that `read` loads from a file and an environment, or those of a running pipeline.

    Relative paths of a running pipeline's configuration refer to its folder.
    """
    if instance is None:
        return read(config, dict(os.environ))
    folder = Path(instance.folder) if Path(instance.folder).is_dir() else Path.cwd()
    config = Path(instance.config) if config is None else config.absolute()
    with contextlib.chdir(folder):
        return with_absolute_paths(read(config, {**instance.environ, **os.environ}), folder)


def local_instance(config: Path | None, bootstrap: str | None, environ: Mapping[str, str]) -> Instance | None:
    """Return the running pipeline that options and environment select, or None.

    Without options, returns the only one; raises Misconfigured if there are several.
    """
    found = running_instances()
    if config is not None:
        return next((one for one in found if Path(one.config) == config.resolve()), None)
    if bootstrap is not None:
        return next((one for one in found if one.bootstrap == bootstrap), None)
    if _BOOTSTRAP in environ or not found:
        return None
    if len(found) > 1:
        several = "\n".join(f"  {one.command} (process {one.pid}): --config {one.config}" for one in found)
        raise Misconfigured(f"several pipelines run here; choose one with --config:\n{several}")
    return found[0]


def load_with_login(
    bootstrap: str | None, environ: dict[str, str], read: Callable[[dict[str, str]], Settings]
) -> Settings:
    """Return the settings with the option --bootstrap, and the login of an embedded broker at that address."""
    if bootstrap is None:
        return read(environ)
    environ = environ | {_BOOTSTRAP: bootstrap}
    settings = read(environ)
    if settings.kafka.sasl_mechanism is None and (known := login_at(bootstrap)):
        return read(environ | {f"RAILSIGHT__KAFKA__{name.upper()}": str(value) for name, value in known.items()})
    return settings


GROUP = "railsight.collectors"


def only_errors() -> None:
    """Drop the log lines of a collector that a command runs once: they are for services, not for its output."""
    logging.getLogger("railsight").setLevel(logging.ERROR)


def installed_collectors() -> dict[str, EntryPoint]:
    """Return the entry points of the collectors by name, without importing them."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def spec_of(kind: str) -> Any:
    """Return the Spec of one collector; raises Misconfigured for an unknown name."""
    known = installed_collectors()
    if kind not in known:
        raise Misconfigured(f"unknown collector {kind}; installed: {', '.join(sorted(known)) or 'none'}")
    return known[kind].load()


def collector_access(settings: Settings) -> dict[str, Access]:
    """Return the access to Kafka of the installed collectors with these settings, by the part that logs in."""
    found: dict[str, Access] = {}
    for name, entry in installed_collectors().items():
        spec = entry.load()
        found[spec.part] = found.get(spec.part, Access()) | spec.access(settings.collectors.get(name))
    return found


def collector_params() -> dict[str, type[BaseModel]]:
    """Return the Params of each installed collector, which validate its section of the configuration."""
    return {name: entry.load().Params for name, entry in installed_collectors().items()}
