"""`railsight inventory`: generates the folder of a Clos fabric, checks one, or publishes it as one version."""

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import orjson
import typer

from streams.cli.options import AsJson, Bootstrap, Config, settings_of
from streams.fabric.checks import Problem
from streams.fabric.inventory import Inventory, digest, validate, write_folder
from streams.runtime.topic_writer import inventory_records, publish
from streams.simulation.clos import GPUS_PER_JOB, GenerateParams, ImpossibleFabric
from streams.simulation.clos import generate as generate_clos
from streams.wire.errors import Misconfigured

inventory = typer.Typer(no_args_is_help=True, help="Generate, check or publish an inventory.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder with devices, links, optionally ports and jobs.")]


_SIZE = GenerateParams(gpus=1)


@inventory.command()
def generate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write devices, links and jobs to.")],
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of the fabric.")],
    radix: Annotated[int, typer.Option(min=2, help="Ports of a switch.")] = _SIZE.radix,
    planes: Annotated[int, typer.Option(min=1, help="Planes: a NIC has a port in each.")] = _SIZE.planes,
    rails: Annotated[int, typer.Option(min=1, help="Rails: NICs of a host.")] = _SIZE.rails,
    gpus_per_host: Annotated[int, typer.Option(min=1, help="GPUs of a host.")] = _SIZE.gpus_per_host,
    jobs: Annotated[
        int | None, typer.Option(min=0, help=f"Jobs that share the hosts; default: one for each {GPUS_PER_JOB} GPUs.")
    ] = None,
    form: Annotated[Literal["csv", "parquet"], typer.Option("--format", help="csv or parquet.")] = "csv",
    as_json: AsJson = False,
) -> None:
    """Generate a rail-optimised Clos fabric with as few tiers as the radix allows."""
    params = GenerateParams(gpus=gpus, radix=radix, planes=planes, rails=rails, gpus_per_host=gpus_per_host, jobs=jobs)
    try:
        made = generate_clos(params)
    except ImpossibleFabric as error:
        raise Misconfigured(str(error)) from error
    write_folder(made, folder, form)
    _print_summary(made, folder, "generated", as_json)


@inventory.command()
def check(folder: Folder, as_json: AsJson = False) -> None:
    """Check an inventory and print every error and contradiction in it; exit 1 if there are any."""
    examined = validate(folder, time.time_ns())
    if not examined.problems:
        _print_summary(examined.inventory, folder, "fine", as_json)
        return
    if as_json:
        typer.echo(orjson.dumps({"inventory": str(folder), "is": "wrong", "problems": _plain(examined.problems)}))
    _print_problems(examined.problems)
    raise typer.Exit(1)


@inventory.command()
def apply(
    folder: Folder,
    config: Config = None,
    bootstrap: Bootstrap = None,
    effective: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%dT%H:%M:%S%z"], help="Event time at which it takes effect; default: now."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check an inventory and publish it as one version.

    An impossible inventory is refused. Contradictions, which may exist while a fabric is built, are printed.
    """
    kafka = settings_of(config, bootstrap).kafka
    read = _read_valid(folder)
    at_ns = time.time_ns() if effective is None else round(effective.timestamp() * 1e9)
    asyncio.run(publish(kafka, inventory_records(read, at_ns)))
    _print_summary(read, folder, "published", as_json)


def _read_valid(folder: Path) -> Inventory:
    examined = validate(folder, time.time_ns())
    _print_problems(examined.problems)
    if examined.errors:
        raise typer.Exit(1)
    return examined.inventory


def _print_problems(problems: Sequence[Problem]) -> None:
    for problem in problems:
        typer.echo(f"railsight inventory: {problem}", err=True)


def _plain(problems: Sequence[Problem]) -> list[dict[str, object]]:
    return [problem._asdict() for problem in problems]


def _print_summary(inventory: Inventory, folder: Path, what: str, as_json: bool) -> None:
    fields = {
        "inventory": str(folder),
        "digest": digest(inventory),
        "devices": len(inventory.devices),
        "links": len(inventory.links),
    }
    if as_json:
        typer.echo(orjson.dumps(fields | {"is": what}))
    else:
        typer.echo(f"{folder}: {what}; {fields['devices']} devices, {fields['links']} links, digest {fields['digest']}")
