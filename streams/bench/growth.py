"""`railsight bench growth`: how the pipeline's cost grows with the fabric and divides over workers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.bench.pipeline import Cadence, Partitions
from streams.cli.options import AsJson

if TYPE_CHECKING:
    from streams.bench.report import Report


def growth(
    gpus: Annotated[str, typer.Option(help="Sizes of fabrics, in GPUs, separated by commas.")] = "256,1024,4096",
    workers: Annotated[str, typer.Option(help="Numbers of workers, separated by commas.")] = "1",
    cadence: Cadence = 10,
    seconds: Annotated[float, typer.Option(min=5, help="For how long each is measured, after a warm-up.")] = 60,
    partitions: Partitions = 8,
    picture: Annotated[Path | None, typer.Option(help="Draw the curves to this SVG or PNG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run `bench pipeline` for each size and number of workers, one after the other; exit 1 if one broke a promise."""
    import orjson

    from streams.bench.drawing import draw, refuse_without_matplotlib
    from streams.bench.params import Params
    from streams.bench.whole import folder_of, measured

    sizes, counts = _numbers(gpus, "--gpus"), _numbers(workers, "--workers")
    if picture is not None:
        refuse_without_matplotlib()
    if not as_json:
        typer.echo(HEAD)
    reports = []
    for size in sizes:
        for count in counts:
            typer.echo(f"railsight bench: {size} GPUs, {count} workers", err=True)
            with folder_of(None) as folder:
                report = measured(Params(folder, size, cadence, seconds, partitions=partitions, workers=count))
            reports.append(report)
            # At once: a run takes minutes, and whoever interrupts the next has this one.
            typer.echo(orjson.dumps(report.as_dict()) if as_json else row(report))
    if picture is not None:
        draw(reports, picture)
    if not all(report.fine for report in reports):
        raise typer.Exit(1)


HEAD = (
    f"{'GPUs':>8}{'ports':>9}{'workers':>9}{'port-samples/s':>16}{'cores used':>12}{'CPU s/M':>9}"
    f"{'row p99 s':>11}{'finding p99 s':>15}{'lag at end':>12}{'held':>6}  CPU s of each worker"
)


def row(report: "Report") -> str:
    """A run as a line; what each worker used shows how the partitions divide the work."""
    lag = sum(stage.lag_end for stage in report.stages)
    each = " + ".join(f"{part.cpu_s:.1f}" for part in report.parts if part.part.startswith("process"))
    return (
        f"{report.gpus:>8}{report.load.ports:>9}{report.workers:>9}{report.load.port_samples_per_s:>16,.0f}"
        f"{report.cpu_s / report.seconds:>12.2f}{report.cpu_s_per_million:>9.2f}"
        f"{_s(report.sample_to_row_s.p99):>11}{_s(report.flap_to_finding_s.p99):>15}{lag:>12,.0f}"
        f"{'yes' if report.fine else 'NO':>6}  {each}"
    )


def _s(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.3f}"


def _numbers(given: str, option: str) -> list[int]:
    try:
        numbers = [int(part) for part in given.split(",")]
    except ValueError as error:
        raise typer.BadParameter("numbers separated by commas", param_hint=option) from error
    if any(number < 1 for number in numbers):
        raise typer.BadParameter("numbers from 1", param_hint=option)
    return numbers
