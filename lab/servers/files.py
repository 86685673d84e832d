"""Writes the files of a simulated fabric: its inventory, the addresses of its devices, its ground truth."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from lab.world.bad_links import BadLinkState
from lab.world.ground_truth import TruthRow
from streams.fabric.inventory import Inventory, write_folder

REPAIRS = "repairs.json"
"""The file with the address of the repair server (repair_server.py), if there is one."""
BAD_LINKS = "bad-links.json"
TRUTH = "truth.csv"
TARGETS = "targets.json"
SNMP_TARGETS = "snmp-targets.json"


class HostFiles(NamedTuple):
    """The paths for the collectors of one host: `root` for sysfs and procfs, `ethtool_dir`, and `kernel_log`."""

    root: Path | None = None
    ethtool_dir: Path | None = None
    kernel_log: Path | None = None


class Endpoints(NamedTuple):
    """The addresses of devices by name; empty for an interface that was not started."""

    gnmi: Mapping[str, str] = {}
    snmp: Mapping[str, str] = {}
    hosts: Mapping[str, HostFiles] = {}


class Files(NamedTuple):
    """The paths of the files."""

    inventory: Path
    targets: Path
    snmp_targets: Path
    hosts: Path
    truth: Path


def write(folder: Path, inventory: Inventory, endpoints: Endpoints, truth: Sequence[TruthRow]) -> Files:
    """Write all files; the targets last, so that a process that waits for them finds the other files."""
    files = Files(
        folder / "inventory", folder / TARGETS, folder / SNMP_TARGETS, folder / "hosts.json",
        folder / TRUTH,
    )  # fmt: skip
    write_folder(inventory, files.inventory)
    write_truth(folder, truth)
    _write_json(files.hosts, [
        {"name": name} | {key: str(path.resolve()) for key, path in host._asdict().items() if path is not None}
        for name, host in endpoints.hosts.items()
    ])  # fmt: skip
    _write_json(files.snmp_targets, _targets(endpoints.snmp))
    _write_json(files.targets, _targets(endpoints.gnmi))
    return files


def write_truth(folder: Path, truth: Sequence[TruthRow]) -> None:
    """Write the truth file atomically: a reader sees the old or the new content."""
    fresh = folder / "truth.new"
    _write_csv(fresh, list(TruthRow._fields), [row._asdict() for row in truth])
    fresh.replace(folder / TRUTH)


def write_repairs(folder: Path, address: str) -> None:
    """Write the address of the repair server."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / REPAIRS, {"address": address})


def write_bad_links(folder: Path, states: Iterable[BadLinkState]) -> None:
    """Write the truth about bad links: the ends of each, the time when it was bad, its episodes, and its repairs."""
    _write_json(folder / BAD_LINKS, [
        {
            "a": list(state.bad.link.a), "z": list(state.bad.link.z), "bad_part": state.bad.part.name,
            "since": state.bad.episodes[0].start_ns, "until": state.bad.last_ns, "cured": state.cured_ns,
            "episodes": [episode[0].start_ns for episode in state.episodes],
            "repairs": [
                {"at": repair.at_ns, "part": repair.part.name, "is_cure": repair.is_cure} for repair in state.repairs
            ],
        }
        for state in states
    ])  # fmt: skip


def _targets(addresses: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "address": address} for name, address in addresses.items()]


def _write_json(path: Path, content: object) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_bytes(orjson.dumps(content))
    fresh.replace(path)


def _write_csv(path: Path, columns: list[str], rows: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
