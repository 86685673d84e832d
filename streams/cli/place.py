"""`railsight place`: ranks sets of hosts for a job by locality and present findings, and gives the reasons."""

from typing import Annotated

import typer

from streams.cli.locality_source import InventoryFolder, locality_from
from streams.cli.options import AsJson, Bootstrap, Config
from streams.cli.printing import echo
from streams.locality.answers import PlacementAnswer
from streams.locality.placement import MAX_GPUS
from streams.locality.placement import place as find_sets
from streams.report.locality.render import placement_lines


def place(
    gpus: Annotated[int, typer.Option(min=1, max=MAX_GPUS, help="GPUs of the job.")],
    sets: Annotated[int, typer.Option(min=1, max=100, help="Number of sets.")] = 3,
    idle: Annotated[bool, typer.Option("--idle", help="Leave out hosts on which a job runs.")] = False,
    doubtful: Annotated[bool, typer.Option("--doubtful", help="Use doubtful hosts after the others.")] = False,
    inventory: InventoryFolder = None,
    config: Config = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Rank sets of hosts, the nearest first, without hosts that a finding concerns; exit 1 if there is no set.

    Example: `railsight place --gpus 64 --idle`.
    """
    locality = locality_from(inventory, config, bootstrap)
    busy = locality.busy_hosts() if idle else {}
    found = find_sets(locality.state, gpus, limit=sets, allow_doubtful=doubtful, busy=busy)
    if as_json:
        echo(PlacementAnswer.model_validate(found).model_dump_json())
    else:
        for line in placement_lines(found):
            echo(line)
    if not found.sets:
        raise typer.Exit(1)
