"""`railsight bench calibration`: the confidence of findings against how many of them are true."""

from pathlib import Path
from typing import Annotated

import typer


def calibration(
    results: Annotated[list[Path], typer.Argument(help="Results of `railsight bench detection --json`.")],
    plot: Annotated[Path | None, typer.Option(help="Write the plot to this SVG file.")] = None,
) -> None:
    """Print how many findings of each confidence are true, over detection trials, as a Markdown table.

    Example: `railsight bench calibration results.json --plot calibration.svg`.
    """
    from lab.bench.detection import calibration as own
    from lab.bench.detection.results import read_results

    shares = own.summed(read_results(results))
    for line in own.table(shares):
        typer.echo(line)
    if plot is not None:
        plot.write_text(own.plot(shares), encoding="utf-8")
