"""`railsight bench decide`: measures one decision with the states of all links of a fabric."""

from typing import Annotated

import typer

from streams.cli.options import AsJson
from streams.cli.progress import progress


def decide(
    gpus: Annotated[int, typer.Option(min=1, help="Size of the fabric in GPUs.")] = 131_072,
    decisions: Annotated[int, typer.Option(min=1, help="Decisions of each kind.")] = 300,
    down: Annotated[float, typer.Option(min=0, max=1, help="Share of the links that are down.")] = 0.001,
    unobserved: Annotated[float, typer.Option(min=0, max=1, help="Share of the devices without observation.")] = 0.001,
    isolated: Annotated[int, typer.Option(min=0, help="Links that earlier decisions isolated.")] = 10,
    approvals: Annotated[int, typer.Option(min=0, help="Approvals that are open when a control arrives.")] = 300,
    as_json: AsJson = False,
) -> None:
    """Time decisions on links and hosts, with all guards; exit 1 if one costs more than 10 ms (99th percentile), or one
    control with 300 open approvals more than 100 ms.

    Example: `railsight bench decide --gpus 2048`.
    """
    import orjson

    from lab.bench.decide_cost import Options, measure, table_lines
    from lab.bench.machine import machine_info

    with progress("bench decide"):
        cost = measure(Options(gpus, decisions, down, unobserved, isolated, approvals))
    if as_json:
        typer.echo(orjson.dumps(cost))
    else:
        typer.echo(machine_info())
        for line in table_lines(cost):
            typer.echo(line)
    if not cost.is_passed:
        raise typer.Exit(1)
