"""`railsight up`: runs the whole pipeline on this machine with the configured collectors."""

import os
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.collector_registry import collector_params
from streams.cli.options import local_instance, settings_of
from streams.cli.printing import print_text
from streams.config.settings import Settings, load
from streams.embedded.directories import locked
from streams.report.blindness_watch import watch_blindness
from streams.runtime.foreground import run_and_stop
from streams.runtime.local_pipeline import pipeline_directory, run_pipeline
from streams.runtime.supervise import Supervisor
from streams.wire.access import READER
from streams.wire.errors import Misconfigured


def up(
    config: Annotated[Path, typer.Option("--config", help="The configuration file (TOML).")],
    run_dir: Annotated[
        Path | None,
        typer.Option(help="Folder of the parts' logs; default: run in runtime.data, or in the user's data folder."),
    ] = None,
) -> None:
    """Run everything until Ctrl-C or SIGTERM: Kafka and ClickHouse too, unless the configuration names others.

    Example: `railsight up --config railsight.toml`; `railsight init DIR` writes a first configuration.
    """
    settings = load(config, collector_params())
    if not settings.collectors:
        raise Misconfigured(f"{config}: no collector is configured: give at least one [collect.<name>] section")
    folder = (run_dir or pipeline_directory(settings) / "run").absolute()
    # A second one must not touch the logs and records of the first.
    with locked(folder, "run folder"):
        supervisor = Supervisor(folder)
        cadence_s = max(getattr(params, "cadence_s", 0.0) for params in settings.collectors.values())
        watch = watch_blindness(lambda: _settings_of_running(config), print_text, cadence_s)
        run_and_stop(run_pipeline(supervisor, settings, config.resolve(), print_text), watch, supervisor.stop)


def _settings_of_running(config: Path) -> Settings | None:
    """Return the settings with which a command reads this pipeline, None until its servers run."""
    return None if local_instance(config, None, os.environ) is None else settings_of(config, None, READER)
