"""A run as a call: in a folder of its own, progress on standard error, and nothing left running however it ends."""

import asyncio
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from streams.bench.params import Params
from streams.bench.report import Report
from streams.bench.run import Bench
from streams.cli.foreground import until_signalled
from streams.runtime.supervise import Supervisor
from streams.wire.errors import Misconfigured

INTERRUPTED = 130
"""What a shell says of a command that Ctrl-C ended."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def folder_of(given: Path | None) -> Iterator[Path]:
    """The folder to run in: the one given, which stays, or a temporary one; raises Misconfigured where it is used."""
    if given is None:
        with tempfile.TemporaryDirectory(prefix="railsight-bench-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    if given.exists() and any(given.iterdir()):
        raise Misconfigured(f"{given} is not empty; choose another folder, or remove it")
    given.mkdir(parents=True, exist_ok=True)
    yield given.resolve()


def measured(params: Params) -> Report:
    """One run; raises typer.Exit(130) where a signal ended it, what the parts raise where they cannot run."""
    supervisor = Supervisor(params.folder)
    bench = Bench(params, supervisor)
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        report = asyncio.run(until_signalled(bench.run(), _tell(bench)))
    finally:
        # A second Ctrl-C must not leave half of it running; stopping is bounded.
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        supervisor.stop()
        for number, handler in before.items():
            signal.signal(number, handler)
    if report is None:
        raise typer.Exit(INTERRUPTED)
    return report


async def _tell(bench: Bench) -> None:
    """Say on standard error where it stands, when that changes."""
    said = ""
    while True:
        if bench.phase != said:
            said = bench.phase
            typer.echo(f"railsight bench: {said}", err=True)
        await asyncio.sleep(0.25)
