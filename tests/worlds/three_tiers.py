"""A fabric of three tiers: pods of T0s and T1s, T2s above them, hosts with two rails on two planes.

Each pod has the same number of T0s for each pair of rail and plane; T1s belong to one plane and have uplinks to the T2s
of that plane.
"""

from itertools import product

from streams.fabric.inventory import Device, Inventory, Job, Link
from streams.fabric.topology import Topology
from tests.worlds.small_fabric import link

PODS = ("a", "b")
RAILS = PLANES = (0, 1)


def three_tiers(*, aggs: int = 4, tops: int = 4, hosts: int = 4, jobs: tuple[Job, ...] = ()) -> Topology:
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
    return Topology(Inventory(devices=tuple(devices), links=tuple(links), jobs=jobs))
