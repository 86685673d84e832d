"""Defines `railsight status`, which prints the last reading, cadence, lag and last error of each device's sources."""

import asyncio
import os
import time
from contextlib import closing
from dataclasses import replace
from math import inf
from typing import Annotated

import orjson
import typer

from streams.cli.options import AsJson, Bootstrap, Config, local_instance, settings_of, starting_text
from streams.cli.printing import Cell, Output, OutputForm, form_of, print_rows, print_text
from streams.embedded.running_instances import running_s
from streams.instrument.text import format_duration, format_time
from streams.report.checkup import sandbox_problem
from streams.report.source_status import (
    SourceRow,
    SourceState,
    blind_lines,
    newest_readings,
    read_statuses,
    source_rows,
    unknown_job_hosts,
    unknown_lines,
)
from streams.runtime.inventory_reader import inventory_in_effect
from streams.store.clickhouse import ClickHouse
from streams.wire.errors import Misconfigured, Retry
from streams.wire.topics import READER

_COLORS = {
    SourceState.UP: typer.colors.GREEN,
    SourceState.UNREACHABLE: typer.colors.RED,
    SourceState.SILENT: typer.colors.RED,
    SourceState.ENDED: typer.colors.BRIGHT_BLACK,
    SourceState.NO_COLLECTOR: typer.colors.YELLOW,
    SourceState.WAITING: typer.colors.YELLOW,
}


FIRST_READINGS_S = 30.0
"""The time after a start until every device was read or tried once (choice): SNMP gives a device up after 6 s."""


def status(
    config: Config = None,
    bootstrap: Bootstrap = None,
    only_problems: Annotated[bool, typer.Option("--problems", help="Only sources that are not up.")] = False,
    output: OutputForm = Output.TABLE,
    as_json: AsJson = False,
) -> None:
    """Print every source of every device, and what no collector reads; exit 1 if a device or source is not up.

    Examples: `railsight status`, `railsight status --problems`, `railsight status -o json | jq .error`.
    """
    settings, now_ns = settings_of(config, bootstrap, READER), time.time_ns()
    instance = local_instance(config, bootstrap, os.environ)
    if instance is not None and instance.step:
        raise Retry(f"waiting: {starting_text(instance)}; run `railsight status` again")
    statuses = asyncio.run(read_statuses(settings.kafka))
    inventory = asyncio.run(inventory_in_effect(settings.kafka, now_ns))
    newest: dict[tuple[str, str], int] = {}
    with closing(ClickHouse(settings.store)) as clickhouse:
        try:
            newest = newest_readings(clickhouse, now_ns)
            if problem := sandbox_problem(clickhouse):
                print_text(f"railsight status: {problem}", err=True)
        except (Retry, Misconfigured) as error:
            reason = str(error).splitlines()[0]
            print_text(f"railsight status: times of readings are up to a minute old: {reason}", err=True)
    waited_s = inf if instance is None else running_s(instance)
    rows = awaited(source_rows(statuses, inventory, now_ns, newest), waited_s)
    bad = [row for row in rows if row.has_problem]
    shown = bad if only_problems else rows
    _print(shown, now_ns, form_of(output, as_json))
    if (bad or not rows) and waited_s < FIRST_READINGS_S:
        print_text(waiting_text(waited_s), err=True)
    elif form_of(output, as_json) is not Output.JSON:
        if not shown:
            print_text(no_rows_text(rows))
        for line in blind_lines(rows, inventory, asyncio.run(unknown_job_hosts(settings.kafka, inventory))):
            print_text(f"blind: {line}", err=True)
        for line in unknown_lines(rows):
            print_text(f"unknown: {line}", err=True)
    if bad or not rows:
        raise typer.Exit(1)


def awaited(rows: list[SourceRow], waited_s: float) -> list[SourceRow]:
    """Return the rows; until first readings are due, a device without a source is waited for."""
    if waited_s >= FIRST_READINGS_S:
        return rows
    return [replace(row, state=SourceState.WAITING) if row.state is SourceState.NO_COLLECTOR else row for row in rows]


def waiting_text(waited_s: float) -> str:
    """Return the line that replaces the reasons for missing readings right after a start."""
    return (
        f"waiting: the pipeline has run for {waited_s:.0f} s, and the first readings of all devices are due after"
        f" {FIRST_READINGS_S:.0f} s; run `railsight status` again"
    )


def _print(rows: list[SourceRow], now_ns: int, form: Output) -> None:
    header = ["DEVICE", "SOURCE", "STATE", "LAG", "CADENCE"]
    header += ["LAST READING", "COLLECTOR", "ERROR"] if form is Output.WIDE else ["ERROR"]
    if rows:
        as_json, cells = lambda row: orjson.dumps(row.as_dict(now_ns)), lambda row: _cells(row, now_ns, form)
        print_rows(form, rows, as_json, header, cells)


def no_rows_text(read: list[SourceRow]) -> str:
    """Return the line that replaces an empty table; `read` has all rows, without the selection of problems."""
    if read:
        return f"sources: {len(read)}, none with a problem"
    return "no collector has published a status, and no inventory is published"


def _cells(row: SourceRow, now_ns: int, form: Output) -> list[Cell | str]:
    lag, cadence = row.lag_ns(now_ns), row.cadence_ns
    cells: list[Cell | str] = [
        row.device,
        row.source or "-",
        Cell(str(row.state), _COLORS[row.state]),
        "-" if lag is None else format_duration(lag),
        "-" if cadence is None else f"{cadence / 1e9:g}s",
    ]
    if form is Output.WIDE:
        cells += [format_time(row.last_reading_ns), row.collector or "-"]
    return [*cells, row.error]
