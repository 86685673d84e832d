"""Runs a demo in its own folder, with a display, and always stops its processes."""

import asyncio
import os
import shutil
import signal
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.demo import acting, disturbances
from lab.demo.acting import answer_lines, headline, outcome
from lab.demo.player import find_recording, load_playback
from lab.demo.process_specs import DemoPlan, PlaybackPlan
from lab.demo.report import Report
from lab.demo.run import Demo
from lab.demo.state import DemoState
from streams.embedded.directories import data_directory, try_lock
from streams.fabric.inventory import InvalidInventory, Inventory, read_folder
from streams.instrument.text import format_time
from streams.replay.score import read_truth, write_revisions
from streams.runtime.access_admin import KCAT
from streams.runtime.foreground import run_and_stop
from streams.runtime.supervise import Supervisor
from streams.wire.errors import Misconfigured
from streams.wire.models import Remediation

RETAIN_MARKER = "kept"
"""A run folder with a file of this name is never removed."""


@contextmanager
def run_folder(given: Path | None, *, keep: bool) -> Iterator[Path]:
    """Yield the given folder, or a new one in the user's data folder that is removed at the end unless `keep`."""
    if given is not None:
        if (given / "kafka").exists():
            raise Misconfigured(f"{given} holds an earlier run; choose another folder, or remove it")
        folder = given.resolve()
        folder.mkdir(parents=True, exist_ok=True)
    else:
        runs = data_directory() / "demo"
        runs.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(runs)
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=runs))
    lock = try_lock(folder)
    if keep:
        (folder / RETAIN_MARKER).touch()
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _remove_abandoned(runs: Path) -> None:
    """Remove the folders of demos that were killed before they could clean up: no process holds their lock."""
    for folder in runs.glob("run-*"):
        if not (folder / RETAIN_MARKER).exists() and (lock := try_lock(folder)) is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


REFRESH_PER_S = 4
LINE_CHARACTERS = 80


def run_demo(
    seconds: float,
    playback: PlaybackPlan | None,
    *,
    alertmanager: str | None = None,
    run_dir: Path | None = None,
    keep: bool = False,
    out: Path | None = None,
    print_progress: Callable[[str], None] | None = None,
    act: bool = False,
    disturb: bool = False,
    with_grafana: bool = False,
    seed: int = 1,
    planes: int | None = None,
    without_sandbox: bool = False,
) -> Report | None:
    """Run one demo and return its report; None if a signal ended it.

    Draws a screen, or with `print_progress` reports each new phase as a line. Writes every revision to `out`.
    """
    started_s = time.monotonic()
    if out is not None:
        _check_writable(out)
    if disturb and not act:
        raise Misconfigured("--disturb needs --act")
    if act:
        _check_acting(seconds, playback, disturbances.LEAST_S if disturb else acting.LEAST_S)
    with run_folder(run_dir, keep=keep or run_dir is not None) as folder:
        supervisor = Supervisor(folder)
        demo = Demo(
            DemoPlan(
                folder, seconds, seed, playback, alertmanager, act, disturb, with_grafana, without_sandbox, planes
            ),
            DemoState(started_s),
            supervisor,
        )
        display = _draw_screen(demo) if print_progress is None else _print_progress(demo, print_progress)
        report = run_and_stop(demo.run(), display, supervisor.stop)
        if out is not None and report is not None:
            with out.open("w", encoding="utf-8") as file:
                write_revisions([*demo.state.revisions, *demo.state.decisions], file)
    return report


def playback_plan(
    recording: Path | None, inventory: Path | None, truth: Path | None, speed: float, planes: int | None = None
) -> PlaybackPlan | None:
    """Return the recording to play, None for a simulated fabric; raise Misconfigured."""
    if recording is None:
        if inventory is not None or truth is not None:
            raise Misconfigured("--inventory and --truth go with --from")
        return None
    if planes is not None:
        raise Misconfigured("--planes is for the simulated fabric: leave out --planes or --from")
    if inventory is None:
        raise Misconfigured("--from needs --inventory")
    playback = load_playback(find_recording(recording, inventory))
    return PlaybackPlan(
        playback, _read_inventory(inventory), speed, None if truth is None else tuple(read_truth(truth))
    )


