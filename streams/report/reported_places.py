"""Derives the rail and the plane of a host's ports, and the NVLink domain of a host, from its facts. Pure.

Names of ports are those of udev rules for cards with planes: `eth_r3_p0`, `eth_p0_r3` (nic-configuration-operator).
Functions of one slot are planes, by their number, only if they share an RDMA device (`mlx5_0/3`): two functions with a
device each are two ports, which may be of two rails. A rail of several cards needs names.

The NVLink domain is the clique that the GPUs report. A known inventory may name a domain as NMX does. Its names stay,
and a new host of the same clique gets the same name.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
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


_DOMAIN = "nvlink-domain"


def nvlink_domains(
    found: Mapping[str, Iterable[Facts]], known: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the domain of each host that reports one, and the reason for doubt of each host with another or several.

    `found` has the facts of each host, `known` the domain of each host in the known inventory; both in one order.
    """
    reported = {host: _cliques(facts) for host, facts in found.items()}
    cliques = {host: names[0] for host, names in reported.items() if len(names) == 1}
    doubts = {host: f"its GPUs report several: {', '.join(n)}" for host, n in reported.items() if len(n) > 1}
    name_of: dict[str, str] = {}
    pairs = Counter((clique, known[host]) for host, clique in cliques.items() if known.get(host))
    for (clique, name), _ in pairs.most_common():  # a host that moved names no domain after its former one
        if clique not in name_of and name not in name_of.values():
            name_of[clique] = name
    domains = {host: name_of.get(clique, clique) for host, clique in cliques.items()}
    for host, name in domains.items():
        if (own := known.get(host)) and own != name:
            of_name = "" if name == cliques[host] else f" ({name})"
            doubts[host] = f"the known inventory has {own}, its GPUs report {cliques[host]}{of_name}"
    return domains, doubts


def _cliques(facts: Iterable[Facts]) -> list[str]:
    """Return the cliques of a host's GPUs; `N/A` is that of a GPU that is not registered."""
    names = {part.name.strip() for each in facts for part in each.components if part.kind == _DOMAIN}
    return sorted(name for name in names if name and name.upper() != "N/A")
