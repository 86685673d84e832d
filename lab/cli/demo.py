"""`railsight demo` runs the whole pipeline on this machine with a simulated fabric or a recording, and scores it."""

import os
import sys
from pathlib import Path
from typing import Annotated

import orjson
import typer

from lab.demo.acting import DEFAULT_S
from lab.demo.disturbances import LEAST_S
from lab.demo.grafana import HOW_TO, find_program
from lab.demo.report import Report
from lab.demo.session import playback_plan, run_demo
from streams.cli.options import AsJson, WithoutSandbox
from streams.cli.printing import echo, print_text
from streams.embedded.clickhouse.params import WITHOUT_SANDBOX
from streams.runtime.foreground import INTERRUPTED


def demo(
    seconds: Annotated[
        float | None,
        typer.Option(
            min=1, help="Duration of the simulated fabric's faults; default: 60, with --act 140, with --disturb 200."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated fabric's faults.")] = 1,
    act: Annotated[
        bool, typer.Option("--act", help="Act: automation drains, repairs and restores links that flap until repaired.")
    ] = False,
    disturb: Annotated[
        bool,
        typer.Option("--disturb", help="With --act: kill the automation, rename and undo drains; check the effect."),
    ] = False,
    planes: Annotated[
        int | None, typer.Option(min=2, help="Planes of each NIC, with leaves of their own; default: planes of spines.")
    ] = None,
    headless: Annotated[bool, typer.Option("--headless", help="Draw no screen; print the report at the end.")] = False,
    recording: Annotated[
        Path | None, typer.Option("--from", help="Play this recording (file or folder) instead of a simulated fabric.")
    ] = None,
    inventory: Annotated[Path | None, typer.Option(help="Inventory folder of the recording.")] = None,
    truth: Annotated[Path | None, typer.Option(help="Ground truth of the recording (CSV), for the score.")] = None,
    speed: Annotated[float, typer.Option(min=0.01, help="Playback speed; 1 is the recorded pace.")] = 60,
    out: Annotated[Path | None, typer.Option(help="Write every revision to this file, as backtest does.")] = None,
    alertmanager: Annotated[str | None, typer.Option(help="Send findings to this Alertmanager.")] = None,
    grafana: Annotated[
        bool, typer.Option("--grafana", help="Provision Grafana with the boards: GRAFANA_URL, or the one on PATH.")
    ] = False,
    run_dir: Annotated[Path | None, typer.Option(help="Folder for data and logs; default: a new one.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Do not remove that folder at the end.")] = False,
    without_sandbox: WithoutSandbox = False,
    as_json: AsJson = False,
) -> None:
    """Run the whole pipeline on this machine and show its findings; exit 1 if a fault is missed or one is invented.

    With --act it also exits with 1 if a sound link was drained, or a bad one was left without a remediation; with
    --disturb also if a drain is carried out twice, or a renamed or undone one does not count as what it is.

    Examples: `railsight demo`, `railsight demo --headless --seconds 60`, `railsight demo --act`,
    `railsight demo --act --disturb`, `railsight demo --planes 8`.
    """
    playback = playback_plan(recording, inventory, truth, speed, planes)
    for line in playback.playback.rejected if playback is not None else ():
        print_text(f"railsight: {line}", err=True)
    if without_sandbox:
        print_text(f"railsight: {WITHOUT_SANDBOX}", err=True)
    with_grafana = grafana and _has_grafana()
    # textual draws the screen on standard error.
    draws_screen = sys.stdout.isatty() and sys.stderr.isatty() and not headless and not as_json
    report = run_demo(
        seconds or (LEAST_S if disturb else DEFAULT_S if act else 60),
        playback,
        alertmanager=alertmanager,
        run_dir=run_dir,
        keep=keep,
        out=out,
        print_progress=None if draws_screen else _print_progress,
        act=act,
        disturb=disturb,
        with_grafana=with_grafana,
        seed=seed,
        planes=planes,
        without_sandbox=without_sandbox,
    )
    if report is None:
        raise typer.Exit(INTERRUPTED)
    _print_report(report, as_json)
    if not report.is_passed:
        raise typer.Exit(1)


def _has_grafana() -> bool:
    """Return True if a Grafana for the boards exists; otherwise print how to get one."""
    if os.environ.get("GRAFANA_URL") or find_program(os.environ) is not None:
        return True
    for line in HOW_TO:
        print_text(f"railsight: {line}", err=True)
    return False


def _print_progress(status: str) -> None:
    print_text(status, err=True)


def _print_report(report: Report, as_json: bool) -> None:
    if as_json:
        echo(orjson.dumps(report.as_dict()))
    else:
        for line in report.lines():
            print_text(line)
