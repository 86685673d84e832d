"""A leaf with four uplinks, host links, a link inside its tier, and one to a switch of no tier."""

from collections.abc import Sequence

from streams.fabric.inventory import Device, Inventory
from streams.fabric.topology import Topology
from tests.worlds.small_fabric import link, topology

SPEED = 400e9
LEAF = "p1-l0"
UPLINKS = ("u0", "u1", "u2", "u3")
OTHERS = ("d1", "d2")
ASIDE = ("peer", "store")
"""No uplinks: inside the tier, and to a device of no tier."""


def fabric(speeds: Sequence[float] = (SPEED,) * 4) -> Topology:
    """The small fabric, with speeds at the leaf's uplinks; a link to another leaf, and one to a storage switch."""
    own = topology()
    links = [
        link(f"{c.lower.device}/{c.lower.port}", f"{c.upper.device}/{c.upper.port}", c.role, speed_bps=speeds[
            UPLINKS.index(c.lower.port)] if c.lower.device == LEAF and c.lower.port in UPLINKS else None)
        for c in own.links.values()
    ]  # fmt: skip
    links += [link("p1-l0/peer", "p1-l1/peer"), link("p1-l0/store", "st1/e1")]
    devices = (*own.devices.values(), Device("st1", "switch", "storage"))
    return Topology(Inventory(devices=devices, links=tuple(links)), "made")
