"""`railsight chaos`: runs the pipeline on this machine under faults and counts what was lost or stored twice."""

from pathlib import Path
from typing import Annotated

import orjson
import typer

from streams.cli.options import AsJson
from streams.runtime.foreground import INTERRUPTED


def chaos(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sequence; a failing seed reproduces it.")] = 1,
    faults: Annotated[str, typer.Option(help="Names of faults, comma-separated; all: every fault.")] = "all",
    seconds: Annotated[float, typer.Option(min=1, help="Time in which faults begin.")] = 20,
    run_dir: Annotated[
        Path | None, typer.Option(help="Folder for data and logs, which stays; default: a temporary one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start Kafka, ClickHouse and the pipeline, apply a random sequence of faults, and check every promise.

    Exits with 1 if an acknowledged message was lost or stored twice, or a finding is wrong.
    """
    from streams.chaos.params import ChaosParams
    from streams.chaos.plan import fault_names
    from streams.chaos.session import run_chaos, run_folder

    names = fault_names(faults)
    with run_folder(run_dir) as folder:
        report = run_chaos(ChaosParams(folder, seed, names, seconds), _print_progress)
    if report is None:
        raise typer.Exit(INTERRUPTED)
    if as_json:
        typer.echo(orjson.dumps(report.as_dict()))
    else:
        for line in report.lines():
            typer.echo(line)
    if not report.is_passed:
        raise typer.Exit(1)


def _print_progress(line: str) -> None:
    typer.echo(f"railsight chaos: {line}", err=True)
