"""Numbers the devices, ports and links of an inventory, for simulations that compute with arrays.

A switch has the ports that the inventory connects, in the order of their numbers.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory, Link
from streams.fabric.inventory_rows import HOST_LINK


@dataclass(frozen=True)
class FabricArrays:
    """Devices by number, each with its ports; a port's number is its device's `first_port` plus its row."""

    devices: tuple[str, ...]
    is_host: tuple[bool, ...]
    ports: tuple[tuple[str, ...], ...]
    links: npt.NDArray[np.int64]
    """Shape (links, 2): the numbers of the ports at both ends, the lower end first."""

    @cached_property
    def port_counts(self) -> npt.NDArray[np.int64]:
        """Return the number of ports of each device."""
        return np.fromiter((len(ports) for ports in self.ports), np.int64, len(self.ports))

    @cached_property
    def first_port(self) -> npt.NDArray[np.int64]:
        """Return the number of each device's first port."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.port_counts)[:-1]])

    @cached_property
    def owner(self) -> npt.NDArray[np.int64]:
        """Return the number of each port's device."""
        return np.repeat(np.arange(len(self.devices)), self.port_counts)

    @cached_property
    def links_of(self) -> dict[int, list[int]]:
        """Return the links of each device."""
        found: dict[int, list[int]] = defaultdict(list)
        for link, ends in enumerate(self.ends.tolist()):
            for device in ends:
                found[device].append(link)
        return found

    @cached_property
    def ends(self) -> npt.NDArray[np.int64]:
        """Return the devices at both ends of each link."""
        return self.owner[self.links]

    def links_at(self, device: int) -> list[int]:
        """Return the links of one device; use it if a table of all devices' links needs too much memory."""
        found: list[int] = np.flatnonzero((self.ends == device).any(axis=1)).tolist()
        return found

    @cached_property
    def _device_numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.devices)}

    @cached_property
    def _link_numbers(self) -> dict[int, int]:
        return {lower: number for number, lower in enumerate(self.links[:, 0].tolist())}

    @cached_property
    def _row_numbers(self) -> dict[tuple[str, ...], dict[str, int]]:
        return {rows: {name: number for number, name in enumerate(rows)} for rows in set(self.ports)}

    def device_number(self, name: str) -> int:
        """Return the number of a device."""
        return self._device_numbers[name]

    def port_number(self, port: Port) -> int:
        """Return the number of a port."""
        device = self._device_numbers[port.device]
        return int(self.first_port[device]) + self._row_numbers[self.ports[device]][port.port]

    def link_number(self, link: Link) -> int:
        """Return the number of a link."""
        return self._link_numbers[self.port_number(link.a)]

    def link(self, number: int) -> Link:
        """Return a link by its number, with its ends."""
        lower, upper = (self.port(port) for port in self.links[number].tolist())
        is_host = self.is_host[self.device_number(lower.device)]
        return Link(*lower, *upper, HOST_LINK if is_host else "fabric-link")

    @property
    def port_count(self) -> int:
        """Return the number of ports."""
        return sum(len(ports) for ports in self.ports)

    def device_of(self, port: int) -> int:
        """Return the number of a port's device."""
        return int(self.owner[port])

    def port(self, number: int) -> Port:
        """Return a port by its number."""
        device = self.device_of(number)
        return Port(self.devices[device], self.ports[device][number - int(self.first_port[device])])


def fabric_arrays(inventory: Inventory) -> FabricArrays:
    """Return the arrays of an inventory, without devices that have no link."""
    ports: dict[str, set[str]] = defaultdict(set)
    for link in inventory.links:
        ports[link.a_device].add(link.a_port)
        ports[link.z_device].add(link.z_port)
    devices = [device for device in inventory.devices if device.name in ports]
    rows = _sorted_rows([ports[device.name] for device in devices])
    number: dict[tuple[str, str], int] = {}
    for device, names in zip(devices, rows, strict=True):
        for name in names:
            number[device.name, name] = len(number)
    links = [(number[link.a_device, link.a_port], number[link.z_device, link.z_port]) for link in inventory.links]
    return FabricArrays(
        tuple(device.name for device in devices),
        tuple(device.kind == "host" for device in devices),
        tuple(rows),
        np.array(links, np.int64).reshape(len(links), 2),
    )


def _sorted_rows(ports: list[set[str]]) -> list[tuple[str, ...]]:
    """Return the ports of each device in the order of their numbers; devices of one model share one tuple."""
    cached: dict[frozenset[str], tuple[str, ...]] = {}
    rows = []
    for of_device in ports:
        names = frozenset(of_device)
        if names not in cached:
            cached[names] = tuple(sorted(names, key=_numeric_order))
        rows.append(cached[names])
    return rows


def _numeric_order(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def rows_digest(rows: Sequence[str]) -> int:
    """Return the collectors' digest of row names: 64 bits of BLAKE2b over the names, each ended by a NUL."""
    digest = hashlib.blake2b(b"".join(row.encode() + b"\0" for row in rows), digest_size=8)
    return int.from_bytes(digest.digest(), "little")
