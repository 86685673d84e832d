"""Defines `railsight near`, `place`, `topology` and `locality`: distances, placements, exports, and their service."""

import asyncio
import logging
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.options import AsJson, Bootstrap, Config, settings_of
from streams.cli.printing import Output, OutputForm, echo, form_of, print_rows, print_text
from streams.fabric.inventory import InvalidInventory, read_folder
from streams.fabric.topology import Topology
from streams.locality.answers import Answer, NeighborAnswer
from streams.locality.distance import UnknownHost
from streams.locality.export.slurm import Plugin
from streams.locality.export.write import FORMATS, Format, export_text
from streams.locality.groups import Groups
from streams.locality.model import Knowledge, Locality
from streams.locality.placement import MAX_GPUS
from streams.locality.placement import place as find_sets
from streams.report.locality.reader import read_locality
from streams.report.locality.render import NEAR_COLUMNS, distance_lines, gpu_lines, near_cells, placement_lines
from streams.runtime import inventory_reader
from streams.wire.errors import Misconfigured
from streams.wire.topics import READER

InventoryFolder = Annotated[
    Path | None,
    typer.Option("--inventory", metavar="DIR", help="Use this folder, without findings, in place of Kafka."),
]


def locality_from(folder: Path | None, config: Path | None, bootstrap: str | None) -> Locality:
    """Return the present locality; raises Misconfigured for a folder with errors, Retry if Kafka does not answer."""
    if folder is None:
        # The log line about the inventory in effect is for services, not for a command's output.
        logging.getLogger(inventory_reader.__name__).setLevel(logging.WARNING)
        return asyncio.run(read_locality(settings_of(config, bootstrap, READER).kafka, time.time_ns))
    print_text(f"railsight: {folder} has no findings: only its maintenance is known", err=True)
    try:
        topology = Topology(read_folder(folder))
    except InvalidInventory as error:
        raise Misconfigured("\n".join(error.problems)) from error
    return Locality(Groups(topology), Knowledge(), time.time_ns())


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
    distances = locality_from(inventory, config, bootstrap).distances
    try:
        if not to:
            found = distances.near(host, limit)
            empty = f"no host is connected with {host}"
            print_rows(form, found, NeighborAnswer.model_dump_json, NEAR_COLUMNS, near_cells, empty)
        elif ":" in host or ":" in to:
            gpus = distances.between_gpus(_gpu(host), _gpu(to))
            _print(gpus, gpu_lines(gpus), form is Output.JSON)
        else:
            distance = distances.between(host, to)
            _print(distance, distance_lines(distance), form is Output.JSON)
    except UnknownHost as error:
        raise Misconfigured(str(error)) from error


def _print(answer: Answer, lines: Iterable[str], as_json: bool) -> None:
    for line in [answer.model_dump_json()] if as_json else lines:
        echo(line)


def _gpu(name: str) -> tuple[str, int]:
    host, separator, number = name.rpartition(":")
    if not separator or not number.isdecimal():
        raise Misconfigured(f"{name} is no GPU; write HOST:NUMBER, numbered from 0, for both ends")
    return host, int(number)


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
    _print(found, placement_lines(found), as_json)
    if not found.sets:
        raise typer.Exit(1)


topology = typer.Typer(no_args_is_help=True, help="Write the topology for schedulers.")


@topology.callback()
def _topology() -> None:
    """Make `export` a subcommand, also while it is the only one."""


@topology.command()
def export(
    form: Annotated[Format, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")],
    plugin: Annotated[Plugin, typer.Option(help="Slurm's plugin; of slurm-yaml the default topology.")] = "tree",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write this file; default: standard output.")] = None,
    nodes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Only these hosts, one a line; default: those of the inventory.")
    ] = None,
    inventory: InventoryFolder = None,
    config: Config = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Write topology.conf, topology.yaml, labels of nodes, or JSON; nothing is written if the result is not valid.

    Example: `railsight topology export --format slurm --out topology.conf`.
    """
    locality = locality_from(inventory, config, bootstrap)
    params = settings_of(config, bootstrap).locality
    text, notes = export_text(locality.state, form, plugin, params, None if nodes is None else _read(nodes))
    for note in notes:
        print_text(f"railsight topology: {note}", err=True)
    if out is None:
        sys.stdout.write(text)
        return
    try:
        # Writes atomically, so that a reader never gets a part of the file.
        part = out.with_name(f".{out.name}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(out)
    except OSError as error:
        raise Misconfigured(f"{out}: {error.strerror}") from error


def _read(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path}: {error}") from error
    # `kubectl get nodes -o name` prints a prefix.
    return [line.strip().removeprefix("node/") for line in lines if line.strip()]
