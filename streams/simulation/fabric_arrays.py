"""Which devices, ports and links the load generator plays: an inventory as names and arrays, and as a file.

A switch's ports are those that the inventory wires, in the order of their numbers; what they count is group.py's.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streams.fabric.inventory import Inventory


@dataclass(frozen=True, slots=True)
class FabricArrays:
    """Devices by number, each with its ports; a port's number is its device's `first_port` and its row."""

    devices: tuple[str, ...]
    is_host: tuple[bool, ...]
    ports: tuple[tuple[str, ...], ...]
    links: npt.NDArray[np.int64]
    """Shape (links, 2): the numbers of the ports at both ends."""

    @property
    def first_port(self) -> npt.NDArray[np.int64]:
        """The number of each device's first port."""
        heights = np.fromiter((len(ports) for ports in self.ports), np.int64, len(self.ports))
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(heights)[:-1]])

    @property
    def port_count(self) -> int:
        """How many ports there are."""
        return sum(len(ports) for ports in self.ports)


def fabric_arrays(inventory: Inventory) -> FabricArrays:
    """The plant of an inventory; devices without a link are left out."""
    ports: dict[str, set[str]] = defaultdict(set)
    for link in inventory.links:
        ports[link.a_device].add(link.a_port)
        ports[link.z_device].add(link.z_port)
    devices = [device for device in inventory.devices if device.name in ports]
    rows = _sorted_rows([ports[device.name] for device in devices])
    number: dict[tuple[str, str], int] = {}
    for device, own in zip(devices, rows, strict=True):
        for row in own:
            number[device.name, row] = len(number)
    links = [(number[link.a_device, link.a_port], number[link.z_device, link.z_port]) for link in inventory.links]
    return FabricArrays(
        tuple(device.name for device in devices),
        tuple(device.kind == "host" for device in devices),
        tuple(rows),
        np.array(links, np.int64).reshape(len(links), 2),
    )


def _sorted_rows(ports: list[set[str]]) -> list[tuple[str, ...]]:
    """The ports of each device in the order of their numbers; devices of one model share one tuple."""
    known: dict[frozenset[str], tuple[str, ...]] = {}
    rows = []
    for own in ports:
        names = frozenset(own)
        if names not in known:
            known[names] = tuple(sorted(names, key=_by_number))
        rows.append(known[names])
    return rows


def _by_number(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def rows_digest(rows: Sequence[str]) -> int:
    """As the collectors have it: 64 bits of BLAKE2b over the names, each ended by a NUL."""
    digest = hashlib.blake2b(b"".join(row.encode() + b"\0" for row in rows), digest_size=8)
    return int.from_bytes(digest.digest(), "little")
