"""The tables of an inventory as the rules read them: rows with their numbers, and links as arrays of numbers.

Names become numbers once, so that a rule over 393,216 links is array arithmetic, and only the rows in which it finds
something are looked at one by one.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from streams.fabric.inventory_rows import HOST_LINK, Device, Inventory, Link

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

ABSENT = -1
"""Stands for a plane or a rail that no row says."""


@dataclass(frozen=True)
class Tables:
    """An inventory to be checked.

    `numbers` are the row numbers of a table of which some rows could not be read; such devices are in `unread`, so that
    nothing that names one is called unknown. `now_ns` is when maintenance counts as over.
    """

    inventory: Inventory
    now_ns: int = 0
    row_numbers: Mapping[str, Sequence[int]] = field(default_factory=dict)
    unreadable_devices: Collection[str] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every row of devices and links could be read, so that what is not there is missing."""
        return "devices" not in self.row_numbers and "links" not in self.row_numbers

    def row(self, table: str, index: int) -> int:
        """The number of a row, from 1."""
        numbers = self.row_numbers.get(table)
        return index + 1 if numbers is None else numbers[index]

    def rows(self, table: str, indexes: Sequence[int] | Ints) -> tuple[int, ...]:
        """The numbers of rows, in their order."""
        return tuple(self.row(table, int(index)) for index in sorted(indexes))

    @cached_property
    def index(self) -> dict[str, int]:
        """Each device's place in its table; of a name listed twice the first."""
        index: dict[str, int] = {}
        for number, device in enumerate(self.inventory.devices):
            index.setdefault(device.name, number)
        return index

    def is_known(self, device: str) -> bool:
        """Whether the table of devices has it, readable or not."""
        return device in self.index or device in self.unreadable_devices

    def find_device(self, name: str) -> Device | None:
        """The row of a device."""
        found = self.index.get(name)
        return None if found is None else self.inventory.devices[found]

    def device_column(self, of: Callable[[Device], int | None]) -> Ints:
        """A number for each device, and one that is absent at the end: it stands for unknown ones."""
        values = [ABSENT if (value := of(device)) is None else value for device in self.inventory.devices]
        return np.array([*values, ABSENT], np.int64)

    @cached_property
    def is_host(self) -> Mask:
        """Of each device; the last is an unknown one's."""
        return np.array([*(device.kind == "host" for device in self.inventory.devices), False])

    @cached_property
    def plane_of(self) -> Ints:
        """Of each device, or ABSENT."""
        return self.device_column(lambda device: device.plane)

    @cached_property
    def links(self) -> "Links":
        """The table of links as arrays."""
        return Links(self)

    def describe_link(self, index: int) -> str:
        """A link as a line names it."""
        link = self.inventory.links[index]
        return f"{link.a_device}/{link.a_port} to {link.z_device}/{link.z_port}"


class Links:
    """A line for each link; devices by their place in their table, unknown ones as ABSENT (which indexes the last)."""

    def __init__(self, tables: Tables) -> None:
        self._tables, self._rows = tables, tables.inventory.links
        self.a, self.z = self._devices(0), self._devices(2)

    def _devices(self, column: int) -> Ints:
        names = map(itemgetter(column), self._rows)
        return np.fromiter(map(self._tables.index.get, names, repeat(ABSENT)), np.int64, len(self._rows))

    def _numbers(self, column: int) -> Ints:
        return np.array([ABSENT if link[column] is None else link[column] for link in self._rows], np.int64)

    @cached_property
    def is_host_link(self) -> Mask:
        """By its role."""
        return np.fromiter((link.role == HOST_LINK for link in self._rows), np.bool_, len(self._rows))

    @cached_property
    def rail(self) -> Ints:
        """As the table says it."""
        return self._numbers(Link._fields.index("rail"))

    @cached_property
    def own_plane(self) -> Ints:
        """As the table says it."""
        return self._numbers(Link._fields.index("plane"))

    @cached_property
    def plane(self) -> Ints:
        """The link's own, else that of a switch at its ends."""
        of = self._tables.plane_of
        switch = np.where(of[self.z] != ABSENT, of[self.z], of[self.a])
        return np.where(self.own_plane != ABSENT, self.own_plane, switch)

    @cached_property
    def host(self) -> Ints:
        """The host at an end of a link between a host and a switch that are both known, else ABSENT."""
        is_host, known = self._tables.is_host, (self.a >= 0) & (self.z >= 0)
        host = np.where(is_host[self.a], self.a, self.z)
        return np.where(known & (is_host[self.a] != is_host[self.z]), host, ABSENT)


def duplicate_groups(keys: Ints) -> Iterator[Ints]:
    """The places of each key that occurs more than once."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    same = ordered[1:] == ordered[:-1]
    if not same.any():
        return
    starts = np.flatnonzero(np.concatenate(([True], ~same)))
    for start, stop in zip(starts, [*starts[1:], len(keys)], strict=True):
        if stop - start > 1:
            yield order[start:stop]


def combined_key(*columns: Ints) -> Ints:
    """The columns of a row as one number; only equal rows have equal ones."""
    key = np.zeros_like(columns[0])
    for column in columns:
        low = int(column.min(initial=0))
        key = key * (int(column.max(initial=0)) - low + 1) + (column - low)
    return key
