"""`railsight bench corropt`: compares policies for corrupting links in the fabric of the CorrOpt paper."""

from pathlib import Path
from typing import Annotated

import typer

from streams.cli.options import AsJson
from streams.cli.progress import progress


def corropt(
    days: Annotated[float, typer.Option(min=1, help="Simulated days.")] = 90,
    constraints: Annotated[str, typer.Option(help="Shares of paths that every ToR keeps, separated by commas.")] = (
        "0.5,0.75"
    ),
    mttf_hours: Annotated[str, typer.Option(help="Mean times to failure of a link, separated by commas.")] = (
        "10000,100000,1000000"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the faults.")] = 1,
    picture: Annotated[Path | None, typer.Option(help="Draw the penalties over time to this SVG or PNG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the penalty of corrupting links under three policies; exit 1 if railsight breached a constraint.

    Example: `railsight bench corropt --days 30`.
    """
    import orjson

    from streams.bench.corropt.report import HEAD, as_dict, draw, outcomes, row
    from streams.bench.plot import refuse_without_matplotlib

    if picture is not None:
        refuse_without_matplotlib()
    if not as_json:
        typer.echo(HEAD)
    results = []
    with progress("bench corropt") as bar:
        for outcome in outcomes(
            days=days,
            constraints=_numbers(constraints, "--constraints", most=1),
            mttf_hours=_numbers(mttf_hours, "--mttf-hours"),
            seed=seed,
            on_progress=bar.step,
        ):
            results.append(outcome)
            bar.echo(orjson.dumps(as_dict(outcome)) if as_json else row(outcome, results))
    if picture is not None:
        draw(results, picture)
    if any(outcome.breaches for outcome in results):
        raise typer.Exit(1)


def _numbers(given: str, option: str, most: float | None = None) -> list[float]:
    try:
        numbers = [float(part) for part in given.split(",")]
    except ValueError as error:
        raise typer.BadParameter("numbers separated by commas", param_hint=option) from error
    if any(number <= 0 or (most is not None and number > most) for number in numbers):
        raise typer.BadParameter(f"numbers above 0{f' up to {most:g}' if most else ''}", param_hint=option)
    return numbers
