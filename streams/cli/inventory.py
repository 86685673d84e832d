"""`railsight inventory`: say what is wrong with an inventory folder, or publish it as one version."""

import asyncio
import time
from datetime import datetime
from pathlib import Path
from typing import Annotated

import orjson
import typer

from streams.cli.options import AsJson, Bootstrap, Config, settings_of
from streams.cli.publishing import publish
from streams.fabric.inventory import InvalidInventory, Inventory, digest, read_folder
from streams.wire.inventory_topic import to_chunks
from streams.wire.topics import INVENTORY, Record, encode

inventory = typer.Typer(no_args_is_help=True, help="Check an inventory folder, or publish it.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder with devices, links, and perhaps ports and jobs.")]


@inventory.command()
def check(folder: Folder, as_json: AsJson = False) -> None:
    """Say what is wrong with an inventory, all at once; exit 1 if anything is."""
    _say(_read(folder), folder, "fine", as_json)


@inventory.command()
def apply(
    folder: Folder,
    config: Config = None,
    bootstrap: Bootstrap = None,
    effective: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%dT%H:%M:%S%z"], help="Event time from which it holds; default: now."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check an inventory and publish it as one version."""
    kafka = settings_of(config, bootstrap).kafka
    read = _read(folder)
    at_ns = time.time_ns() if effective is None else round(effective.timestamp() * 1e9)
    asyncio.run(publish(kafka, records_of(read, at_ns)))
    _say(read, folder, "published", as_json)


def records_of(read: Inventory, effective_ns: int) -> list[Record]:
    """The records of one version that holds from `effective_ns`."""
    return [encode(INVENTORY, chunk) for chunk in to_chunks(read, effective_ns)]


def _read(folder: Path) -> Inventory:
    try:
        return read_folder(folder)
    except InvalidInventory as error:
        for problem in error.problems:
            typer.echo(f"railsight inventory: {problem}", err=True)
        raise typer.Exit(1) from error


def _say(read: Inventory, folder: Path, what: str, as_json: bool) -> None:
    said = {"inventory": str(folder), "digest": digest(read), "devices": len(read.devices), "links": len(read.links)}
    if as_json:
        typer.echo(orjson.dumps(said | {"is": what}))
    else:
        typer.echo(f"{folder}: {what}; {said['devices']} devices, {said['links']} links, digest {said['digest']}")
