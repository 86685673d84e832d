"""`railsight chaos` runs the pipeline on this machine under faults, and counts lost and duplicate messages."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from lab.cli.run_folder import run_folder
from streams.cli.options import AsJson
from streams.cli.printing import echo, progress
from streams.runtime.foreground import INTERRUPTED

if TYPE_CHECKING:
    from lab.chaos.report import Report


def chaos(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sequence; a failing seed reproduces it.")] = 1,
    faults: Annotated[
        str,
        typer.Option(
            help="Names of faults, comma-separated; all: those that need one broker; every: also those of three"
            " brokers, and of network and disks, which need root."
        ),
    ] = "all",
    seconds: Annotated[float, typer.Option(min=1, help="Time in which faults begin.")] = 20,
    runs: Annotated[int, typer.Option(min=1, help="Number of sequences, with consecutive seeds.")] = 1,
    each: Annotated[
        bool, typer.Option("--each", help="Run each fault alone instead, and print a table in Markdown.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start new processes for each sequence; default: only after a breach.")
    ] = False,
    run_dir: Annotated[
        Path | None, typer.Option(help="Folder for data and logs, which stays; default: a temporary one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start Kafka, ClickHouse and the pipeline, apply a random sequence of faults, and check every promise.

    Exits with 1 if an acknowledged message was lost or stored twice, or a finding is wrong.

    Examples: `railsight chaos --seed 7`, `railsight chaos --faults all --each`.
    """
    from lab.chaos.plan import fault_names
    from lab.chaos.report import TABLE_HEAD
    from lab.chaos.run import run_chaos, sequences

    names = fault_names(faults)
    reports = []

    with run_folder(run_dir, "chaos") as folder, progress("chaos") as bar:

        def add(report: "Report") -> None:
            reports.append(report)
            for line in (orjson.dumps(report.as_dict()).decode(),) if as_json else report.lines():
                bar.echo(line)

        plans = sequences(seed, names, seconds, runs, each=each)
        is_complete = run_chaos(folder, plans, bar.step, add, share=not fresh)
        if not is_complete:
            raise typer.Exit(INTERRUPTED)
    if each and not as_json:
        for line in (*TABLE_HEAD, *(row for report in reports for row in report.table_rows())):
            echo(line)
    if not all(report.is_passed for report in reports):
        raise typer.Exit(1)
