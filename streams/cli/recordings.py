"""Defines `railsight export` and `record`, which write stored or arriving messages as a recording for `backtest`."""

import asyncio
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.options import TIMES, Config, ns_of, settings_of
from streams.cli.printing import fail, print_text, progress
from streams.config.settings import Settings
from streams.wire.errors import Misconfigured
from streams.wire.topics import READER

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the recording and its inventory.")]
_ARRIVAL_S = 5.0
"""The wait for the sink, which stores samples within about two seconds of their arrival."""


def export(
    folder: Folder,
    since: Annotated[datetime, typer.Option("--from", formats=TIMES, help="Start, UTC.")],
    until: Annotated[datetime | None, typer.Option("--to", formats=TIMES, help="End, UTC; default: now.")] = None,
    config: Config = None,
) -> None:
    """Write the samples, events, facts, statuses and controls of a time in ClickHouse, and the inventory in effect.

    Example: `railsight export rec --from 2026-03-01T10:00:00Z --to 2026-03-01T11:00:00Z`; docs/recordings.md has the
    format, and the backtest of it.
    """
    end_ns = time.time_ns() if until is None else ns_of(until)
    _export(settings_of(config, None, READER), folder, ns_of(since), end_ns)


def record(
    folder: Folder, seconds: Annotated[float, typer.Option(min=1, help="Duration.")] = 300, config: Config = None
) -> None:
    """Wait while the pipeline runs, then write what it stored meanwhile as a recording. Ctrl-C ends it earlier.

    Example: `railsight record rec --seconds 600`.
    """
    settings = settings_of(config, None, READER)
    _refuse_used(folder)
    since_ns = time.time_ns()
    try:
        _wait(seconds)
    except KeyboardInterrupt:
        print_text("stopped; writing what arrived", err=True)
    until_ns = time.time_ns()
    time.sleep(_ARRIVAL_S)
    _export(settings, folder, since_ns, until_ns)


def _wait(seconds: float) -> None:
    end_s = time.monotonic() + seconds
    with progress("recording", seconds) as bar:
        while (left_s := end_s - time.monotonic()) > 0:
            bar.completed(seconds - left_s)
            time.sleep(min(0.5, left_s))


def _refuse_used(folder: Path) -> None:
    from streams.replay.recording_writer import SAMPLES

    if (folder / SAMPLES).exists():
        raise Misconfigured(f"{folder} has a recording; choose another folder")


def _export(settings: Settings, folder: Path, since_ns: int, until_ns: int) -> None:
    from streams.fabric.inventory import write_folder
    from streams.replay.recording_writer import SAMPLES, write_recording
    from streams.runtime.inventory_reader import inventory_in_effect
    from streams.store.clickhouse import ClickHouse
    from streams.store.queries import history

    _refuse_used(folder)
    if until_ns <= since_ns:
        raise Misconfigured("--to must be later than --from")
    inventory = asyncio.run(inventory_in_effect(settings.kafka, until_ns))
    with closing(ClickHouse(settings.store)) as clickhouse, progress("export") as bar:
        messages = history.messages(clickhouse, since_ns, until_ns)
        counts = write_recording(bar.counted(messages, "messages"), folder)
    if inventory is None:
        print_text("railsight export: no inventory is published; a backtest needs one", err=True)
    else:
        write_folder(inventory, folder / "inventory")
    for name, count in counts.items():
        print_text(f"{folder / name}: {count} rows" if name != "left out" else f"rows left out, not of ports: {count}")
    if not counts[SAMPLES]:
        fail("export", "ClickHouse has no samples of that time; `railsight status` lists what is read")
