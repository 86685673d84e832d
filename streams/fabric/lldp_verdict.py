"""Compares a link with the LLDP neighbors at its ends: the cabling is confirmed, contradicted, or unobserved.

A link is CONTRADICTED where an end has only unexpected neighbors, CONFIRMED where an end has the expected neighbor and
no end contradicts, and UNOBSERVED otherwise: no report confirms nothing, and a name that the inventory does not contain
neither confirms nor contradicts. This module has the types and the arithmetic; lldp_observations.py has the state.
"""

from collections.abc import Hashable
from enum import IntEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streams.fabric.graph import Ints
from streams.fabric.ids import Port

States = NDArray[np.int8]
LOWER, UPPER = 0, 1
"""The sides of a link, as rows of the arrays."""


class NeighborMatch(IntEnum):
    """The LLDP neighbor at one end of a link: none, an unresolved name, the expected port, or another."""

    NO_NEIGHBOR = 0
    UNKNOWN_NAME = 1
    EXPECTED = 2
    UNEXPECTED = 3


class CablingVerdict(IntEnum):
    """The verdict on the cabling of a link."""

    UNOBSERVED = 0
    CONFIRMED = 1
    CONTRADICTED = 2


class Neighbor(Protocol):
    """A neighbor by the names that it advertises; implemented by streams.wire.models.Neighbor."""

    @property
    def port(self) -> str:
        """The local port."""

    @property
    def remote_device(self) -> str:
        """The name that the neighbor advertises."""

    @property
    def remote_port(self) -> str:
        """The port that the neighbor advertises."""


class LldpNeighbor(NamedTuple):
    """A neighbor that does not come from a message."""

    port: str
    remote_device: str
    remote_port: str


class NeighborEvidence(NamedTuple):
    """The neighbor at one end by one source; `resolved` is its port where the inventory contains it."""

    at: Port
    source: Hashable
    at_ns: int
    match: NeighborMatch
    remote_device: str
    remote_port: str
    resolved: Port | None


class LinkNeighbors(NamedTuple):
    """The neighbors at both ends of some links, one column per link: the match, the neighbor's end, and the time.

    An end of a link is 2 × the link's number + its side; -1 where the inventory does not contain the port.
    """

    match: States
    end: Ints
    at_ns: Ints


def cabling_verdicts(match: States) -> States:
    """Return a verdict for each column of two sides."""
    contradicted, confirmed = (
        (match == NeighborMatch.UNEXPECTED).any(axis=0),
        (match == NeighborMatch.EXPECTED).any(axis=0),
    )
    return np.where(
        contradicted,
        CablingVerdict.CONTRADICTED,
        np.where(confirmed, CablingVerdict.CONFIRMED, CablingVerdict.UNOBSERVED),
    ).astype(np.int8)


def swapped_links(neighbors: LinkNeighbors) -> Ints:
    """Return for each link the link with which it is swapped, or -1; `neighbors` has all links in order.

    Two links are swapped where each has the far end of the other as its neighbor. Swapping the cables back repairs
    both.
    """
    links = np.arange(neighbors.match.shape[1])
    found = np.full(len(links), -1, np.int64)
    for side in (LOWER, UPPER):
        unexpected = np.flatnonzero(
            (neighbors.match[side] == NeighborMatch.UNEXPECTED) & (neighbors.end[side] % 2 == 1 - side)
        )
        unexpected = unexpected[neighbors.end[side][unexpected] >= 0]
        other = neighbors.end[side][unexpected] // 2
        is_pair = (neighbors.match[side][other] == NeighborMatch.UNEXPECTED) & (
            neighbors.end[side][other] == 2 * unexpected + 1 - side
        )
        found[unexpected[is_pair]] = other[is_pair]
    return found
