"""The locality that a command works on: from Kafka, or from a folder of the inventory alone."""

import asyncio
import logging
import time
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.options import settings_of
from streams.cli.printing import print_text
from streams.fabric.inventory import InvalidInventory, read_folder
from streams.fabric.topology import Topology
from streams.locality.groups import Groups
from streams.locality.model import Knowledge, Locality
from streams.report.locality.reader import read_locality
from streams.runtime import inventory_reader
from streams.wire.access import READER
from streams.wire.errors import Misconfigured

InventoryFolder = Annotated[
    Path | None,
    typer.Option("--inventory", metavar="DIR", help="Use this folder, without findings, in place of Kafka."),
]


def locality_from(folder: Path | None, config: Path | None, bootstrap: str | None) -> Locality:
    """Return the locality now; raises Misconfigured for a folder with errors, Retry where Kafka does not answer."""
    if folder is None:
        # That an inventory is in effect is news to a process that goes on, and noise before an answer.
        logging.getLogger(inventory_reader.__name__).setLevel(logging.WARNING)
        return asyncio.run(read_locality(settings_of(config, bootstrap, READER).kafka, time.time_ns))
    print_text(f"railsight: {folder} has no findings: only its maintenance is known", err=True)
    try:
        topology = Topology(read_folder(folder))
    except InvalidInventory as error:
        raise Misconfigured("\n".join(error.problems)) from error
    return Locality(Groups(topology), Knowledge(), time.time_ns())
