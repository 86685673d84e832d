"""Holds the tables of an inventory for the rules, and the problems that rules report.

Converts names to numbers once, so that a rule over 393,216 links is array arithmetic. Single rows are read only where a
rule finds a problem.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from operator import itemgetter
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streams.fabric.inventory_rows import HOST_LINK, Device, Inventory, Link
from streams.instrument.text import clean

Rule = Literal[
    "alias-of-an-alias",
    "alias-of-two-ports",
    "asymmetric-plane",
    "control-character",
    "device-id-twice",
    "device-listed-twice",
    "device-serial-twice",
    "job-ends-before-it-starts",
    "job-on-a-switch",
    "job-twice-on-a-host",
    "kind-against-tier",
    "link-between-hosts",
    "link-id-twice",
    "link-within-a-device",
    "no-devices",
    "no-links",
    "overlapping-maintenance",
    "plane-against-switch",
    "port-in-two-links",
    "rail-used-twice",
    "role-against-ends",
    "switch-with-gpus",
    "unknown-device",
    "unreadable",
    "unreadable-row",
    "wrong-columns",
]
"""The rules; docs/inventory.md documents each."""

_MOST_ROWS = 12
"""The most row numbers in a line of text; JSON has all of them."""


class Problem(NamedTuple):
    """One problem; `rows` count from 1 and do not count the header of a CSV file."""

    table: str
    rows: tuple[int, ...]
    rule: Rule
    message: str
    is_error: bool = False
    """True if a pipeline cannot run with it."""
    column: str = ""
    """The column of a single wrong value."""

    def __str__(self) -> str:
        """Return one line, whatever the names in it are."""
        return clean(self._line())

    def _line(self) -> str:
        if not self.table:
            return self.message
        if not self.rows:
            return f"{self.table}: {self.message}"
        rows = f"{'row' if len(self.rows) == 1 else 'rows'} {join_names(self.rows, _MOST_ROWS)}"
        return f"{self.table} {rows}{self.column and ', ' + self.column}: {self.message}"


def join_names(values: Sequence[object], most: int = 4) -> str:
    """Join the first `most` values, and append the number of the others."""
    names = ", ".join(map(str, values[:most]))
    return names if len(values) <= most else f"{names} and {len(values) - most} more"


Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

ABSENT = -1
"""The plane or rail of a row that specifies none."""


@dataclass(frozen=True)
class Tables:
    """The tables of an inventory to be checked.

    `row_numbers` has the row numbers of a table with unreadable rows. `unreadable_devices` has the devices of such
    rows, so that rows that name them are not reported as unknown. Maintenance that ends before `now_ns` is ignored.
    """

    inventory: Inventory
    now_ns: int = 0
    row_numbers: Mapping[str, Sequence[int]] = field(default_factory=dict)
    unreadable_devices: Collection[str] = ()

    @property
    def is_complete(self) -> bool:
        """True if every row of devices and links was readable; only then is an absent row missing."""
        return "devices" not in self.row_numbers and "links" not in self.row_numbers

    def row(self, table: str, index: int) -> int:
        """Return the number of a row, from 1."""
        numbers = self.row_numbers.get(table)
        return index + 1 if numbers is None else numbers[index]

    def rows(self, table: str, indexes: Sequence[int] | Ints) -> tuple[int, ...]:
        """Return the numbers of rows, sorted."""
        return tuple(self.row(table, int(index)) for index in sorted(indexes))

    @cached_property
    def index(self) -> dict[str, int]:
        """Return the index of each device in its table; the first one for a duplicate name."""
        index: dict[str, int] = {}
        for number, device in enumerate(self.inventory.devices):
            index.setdefault(device.name, number)
        return index

    def is_known(self, device: str) -> bool:
        """Return whether the table of devices contains a device, readable or not."""
        return device in self.index or device in self.unreadable_devices

    def find_device(self, name: str) -> Device | None:
        """Return the row of a device."""
        found = self.index.get(name)
        return None if found is None else self.inventory.devices[found]

    def device_column(self, value_of: Callable[[Device], int | None]) -> Ints:
        """Return a number for each device, and ABSENT as the last entry for unknown devices."""
        values = [ABSENT if (value := value_of(device)) is None else value for device in self.inventory.devices]
        return np.array([*values, ABSENT], np.int64)

    @cached_property
    def is_host(self) -> Mask:
        """Return a mask of the hosts over devices; the last entry is for unknown devices."""
        return np.array([*(device.kind == "host" for device in self.inventory.devices), False])

    @cached_property
    def plane_of(self) -> Ints:
        """Return the plane of each device, or ABSENT."""
        return self.device_column(lambda device: device.plane)

    @cached_property
    def links(self) -> "Links":
        """Return the table of links as arrays."""
        return Links(self)

    def describe_link(self, index: int) -> str:
        """Return the description of a link for a message."""
        link = self.inventory.links[index]
        return f"{link.a_device}/{link.a_port} to {link.z_device}/{link.z_port}"


class Links:
    """The columns of the links. Devices are indexes; unknown devices are ABSENT, which selects the last entry."""

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
        """Return a mask of the links with the role `host-link`."""
        return np.fromiter((link.role == HOST_LINK for link in self._rows), np.bool_, len(self._rows))

    @cached_property
    def rail(self) -> Ints:
        """Return the rail that the table specifies, or ABSENT."""
        return self._numbers(Link._fields.index("rail"))

    @cached_property
    def own_plane(self) -> Ints:
        """Return the plane that the table specifies, or ABSENT."""
        return self._numbers(Link._fields.index("plane"))

    @cached_property
    def plane(self) -> Ints:
        """Return the plane of each link, else the plane of a switch at its ends."""
        value_of = self._tables.plane_of
        switch = np.where(value_of[self.z] != ABSENT, value_of[self.z], value_of[self.a])
        return np.where(self.own_plane != ABSENT, self.own_plane, switch)

    @cached_property
    def host(self) -> Ints:
        """Return the host of each link between a known host and a known switch, else ABSENT."""
        is_host, known = self._tables.is_host, (self.a >= 0) & (self.z >= 0)
        host = np.where(is_host[self.a], self.a, self.z)
        return np.where(known & (is_host[self.a] != is_host[self.z]), host, ABSENT)


def duplicate_groups(keys: Ints) -> Iterator[Ints]:
    """Yield the indexes of each key that occurs more than once."""
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
    """Return one number per row that combines the columns; only equal rows have equal numbers."""
    key = np.zeros_like(columns[0])
    for column in columns:
        low = int(column.min(initial=0))
        key = key * (int(column.max(initial=0)) - low + 1) + (column - low)
    return key
