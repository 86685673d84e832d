"""`railsight bench gnmi`: from a switch's stream to Kafka, compared with a plain client, in one run."""

from typing import Annotated

import typer

_MANY, _WHAT = 1_000_000, "updates"


def gnmi(
    updates: Annotated[int, typer.Option(min=50_000, help="The number of updates that each client reads.")] = 500_000,
    times: Annotated[int, typer.Option(min=1, max=20, help="The number of runs; a client's cheapest counts.")] = 3,
    bootstrap: Annotated[str, typer.Option(help="Kafka to write to; default: a broker of its own.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the CPU of reading a switch by gNMI, from the socket to Kafka, beside a client that walks paths.

    Example: `railsight bench gnmi --updates 100000`.
    """
    import orjson

    from lab.bench.collector_costs import as_dict, lines
    from lab.bench.gnmi.compare import compare

    costs = compare(updates, times, bootstrap)
    if as_json:
        typer.echo(orjson.dumps(as_dict(costs, _MANY, _WHAT)))
        return
    for line in lines(costs, _MANY, _WHAT):
        typer.echo(line)
