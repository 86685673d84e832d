"""Fabrics beside the small one: three tiers on planes, two pods of a random size, and a leaf with unequal uplinks.

The hosts of the three tiers have two rails on two planes. Each pod has the same number of T0s for each pair of rail and
plane; T1s belong to one plane and have uplinks to the T2s of that plane.
"""

from collections.abc import Sequence
from itertools import product

from streams.fabric.inventory import Device, Inventory, Job, Link
from streams.fabric.inventory_rows import Part
from streams.fabric.topology import Topology
from tests.worlds.small_fabric import link, topology

PODS = ("a", "b")
RAILS = PLANES = (0, 1)


def three_tiers(
    *, aggs: int = 4, tops: int = 4, hosts: int = 4, jobs: tuple[Job, ...] = (), parts: tuple[Part, ...] = ()
) -> Topology:
    """Return the fabric; a T0 has an uplink to every T1 of its pod and plane, a T1 to every T2 of its plane."""
    devices = [Device(f"t2-{plane}-{top}", "switch", "T2", plane=plane) for plane in PLANES for top in range(tops)]
    links: list[Link] = []
    for pod, plane in product(PODS, PLANES):
        leaves = [f"{pod}-t0-{plane}-{rail}" for rail in RAILS]
        uppers = [f"{pod}-t1-{plane}-{agg}" for agg in range(aggs)]
        devices += [Device(leaf, "switch", "T0", pod=pod, plane=plane) for leaf in leaves]
        devices += [Device(upper, "switch", "T1", pod=pod, plane=plane) for upper in uppers]
        links += [
            link(f"{leaf}/u{agg}", f"{upper}/d{rail}", plane=plane)
            for rail, leaf in enumerate(leaves)
            for agg, upper in enumerate(uppers)
        ]
        links += [
            link(f"{upper}/u{top}", f"t2-{plane}-{top}/{pod}{agg}", plane=plane)
            for agg, upper in enumerate(uppers)
            for top in range(tops)
        ]
        links += [
            link(f"{pod}-h{n}/e{rail}{plane}", f"{leaf}/d{n}", "host-link", rail=rail, plane=plane)
            for rail, leaf in enumerate(leaves)
            for n in range(hosts)
        ]
    devices += [Device(f"{pod}-h{n}", "host", "host", pod=pod, gpus=8) for pod in PODS for n in range(hosts)]
    return Topology(Inventory(devices=tuple(devices), links=tuple(links), jobs=jobs, parts=parts))


def two_pods(leaves: int, uplinks: int, tops: int) -> Topology:
    """Return two pods of leaves with uplinks to their own aggregation switches; with `tops`, another tier above."""
    devices, links = [Device(f"top{n}", "switch", "T2") for n in range(tops)], []
    for pod in ("p", "q"):
        devices += [Device(f"{pod}-a{n}", "switch", "T1", pod) for n in range(uplinks)]
        devices += [Device(f"{pod}-h", "host", "host", pod, gpus=8)]
        links += [
            link(f"{pod}-a{n}/t{top}", f"top{top}/{pod}{n}", plane=n % 2) for n in range(uplinks) for top in range(tops)
        ]
        for leaf in range(leaves):
            name = f"{pod}-l{leaf}"
            devices.append(Device(name, "switch", "T0", pod, leaf))
            links += [link(f"{name}/u{n}", f"{pod}-a{n}/d{leaf}", plane=n % 2) for n in range(uplinks)]
            links.append(link(f"{pod}-h/e{leaf}", f"{name}/h", "host-link", rail=0, plane=leaf))
    return Topology(Inventory(devices=tuple(devices), links=tuple[Link, ...](links)))


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
