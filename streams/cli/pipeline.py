"""Defines `railsight up` and `railsight logs`: the whole pipeline on this machine, and the logs of its parts."""

import os
import time
from collections import deque
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from streams.cli.options import AsJson, Config, WithoutSandbox, collector_params, local_instance, settings_of
from streams.cli.printing import Cell, Output, OutputForm, echo, form_of, print_rows, print_text
from streams.config.settings import Settings, load
from streams.embedded.directories import locked
from streams.report.source_status import watch_blindness
from streams.runtime.foreground import run_and_stop
from streams.runtime.local_pipeline import pipeline_directory, run_pipeline
from streams.runtime.supervise import Supervisor
from streams.wire.errors import Misconfigured
from streams.wire.topics import READER


def up(
    config: Annotated[Path, typer.Option("--config", help="The configuration file (TOML).")],
    run_dir: Annotated[
        Path | None,
        typer.Option(help="Folder of the parts' logs; default: run in runtime.data, or in the user's data folder."),
    ] = None,
    without_sandbox: WithoutSandbox = False,
) -> None:
    """Run everything until Ctrl-C or SIGTERM: Kafka and ClickHouse too, unless the configuration names others.

    Example: `railsight up --config railsight.toml`; `railsight init DIR` writes a first configuration.
    """
    settings = load(config, collector_params())
    if not settings.collectors:
        raise Misconfigured(f"{config}: no collector is configured: give at least one [collect.<name>] section")
    folder = (run_dir or pipeline_directory(settings) / "run").absolute()
    # A second pipeline must not change the logs and records of the first.
    with locked(folder, "run folder"):
        supervisor = Supervisor(folder)
        cadence_s = max(getattr(params, "cadence_s", 0.0) for params in settings.collectors.values())
        watch = watch_blindness(lambda: _settings_of_running(config), print_text, cadence_s)
        pipeline = run_pipeline(supervisor, settings, config.resolve(), print_text, without_sandbox=without_sandbox)
        run_and_stop(pipeline, watch, supervisor.stop)


def _settings_of_running(config: Path) -> Settings | None:
    """Return the settings for commands that read this pipeline, or None until its parts run."""
    instance = local_instance(config, None, os.environ)
    return None if instance is None or instance.step else settings_of(config, None, READER)


_FOLLOW_S = 0.2


def logs(
    part: Annotated[
        str | None, typer.Argument(help="Part, as process or collect-gnmi; default: list the parts.")
    ] = None,
    config: Config = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of its last lines.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue with each line as it is written.")] = False,
    output: OutputForm = Output.TABLE,
    as_json: AsJson = False,
) -> None:
    """Print the last lines of a part's log, or list the parts with their state.

    Examples: `railsight logs`, `railsight logs collect-snmp -n 100`, `railsight logs process -f`.
    """
    instance = local_instance(config, None, {})
    if instance is None:
        raise Misconfigured("no pipeline of this user runs here; start it with `railsight up --config FILE`")
    parts = {row["name"]: row for row in _parts(Path(instance.run_dir) / "parts.json")}
    if part is None:
        _list_parts(list(parts.values()), form_of(output, as_json))
        return
    if part not in parts:
        raise Misconfigured(f"no part {part}; one of {', '.join(parts)}")
    _print(Path(parts[part]["log"]), lines, follow)


def _list_parts(parts: list[dict[str, Any]], form: Output) -> None:
    states = {True: Cell("running", "green"), False: Cell("ended", "red")}
    print_rows(
        form, parts, orjson.dumps, ["PART", "STATE", "RESTARTS", "LOG"],
        lambda row: [row["name"], states[bool(row["running"])], str(row["restarts"]), row["log"]],
    )  # fmt: skip


def _print(path: Path, lines: int, follow: bool) -> None:
    with path.open(errors="replace") as log:
        for line in deque(log, maxlen=lines):
            echo(line.rstrip("\n"))
        while follow:
            if line := log.readline():
                echo(line.rstrip("\n"))
            elif _is_replaced(path, log.fileno()):
                # The part was restarted, and its new run has a new log.
                _print(path, 1 << 20, follow)
                return
            else:
                time.sleep(_FOLLOW_S)


def _is_replaced(path: Path, descriptor: int) -> bool:
    try:
        return path.stat().st_ino != os.fstat(descriptor).st_ino
    except OSError:
        return False


def _parts(path: Path) -> list[dict[str, Any]]:
    try:
        return list(orjson.loads(path.read_bytes()))
    except (OSError, orjson.JSONDecodeError) as error:
        raise Misconfigured(f"cannot read {path}: {error}; the pipeline may be starting") from error
