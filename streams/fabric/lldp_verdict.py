"""Compares the LLDP neighbor at an end of a link with the neighbor that the inventory records."""

from enum import IntEnum
from typing import NamedTuple, Protocol


class NeighborMatch(IntEnum):
    """The LLDP neighbor at one end of a link: none, an unresolved name, the expected port, or another port."""

    NO_NEIGHBOR = 0
    UNKNOWN_NAME = 1
    EXPECTED = 2
    UNEXPECTED = 3


class Neighbor(Protocol):
    """A neighbor by its advertised names; implemented by streams.wire.models.Neighbor."""

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