def _check_writable(out: Path) -> None:
    """Raise Misconfigured before the run if the file is not writable."""
    try:
        out.open("w").close()
    except OSError as error:
        raise Misconfigured(f"{out}: {error.strerror}") from error


def _check_acting(seconds: float, playback: PlaybackPlan | None, least_s: float) -> None:
    if playback is not None:
        raise Misconfigured("--act needs the simulated fabric: a recording cannot be repaired; remove --from")
    if seconds < least_s:
        raise Misconfigured(f"this demo needs --seconds {least_s:g} or more: repairs and their proofs take that long")
    acting.automation_folder()


def _read_inventory(folder: Path) -> Inventory:
    try:
        return read_folder(folder)
    except InvalidInventory as error:
        raise Misconfigured("\n".join(error.problems)) from error


async def _draw_screen(demo: Demo) -> None:
    from rich.console import Console

    from lab.demo.screen import tabs
    from streams.report.top.app import Extras, TopApp, actions, run_until_cancelled

    # Printed before the screen, so that the lines are above the report at the end.
    for line in (_kcat_line(demo), *(_setting_lines() if demo.plan.act else ())):
        Console().print(line, highlight=False, soft_wrap=True)

    def status() -> str:
        return f"demo, {time.monotonic() - demo.state.started_s:.0f} s: {_status_line(demo)}"

    extras = Extras(status, tabs(
        demo.state.view, demo.supervisor.states, lambda: (time.monotonic(), time.time_ns()),
        lambda: demo.addresses.get("kafka", ""), lambda: demo.truths, acts=demo.plan.act,
    ))  # fmt: skip
    await run_until_cancelled(TopApp(demo.state.view, actions(lambda: demo.running_settings), extras))
    # The user quits: end the demo as Ctrl-C does.
    os.kill(os.getpid(), signal.SIGINT)


async def _print_progress(demo: Demo, print_line: Callable[[str], None]) -> None:
    """Print the status line whenever it changes, and in a demo that acts each revision of a remediation."""
    printed, revisions = "", 0
    for line in (_kcat_line(demo), *(_setting_lines() if demo.plan.act else ())):
        print_line(line)
    while True:
        if (status := _status_line(demo)) != printed:
            print_line(f"railsight demo: {status}")
            printed = status
        if demo.plan.act:
            for remediation in demo.state.decisions[revisions:]:
                for line in _remediation_lines(demo, remediation):
                    print_line(line)
            revisions = len(demo.state.decisions)
        await asyncio.sleep(1 / REFRESH_PER_S)


def _kcat_line(demo: Demo) -> str:
    """Return the command that reads the findings from another terminal; its file exists once the broker runs."""
    return f"railsight demo: findings by `kcat -F {demo.plan.folder / 'kafka' / KCAT} -C -t railsight.findings.v1`"


def _setting_lines() -> Iterator[str]:
    yield "settings of this demo, mostly shortened:"
    yield from (f"  {line}" for line in acting.setting_lines())


def _remediation_lines(demo: Demo, remediation: Remediation) -> Iterator[str]:
    yield headline(remediation)
    text = f"{format_time(remediation.decided_at_ns)[11:19]} {outcome(remediation)}"
    yield from textwrap.wrap(
        text, LINE_CHARACTERS, initial_indent="  ", subsequent_indent="    ", max_lines=3, placeholder=" …"
    )
    yield from (f"  {line}" for line in answer_lines(remediation, demo.addresses["kafka"]))


def _status_line(demo: Demo) -> str:
    servers = [
        f"{name} {demo.addresses[name]}" for name in ("kafka", "clickhouse", "grafana") if name in demo.addresses
    ]
    return ", ".join([demo.phase, *servers])
