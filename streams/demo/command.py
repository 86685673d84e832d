"""`railsight demo`: everything on this machine, a simulated fabric with faults or a recording, and its score."""

import asyncio
import fcntl
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import orjson
import typer

from streams.cli.foreground import until_signalled
from streams.cli.options import AsJson
from streams.demo.board import Board
from streams.demo.player import files_of, tape_of
from streams.demo.report import Report
from streams.demo.run import Demo, Plan, Play
from streams.embedded.folders import data_folder
from streams.fabric.inventory import InvalidInventory, Inventory, read_folder
from streams.replay import results
from streams.replay.score import read_truth
from streams.runtime.supervise import Supervisor
from streams.wire.errors import Misconfigured

REFRESH_PER_S = 4
KEPT = "kept"
"""A run's folder with this file in it is never swept away."""
INTERRUPTED = 130
"""What a shell says of a command that Ctrl-C ended."""


def demo(
    seconds: Annotated[float, typer.Option(min=1, help="For how long the fabric has faults.")] = 60,
    headless: Annotated[bool, typer.Option("--headless", help="No screen; the report at the end.")] = False,
    recording: Annotated[
        Path | None, typer.Option("--from", help="Play this recording (file or folder) instead of a simulated fabric.")
    ] = None,
    inventory: Annotated[Path | None, typer.Option(help="The inventory folder of the recording.")] = None,
    truth: Annotated[Path | None, typer.Option(help="The truth of the recording (CSV), to score against.")] = None,
    speed: Annotated[float, typer.Option(min=0.01, help="How many times faster than it was the recording goes.")] = 60,
    out: Annotated[Path | None, typer.Option(help="Write every revision to this file, as backtest does.")] = None,
    alertmanager: Annotated[str | None, typer.Option(help="Tell this Alertmanager of findings.")] = None,
    run_dir: Annotated[Path | None, typer.Option(help="Folder of data and logs; default: a new one.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave that folder behind.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the whole pipeline on this machine and show what it finds; exit 1 if a fault is missed or one is invented."""
    started_s = time.monotonic()
    play = _play_of(recording, inventory, truth, speed)
    if out is not None:
        _refuse_unwritable(out)
    with _folder(run_dir, keep=keep or run_dir is not None) as folder:
        supervisor = Supervisor(folder)
        running = Demo(Plan(folder, seconds, play, alertmanager), Board(started_s), supervisor)
        on_screen = sys.stdout.isatty() and not headless and not as_json
        try:
            report = asyncio.run(until_signalled(running.run(), _show(running) if on_screen else _tell(running)))
        finally:
            # A second Ctrl-C must not leave half of it running; stopping is bounded.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            supervisor.stop()
        if out is not None and report is not None:
            with out.open("w", encoding="utf-8") as file:
                results.write([*running.board.revisions, *running.board.decisions], file)
    if report is None:
        raise typer.Exit(INTERRUPTED)
    _say(report, as_json)
    if not report.fine:
        raise typer.Exit(1)


def _play_of(recording: Path | None, inventory: Path | None, truth: Path | None, speed: float) -> Play | None:
    if recording is None:
        if inventory is not None or truth is not None:
            raise Misconfigured("--inventory and --truth go with --from")
        return None
    if inventory is None:
        raise Misconfigured("--from needs --inventory")
    tape = tape_of(files_of(recording, inventory))
    for line in tape.refused:
        typer.echo(f"railsight: {line}", err=True)
    return Play(tape, _read(inventory), speed, None if truth is None else tuple(read_truth(truth)))


def _refuse_unwritable(out: Path) -> None:
    """Now, and not after all has run."""
    try:
        out.open("w").close()
    except OSError as error:
        raise Misconfigured(f"{out}: {error.strerror}") from error


def _read(folder: Path) -> Inventory:
    try:
        return read_folder(folder)
    except InvalidInventory as error:
        raise Misconfigured("\n".join(error.problems)) from error


@contextmanager
def _folder(given: Path | None, *, keep: bool) -> Iterator[Path]:
    """The run's folder: the one given, or a new one in the user's data folder that is removed at the end."""
    if given is not None:
        if (given / "kafka").exists():
            raise Misconfigured(f"{given} holds an earlier run; choose another folder, or remove it")
        folder = given.resolve()
        folder.mkdir(parents=True, exist_ok=True)
    else:
        runs = data_folder() / "demo"
        runs.mkdir(parents=True, exist_ok=True)
        _sweep(runs)
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=runs))
    lock = _locked(folder)
    if keep:
        (folder / KEPT).touch()
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _sweep(runs: Path) -> None:
    """Remove what demos left that could not clean up: those that were killed, so that nobody holds their lock."""
    for folder in runs.glob("run-*"):
        if not (folder / KEPT).exists() and (lock := _locked(folder)) is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _locked(folder: Path) -> int | None:
    """Hold the folder's lock for as long as this process lives; None where another one has it."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


async def _show(running: Demo) -> None:
    from rich.live import Live

    from streams.demo.screen import screen

    with Live(screen=True, refresh_per_second=REFRESH_PER_S) as live:
        while True:
            board, parts = running.board, running.supervisor.states()
            now_s = time.monotonic()
            where = f"{now_s - board.started_s:.0f} s, {_where(running)}"
            live.update(screen(board, parts, now_s, time.time_ns(), where))
            await asyncio.sleep(1 / REFRESH_PER_S)


async def _tell(running: Demo) -> None:
    """Say on standard error what the demo is doing, when that changes."""
    said = ""
    while True:
        if (now := _where(running)) != said:
            typer.echo(f"railsight demo: {now}", err=True)
            said = now
        await asyncio.sleep(1 / REFRESH_PER_S)


def _where(running: Demo) -> str:
    known = [f"{name} {running.where[name]}" for name in ("kafka", "clickhouse") if name in running.where]
    return ", ".join([running.phase, *known])


def _say(report: Report, as_json: bool) -> None:
    if as_json:
        typer.echo(orjson.dumps(report.as_dict()))
    else:
        for line in report.lines():
            typer.echo(line)
