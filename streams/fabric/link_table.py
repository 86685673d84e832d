"""Holds the links of an inventory as columns, numbered by their lower end, and makes a link when it is asked for.

A link as an object takes 0.4 kB, so that the 3.1 million links of 131,072 GPUs on eight planes would take 1.2 GB; as
columns they take 60 bytes each. Links that were asked for are retained up to a bound, because they are asked for again.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from streams.fabric.ids import UNKNOWN_RANK, Port, link_id, tier_rank
from streams.fabric.inventory_rows import CodedColumn, Device, Link, coded_columns

Key = TypeVar("Key")
Value = TypeVar("Value")
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

ABSENT = -1
"""The rail or plane of a link for which the inventory specifies none."""

_MOST_MADE = 1 << 17
"""The number of links, and of their look-ups, that are retained: 90 MB."""


class TopologyLink(NamedTuple):
    """A link of the topology: `lower` is the end nearer to the hosts (ties by name)."""

    id: str
    lower: Port
    upper: Port
    role: str
    rail: int | None
    plane: int | None
    pod: str
    speed_bps: int | None
    is_uplink: bool = True
    """True if the upper end is in a higher tier; False within a tier, and to a device of no tier, such as storage."""

    def far_end(self, port: Port) -> Port:
        """Return the other end."""
        return self.upper if port == self.lower else self.lower


class LinkTable(Sequence[TopologyLink]):
    """The links in the order of their lower ends in the table of devices, then of the table of links.

    `lower` and `upper` are the numbers of devices; `rail` and `plane` may be ABSENT; `role` and `pod` are indices of
    `roles` and `pods`, and `speed` of `speeds`, in bits per second or None. Raises KeyError for an unknown device.
    """

    def __init__(self, devices: Mapping[str, Device], links: Sequence[Link]) -> None:
        a_device, a_port, z_device, z_port, role, rail, plane, speed, row_id, label = coded_columns(links)
        self._devices = tuple(devices)
        self.number: dict[str, int] = {name: number for number, name in enumerate(self._devices)}
        self._ports = tuple(dict.fromkeys((*a_port.values, *z_port.values)))
        self._port_number = {name: number for number, name in enumerate(self._ports)}
        device, port = _numbered(a_device, z_device, self.number), _numbered(a_port, z_port, self._port_number)
        rank = np.array([tier_rank(one.tier) for one in devices.values()], np.int64)
        is_swapped = self._is_swapped(device, port, rank)
        device[:, is_swapped], port[:, is_swapped] = device[::-1, is_swapped], port[::-1, is_swapped]
        order: Ints = np.argsort(device[0], kind="stable")
        self.lower, self.upper = device[:, order]
        self._lower_port, self._upper_port = port[:, order].astype(np.int32)
        self.is_uplink: Mask = (rank[self.lower] != rank[self.upper]) & (rank[self.upper] < UNKNOWN_RANK)
        self.first: Ints = np.searchsorted(self.lower, np.arange(len(self._devices) + 1))
        """The first link of each lower end, and the number of links."""
        own_plane, rail_of = (_or_absent(column)[order] for column in (plane, rail))
        plane_of = np.array([_known(one.plane) for one in devices.values()], np.int64)
        self.plane = np.where(own_plane == ABSENT, plane_of[self.upper], own_plane) if len(order) else own_plane
        self.rail = rail_of
        self.roles, self.role = role.values, role.codes[order].astype(np.int64)
        self.speeds, self.speed = speed.values, speed.codes[order]
        pods = [one.pod or one.name for one in devices.values()]
        self.pods: tuple[str, ...] = tuple(dict.fromkeys(pods))
        number_of_pod = {name: number for number, name in enumerate(self.pods)}
        self.pod = np.array([number_of_pod[name] for name in pods], np.int64)[self.lower]
        self._row_id, self._label = (column._replace(codes=column.codes[order]) for column in (row_id, label))
        self._index_ends(device, port, order)
        self._made: dict[int, TopologyLink] = {}
        self._made_at: dict[Port, TopologyLink | None] = {}

    def _is_swapped(self, device: Ints, port: Ints, rank: Ints) -> Mask:
        """Return a mask of the rows that name the upper end first."""
        difference = rank[device[0]] - rank[device[1]]
        is_swapped: Mask = difference > 0
        ties = np.flatnonzero(difference == 0)
        if len(ties):
            (a, z), (a_port, z_port) = _places(self._devices)[device[:, ties]], _places(self._ports)[port[:, ties]]
            is_swapped[ties] = (z < a) | ((z == a) & (z_port < a_port))
        return is_swapped

    def _index_ends(self, device: Ints, port: Ints, order: Ints) -> None:
        """Index the ends by device in the order of the table, and by device and port: the last of several links."""
        numbers = np.empty(len(order), np.int32)
        numbers[order] = np.arange(len(order))
        ends, devices, links = (device * max(1, len(self._ports)) + port).T.ravel(), device.T.ravel(), numbers.repeat(2)
        is_own = np.ones(len(ends), np.bool_)
        is_own[1::2] = device[0] != device[1]
        by_device = np.argsort(devices[is_own], kind="stable")
        self.ends, own = links[is_own][by_device], devices[is_own][by_device]
        """The links that end at each device, in the order of the table of links."""
        self.first_end: Ints = np.searchsorted(own, np.arange(len(self._devices) + 1))
        by_port = np.argsort(ends, kind="stable")
        is_last = np.ones(len(ends), np.bool_)
        is_last[:-1] = ends[by_port[1:]] != ends[by_port[:-1]]
        known = ends[by_port][is_last]
        self._known, self._link_at = array("q", known.tobytes()), links[by_port][is_last]
        self._known_ends: Ints = np.asarray(self._known)  # the same memory
        firsts = np.arange(len(self._devices) + 1) * max(1, len(self._ports))
        self._first_known = array("q", np.searchsorted(known, firsts).tolist())

    @cached_property
    def bps_of_speed(self) -> NDArray[np.float64]:
        """Return `speeds`, with 0 for an unknown one."""
        return np.array([float(value or 0) for value in self.speeds])

    def __len__(self) -> int:
        return len(self.lower)

    @overload
    def __getitem__(self, number: int) -> TopologyLink: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[TopologyLink]: ...
    def __getitem__(self, number: int | slice) -> TopologyLink | Sequence[TopologyLink]:
        if isinstance(number, slice):
            return tuple(map(self.__getitem__, range(*number.indices(len(self)))))
        made = self._made.get(number)
        return _retained(self._made, number, self._make(number)) if made is None else made

    def __iter__(self) -> Iterator[TopologyLink]:
        """Yield the links; those that are not retained are made for the caller alone."""
        return (self._made.get(number) or self._make(number) for number in range(len(self)))

    def _ends_of(self, number: int) -> tuple[Port, Port]:
        devices, ports = self._devices, self._ports
        return (
            Port(devices[self.lower.item(number)], ports[self._lower_port.item(number)]),
            Port(devices[self.upper.item(number)], ports[self._upper_port.item(number)]),
        )

    def _make(self, number: int) -> TopologyLink:
        lower, upper = self._ends_of(number)
        rail, plane = self.rail.item(number), self.plane.item(number)
        return TopologyLink(
            link_id(lower, upper), lower, upper, self.roles[self.role.item(number)],
            None if rail == ABSENT else rail, None if plane == ABSENT else plane, self.pods[self.pod.item(number)],
            self.speeds[self.speed.item(number)], self.is_uplink.item(number),
        )  # fmt: skip

    def id_of(self, number: int) -> str:
        """Return the id of a link."""
        return link_id(*self._ends_of(number))

    def number_at(self, port: Port) -> int | None:
        """Return the number of the link that ends at a port; None if there is none."""
        device, name = self.number.get(port.device), self._port_number.get(port.port)
        if device is None or name is None:
            return None
        end, last = device * len(self._ports) + name, self._first_known[device + 1]
        place = bisect_left(self._known, end, self._first_known[device], last)
        return self._link_at.item(place) if place < last and self._known[place] == end else None

    def far_end(self, port: Port) -> Port | None:
        """Return the other end of the link that ends at a port; None if there is none."""
        number = self.number_at(port)
        if number is None:
            return None
        lower, upper = self._ends_of(number)
        return upper if port == lower else lower

    def numbers_at(self, devices: Sequence[str], ports: Sequence[Sequence[str]]) -> Ints:
        """Return the numbers of the links that end at ports of devices, ABSENT where there is none.

        `ports` has equally many names for each device; the result has the shape (devices, ports).
        """
        number_of, shared = self._port_number, {id(names): names for names in ports}  # many devices share a tuple
        of_names = {key: [number_of.get(name, ABSENT) for name in names] for key, names in shared.items()}
        port = np.array([of_names[id(names)] for names in ports], np.int64)
        device = np.array([self.number.get(name, ABSENT) for name in devices], np.int64)[:, None]
        ends, known = device * len(self._ports) + port, self._known_ends
        if not len(known):
            return np.full(ends.shape, ABSENT)
        places = np.minimum(np.searchsorted(known, ends), len(known) - 1)
        is_known = (device != ABSENT) & (port != ABSENT) & (known[places] == ends)
        found: Ints = np.where(is_known, self._link_at[places], ABSENT).astype(np.int64)
        return found

    def ports_of(self, device: str) -> list[str]:
        """Return the ports of a device at which a link ends."""
        number = self.number.get(device)
        if number is None:
            return []
        own = self._known_ends[self._first_known[number] : self._first_known[number + 1]] - number * len(self._ports)
        return [self._ports[port] for port in own.tolist()]

    def link_at(self, port: Port) -> TopologyLink | None:
        """Return the link that ends at a port; None if there is none."""
        try:
            return self._made_at[port]
        except KeyError:
            number = self.number_at(port)
            return _retained(self._made_at, port, None if number is None else self[number])

    def number_of(self, identity: str) -> int | None:
        """Return the number of the link with this id; None if there is none."""
        device, slash, rest = identity.removeprefix("link:").partition("/")  # a device name contains no slash
        place = rest.find("--") if slash else -1
        while place >= 0:  # a port name may contain the separator
            number = self.number_at(Port(device, rest[:place]))
            if number is not None and self.id_of(number) == identity:
                return number
            place = rest.find("--", place + 1)
        return None

    def columns(self) -> tuple[list[Any], ...]:
        """Return the columns of all links: id, device and port of each end, and from `role` on as TopologyLink."""
        names = (
            (self._devices, self.lower), (self._ports, self._lower_port), (self._devices, self.upper),
            (self._ports, self._upper_port), (self.roles, self.role), (self.pods, self.pod), (self.speeds, self.speed),
        )  # fmt: skip
        lower, lower_port, upper, upper_port, role, pod, speed = (
            [values[code] for code in codes.tolist()] for values, codes in names
        )
        rail, plane = ([None if n == ABSENT else n for n in column.tolist()] for column in (self.rail, self.plane))
        ids = list(map(self.id_of, range(len(self))))
        return ids, lower, lower_port, upper, upper_port, role, rail, plane, pod, speed

    def row_ids(self) -> dict[str, str]:
        """Return link -> its `links.id`, where the inventory has one."""
        return self._texts(self._row_id)

    def labels(self) -> dict[str, str]:
        """Return link -> its `links.label`, where the inventory has one."""
        return self._texts(self._label)

    def _texts(self, column: CodedColumn) -> dict[str, str]:
        is_named = np.array([bool(value) for value in column.values], np.bool_)
        numbers = np.flatnonzero(is_named[column.codes]).tolist() if is_named.any() else []
        return {self.id_of(number): column.values[column.codes.item(number)] for number in numbers}


class LinksById(Mapping[str, TopologyLink]):
    """The links by id."""

    def __init__(self, table: LinkTable) -> None:
        self._table = table
        self._made: dict[str, TopologyLink] = {}

    @overload
    def get(self, identity: str, /) -> TopologyLink | None: ...
    @overload
    def get(self, identity: str, /, default: TopologyLink | Value) -> TopologyLink | Value: ...
    def get(self, identity: str, /, default: object = None) -> object:
        made = self._made.get(identity)
        if made is None and identity.startswith("link:"):
            number = self._table.number_of(identity)
            if number is not None:
                return _retained(self._made, identity, self._table[number])
        return default if made is None else made

    def __getitem__(self, identity: str) -> TopologyLink:
        found = self.get(identity)
        if found is None:
            raise KeyError(identity)
        return found

    def __contains__(self, identity: object) -> bool:
        return isinstance(identity, str) and self.get(identity) is not None

    def __iter__(self) -> Iterator[str]:
        return map(self._table.id_of, range(len(self._table)))

    def __len__(self) -> int:
        return len(self._table)


class LinksOfDevice(Mapping[str, tuple[TopologyLink, ...]]):
    """The links of each device that has some. `links` has the numbers of those of each device, from its `first` on."""

    def __init__(self, table: LinkTable, first: Ints, links: NDArray[np.int32]) -> None:
        self._table, self._first, self._links = table, first, links
        self._made: dict[str, tuple[TopologyLink, ...]] = {}

    def count(self, device: str) -> int:
        """Return the number of links of a device."""
        number = self._table.number.get(device)
        return 0 if number is None else int(self._first[number + 1] - self._first[number])

    def __getitem__(self, device: str) -> tuple[TopologyLink, ...]:
        made = self._made.get(device)
        if made is not None:
            return made
        if not self.count(device):
            raise KeyError(device)
        number = self._table.number[device]
        links = self._links[self._first[number] : self._first[number + 1]].tolist()
        return _retained(self._made, device, tuple(map(self._table.__getitem__, links)), _MOST_MADE // 64)

    def __contains__(self, device: object) -> bool:
        return isinstance(device, str) and self.count(device) > 0

    def __iter__(self) -> Iterator[str]:
        has_links = (self._first[1:] > self._first[:-1]).tolist()
        return (device for device, has_some in zip(self._table.number, has_links, strict=True) if has_some)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._first[1:] > self._first[:-1]))


def _retained(memo: dict[Key, Value], key: Key, value: Value, most: int = _MOST_MADE) -> Value:
    """Return a value that is retained in a dict of a bounded size."""
    if len(memo) >= most:
        memo.clear()
    memo[key] = value
    return value


def _numbered(a: CodedColumn, z: CodedColumn, number: Mapping[str, int]) -> Ints:
    """Return the numbers of both ends, shape (2, links)."""
    return np.array([np.array([number[value] for value in one.values], np.int64)[one.codes] for one in (a, z)])


def _places(names: Sequence[str]) -> Ints:
    """Return the place of each name in their order."""
    places = np.empty(len(names), np.int64)
    places[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return places


def _known(value: int | None) -> int:
    return ABSENT if value is None else value


def _or_absent(column: CodedColumn) -> Ints:
    values: Ints = np.array([_known(value) for value in column.values], np.int64)[column.codes]
    return values
