"""Whether a link is cabled as the inventory says, by what its ends hear (LLDP): confirmed, contradicted, or unseen.

A link is CONTRADICTED where an end hears only others than it should, CONFIRMED where an end hears what it should and
none contradicts, and UNSEEN otherwise: silence confirms nothing, and a name that the inventory does not know neither
confirms nor contradicts. Here are the words and the arithmetic; who hears what is kept by observed.py.
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
    """What an end hears: nothing, a name that nobody knows, what it should, or another."""

    NO_NEIGHBOR = 0
    UNKNOWN_NAME = 1
    EXPECTED = 2
    UNEXPECTED = 3


class CablingVerdict(IntEnum):
    """On a link."""

    UNOBSERVED = 0
    CONFIRMED = 1
    CONTRADICTED = 2


class Neighbor(Protocol):
    """A neighbour by its own words: streams.wire.models.Neighbor is one."""

    @property
    def port(self) -> str:
        """The port at which it is heard."""

    @property
    def remote_device(self) -> str:
        """What it calls itself."""

    @property
    def remote_port(self) -> str:
        """What it calls its port."""


class LldpNeighbor(NamedTuple):
    """A neighbour, where it is not a message that says so."""

    port: str
    remote_device: str
    remote_port: str


class NeighborEvidence(NamedTuple):
    """What one end hears by one source; `meant` is the port where the inventory knows it."""

    at: Port
    source: Hashable
    at_ns: int
    match: NeighborMatch
    remote_device: str
    remote_port: str
    resolved: Port | None


class LinkNeighbors(NamedTuple):
    """Of some links, a column each, and both sides: what is heard, which end of which link that is, and when.

    An end of a link is 2 × the link's number + its side; -1 where the inventory does not know the port.
    """

    match: States
    end: Ints
    at_ns: Ints


def cabling_verdicts(match: States) -> States:
    """A verdict for each column of two sides."""
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
    """For each link the one whose far end it has while that one has its own, or -1; `merged` is of all links in order.

    Two cables that changed places contradict each other, and putting them back mends both.
    """
    links = np.arange(neighbors.match.shape[1])
    found = np.full(len(links), -1, np.int64)
    for side in (LOWER, UPPER):
        wrong = np.flatnonzero(
            (neighbors.match[side] == NeighborMatch.UNEXPECTED) & (neighbors.end[side] % 2 == 1 - side)
        )
        wrong = wrong[neighbors.end[side][wrong] >= 0]
        other = neighbors.end[side][wrong] // 2
        is_pair = (neighbors.match[side][other] == NeighborMatch.UNEXPECTED) & (
            neighbors.end[side][other] == 2 * wrong + 1 - side
        )
        found[wrong[is_pair]] = other[is_pair]
    return found
