"""`railsight bench locality`: times distances, placements and exports of a large fabric with findings."""

from typing import Annotated

import typer

from streams.cli.options import AsJson
from streams.cli.progress import progress


def locality(
    gpus: Annotated[int, typer.Option(min=64, help="Size of the fabric in GPUs.")] = 131_072,
    placed_gpus: Annotated[int, typer.Option(min=1, help="GPUs of the job to place.")] = 1024,
    queries: Annotated[int, typer.Option(min=1, help="Distances to time.")] = 1000,
    impaired: Annotated[float, typer.Option(min=0, max=1, help="Share of links and hosts with a finding.")] = 0.001,
    as_json: AsJson = False,
) -> None:
    """Time the locality; exit 1 if a distance takes more than 1 ms, a placement 1 s, or an export 10 s.

    Example: `railsight bench locality --gpus 2048 --placed-gpus 256`.
    """
    import orjson

    from lab.bench.locality_cost import Options, measure, table_lines
    from lab.bench.machine import machine_info

    with progress("bench locality"):
        cost = measure(Options(gpus, placed_gpus, queries, impaired))
    if as_json:
        typer.echo(orjson.dumps(cost))
    else:
        typer.echo(machine_info())
        for line in table_lines(cost):
            typer.echo(line)
    if not cost.is_passed:
        raise typer.Exit(1)
