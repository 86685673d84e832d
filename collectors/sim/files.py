"""The files that a simulated fabric leaves for others: its inventory, its targets, its truth."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from collectors.sim.faults import Truth
from streams.fabric.inventory import Inventory, write_folder


class Files(NamedTuple):
    """Where they are."""

    inventory: Path
    targets: Path
    truth: Path


def write(folder: Path, inventory: Inventory, addresses: Mapping[str, str], truth: Sequence[Truth]) -> Files:
    """Write all of them; the targets last, so that whoever waits for those finds the rest."""
    files = Files(folder / "inventory", folder / "targets.json", folder / "truth.csv")
    write_folder(inventory, files.inventory)
    _write_csv(files.truth, list(Truth._fields), [row._asdict() for row in truth])
    fresh = files.targets.with_suffix(".new")
    fresh.write_bytes(orjson.dumps([{"name": name, "address": address} for name, address in addresses.items()]))
    fresh.replace(files.targets)
    return files


def _write_csv(path: Path, columns: list[str], rows: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
