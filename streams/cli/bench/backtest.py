"""`railsight bench backtest`: measures the speed of a backtest on a generated recording."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.options import AsJson


def backtest(
    gpus: Annotated[int, typer.Option(min=64, help="How many GPUs the fabric has.")] = 16384,
    seconds: Annotated[float, typer.Option(min=150, help="How long the recording is.")] = 180,
    cadence: Annotated[float, typer.Option(min=0.1, help="Seconds between two readings of a device.")] = 10,
    seed: Annotated[int, typer.Option(help="Of faults, rates and the order of reading.")] = 1,
    keep: Annotated[Path | None, typer.Option(help="Leave the recording in this new folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a backtest of a generated recording; exit 1 if it is slower than it should be, or finds anything else."""
    import orjson

    from streams.bench.backtest import TARGET, measure_backtest, speed_lines
    from streams.bench.session import run_folder

    with run_folder(keep) as folder:
        found = measure_backtest(folder, gpus, seconds, cadence, seed)
    if as_json:
        typer.echo(orjson.dumps(asdict(found)))
    else:
        for line in speed_lines(found):
            typer.echo(line)
    if found.whole < TARGET or found.missed or found.invented:
        raise typer.Exit(1)
