"""`railsight near HOST`: lists the hosts near one, or prints the distance to another host or GPU."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from streams.cli.locality_source import InventoryFolder, locality_from
from streams.cli.options import AsJson, Bootstrap, Config
from streams.cli.printing import echo
from streams.cli.tables import Output, OutputForm, form_of, print_table
from streams.locality.answers import Answer, DistanceAnswer, GpuDistanceAnswer, NeighborAnswer
from streams.locality.distance import Distances, UnknownHost
from streams.report.locality.render import NEAR_COLUMNS, distance_lines, gpu_lines, near_cells
from streams.wire.errors import Misconfigured


def near(
    host: Annotated[str, typer.Argument(metavar="HOST", help="A host of the inventory, or HOST:GPU.")],
    to: Annotated[str, typer.Option("--to", metavar="HOST", help="Print the distance to this host or HOST:GPU.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Number of hosts.")] = 20,
    inventory: InventoryFolder = None,
    config: Config = None,
    bootstrap: Bootstrap = None,
    output: OutputForm = Output.TABLE,
    as_json: AsJson = False,
) -> None:
    """List the nearest hosts with the capacity that is left; exit 2 for an unknown host.

    Examples: `railsight near pod1-host1 --limit 5`, `railsight near pod1-host1 --to pod1-host2`.
    """
    form = form_of(output, as_json)
    is_json = form is Output.JSON
    distances = locality_from(inventory, config, bootstrap).distances
    try:
        if not to:
            _print_near(distances, host, limit, form)
        elif ":" in host or ":" in to:
            gpus = distances.between_gpus(_gpu(host), _gpu(to))
            _print(gpu_lines(gpus), [GpuDistanceAnswer.model_validate(gpus)] if is_json else None)
        else:
            distance = distances.between(host, to)
            _print(distance_lines(distance), [DistanceAnswer.model_validate(distance)] if is_json else None)
    except UnknownHost as error:
        raise Misconfigured(str(error)) from error


def _print_near(distances: Distances, host: str, limit: int, form: Output) -> None:
    found = distances.near(host, limit)
    if form is Output.JSON:
        _print((), [NeighborAnswer.model_validate(each) for each in found])
    elif found:
        print_table(NEAR_COLUMNS, map(near_cells, found), form)
    else:
        typer.echo(f"no host is connected with {host}")


def _gpu(name: str) -> tuple[str, int]:
    host, separator, number = name.rpartition(":")
    if not separator or not number.isdecimal():
        raise Misconfigured(f"{name} is no GPU; write HOST:NUMBER, numbered from 0, for both ends")
    return host, int(number)


def _print(lines: Iterable[str], answers: Sequence[Answer] | None) -> None:
    for line in lines if answers is None else (answer.model_dump_json() for answer in answers):
        echo(line)
