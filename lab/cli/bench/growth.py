"""`railsight bench growth`: runs the pipeline benchmark over sizes of fabrics and numbers of workers."""

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.bench.pipeline import Cadence, Partitions
from streams.cli.options import AsJson
from streams.cli.progress import progress
from streams.runtime.foreground import INTERRUPTED


def growth(
    gpus: Annotated[str, typer.Option(help="Fabric sizes in GPUs, separated by commas.")] = "256,1024,4096",
    workers: Annotated[str, typer.Option(help="Numbers of workers, separated by commas.")] = "1",
    cadence: Cadence = 10,
    seconds: Annotated[float, typer.Option(min=5, help="Duration of each measurement, after a warm-up.")] = 60,
    partitions: Partitions = 8,
    picture: Annotated[Path | None, typer.Option(help="Draw the curves to this SVG or PNG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run `bench pipeline` for each size and number of workers, one after the other; exit 1 if one broke a promise.

    Example: `railsight bench growth --gpus 256,1024 --seconds 30`.
    """
    import orjson

    from lab.bench.params import Params
    from lab.bench.plot import draw, refuse_without_matplotlib
    from lab.bench.scaling_curve import HEAD, row
    from lab.bench.session import run_benchmark, run_folder

    sizes, counts = _numbers(gpus, "--gpus"), _numbers(workers, "--workers")
    if picture is not None:
        refuse_without_matplotlib()
    if not as_json:
        typer.echo(HEAD)
    reports = []
    for size, count in [(size, count) for size in sizes for count in counts]:
        with run_folder(None) as folder, progress(f"bench growth: {size} GPUs, {count} workers") as bar:
            params = Params(folder, size, cadence, seconds, partitions=partitions, workers=count)
            report = run_benchmark(params, bar.step)
        if report is None:
            raise typer.Exit(INTERRUPTED)
        reports.append(report)
        # At once: a run takes minutes, and a later interrupt must not lose this line.
        typer.echo(orjson.dumps(report.as_dict()) if as_json else row(report))
    if picture is not None:
        draw(reports, picture)
    if not all(report.is_passed for report in reports):
        raise typer.Exit(1)


def _numbers(given: str, option: str) -> list[int]:
    try:
        numbers = [int(part) for part in given.split(",")]
    except ValueError as error:
        raise typer.BadParameter("numbers separated by commas", param_hint=option) from error
    if any(number < 1 for number in numbers):
        raise typer.BadParameter("numbers from 1", param_hint=option)
    return numbers
