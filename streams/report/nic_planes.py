"""Derives the rail and the plane of a host's ports from their names and from the functions of a card. Pure.

Names are those of udev rules for cards with planes: `eth_r3_p0`, `eth_p0_r3` (nic-configuration-operator). Functions of
one slot are planes, by their number, only if they share an RDMA device (`mlx5_0/3`): two functions with a device each
are two ports, which may be of two rails. A rail of several cards needs names.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from streams.wire.models import Component, Facts

_NAMES = (
    re.compile(r"(?:.*[_-])?r(?P<rail>\d{1,3})[_-]p(?P<plane>\d{1,2})", re.ASCII),
    re.compile(r"(?:.*[_-])?p(?P<plane>\d{1,2})[_-]r(?P<rail>\d{1,3})", re.ASCII),
)
_PCI = re.compile(r"(?P<slot>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})\.(?P<function>[0-7])", re.ASCII)
_RDMA_PORT = re.compile(r"(?P<device>[^/]+)/\d{1,4}", re.ASCII)
_NIC = "nic"


class NicPlace(NamedTuple):
    """The rail and the plane of a port; None if unknown."""

    rail: int | None = None
    plane: int | None = None


def nic_places(found: Iterable[Facts]) -> dict[str, NicPlace]:
    """Return the place of each port of a host whose names, or whose card, have it; the newest facts win."""
    components = {part.name: part for facts in found for part in facts.components if part.kind == _NIC}
    places = _by_function(components.values())
    for name, part in components.items():
        matches = (pattern.fullmatch(each) for each in (name, *part.alias) for pattern in _NAMES)
        if match := next(filter(None, matches), None):
            places[name] = NicPlace(int(match["rail"]), int(match["plane"]))
    return places


def _by_function(parts: Iterable[Component]) -> dict[str, NicPlace]:
    cards: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for part in parts:
        names = (part.name, *part.alias)
        pci = next(filter(None, map(_PCI.fullmatch, names)), None)
        rdma = next(filter(None, map(_RDMA_PORT.fullmatch, names)), None)
        if pci and rdma:
            cards[pci["slot"], rdma["device"]][pci["function"]] = part.name
    return {
        name: NicPlace(plane=int(function))
        for functions in cards.values()
        if len(functions) > 1
        for function, name in functions.items()
    }
