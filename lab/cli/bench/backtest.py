"""`railsight bench backtest`: measures the speed of a backtest on a generated recording."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.options import AsJson
from streams.cli.progress import progress


def backtest(
    gpus: Annotated[int, typer.Option(min=64, help="Number of GPUs of the fabric.")] = 16384,
    seconds: Annotated[float, typer.Option(min=150, help="Length of the recording.")] = 180,
    cadence: Annotated[float, typer.Option(min=0.1, help="Seconds between two readings of a device.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of faults, rates and the order of reading.")] = 1,
    keep: Annotated[Path | None, typer.Option(help="Write the recording to this new folder and keep it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a backtest of a generated recording; exit 1 if it is too slow or its findings are wrong.

    Example: `railsight bench backtest --gpus 1024`.
    """
    import orjson

    from lab.bench.backtest import TARGET, measure_backtest, speed_lines
    from lab.bench.session import run_folder

    with run_folder(keep) as folder, progress("bench backtest"):
        speeds = measure_backtest(folder, gpus, seconds, cadence, seed)
    if as_json:
        typer.echo(orjson.dumps(asdict(speeds)))
    else:
        for line in speed_lines(speeds):
            typer.echo(line)
    if speeds.whole < TARGET or speeds.missed or speeds.invented:
        raise typer.Exit(1)
