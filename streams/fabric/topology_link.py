"""A link as the topology and its arrays use it."""

from typing import NamedTuple

from streams.fabric.ids import Port


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
    """The upper end is in a higher tier. False inside a tier, and to a device of no tier, such as storage."""

    def far_end(self, port: Port) -> Port:
        """Return the other end."""
        return self.upper if port == self.lower else self.lower
