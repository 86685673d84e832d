"""`railsight bench queries`: times the queries of boards over rollups of a day and of a week."""

from typing import Annotated

import typer

from streams.cli.options import AsJson
from streams.cli.progress import progress


def queries(
    gpus: Annotated[int, typer.Option(min=8, help="Size of the fabric of the day in GPUs.")] = 2048,
    share: Annotated[
        float, typer.Option(min=0.001, max=1, help="Share of the largest fabric's ports in the week.")
    ] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Fill rollups and time queries; exit 1 if one takes longer than 1 s over the day or 2 s over the week.

    Example: `railsight bench queries --gpus 256 --share 0.05`.
    """
    import orjson

    from lab.bench.machine import machine_info
    from lab.bench.query_times import measure, table_lines

    with progress("bench queries"):
        found = measure(gpus, share)
    if as_json:
        typer.echo(orjson.dumps(found))
    else:
        typer.echo(machine_info())
        for line in table_lines(found):
            typer.echo(line)
    if not found.is_passed:
        raise typer.Exit(1)
