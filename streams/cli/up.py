"""`railsight up`: runs the whole pipeline on this machine with the configured collectors."""

from pathlib import Path
from typing import Annotated

import typer

from streams.cli.collector_registry import collector_params
from streams.config.settings import load
from streams.runtime.foreground import run_and_stop
from streams.runtime.local_pipeline import pipeline_directory, run_pipeline
from streams.runtime.supervise import Supervisor
from streams.wire.errors import Misconfigured


def up(
    config: Annotated[Path, typer.Option("--config", help="The configuration file (TOML).")],
    run_dir: Annotated[
        Path | None,
        typer.Option(help="Folder of the parts' logs; default: run in runtime.data, or in the user's data folder."),
    ] = None,
) -> None:
    """Run everything until Ctrl-C or SIGTERM: Kafka and ClickHouse too, unless the configuration names others."""
    settings = load(config, collector_params())
    if not settings.collectors:
        raise Misconfigured(f"{config}: no collector is configured: give at least one [collect.<name>] section")
    supervisor = Supervisor(run_dir or pipeline_directory(settings) / "run")
    run_and_stop(run_pipeline(supervisor, settings, config.resolve(), typer.echo), None, supervisor.stop)
