"""A fabric of two pods with a random number of leaves and uplinks, with two or three tiers."""

from streams.fabric.inventory import Device, Inventory, Link
from streams.fabric.topology import Topology
from tests.worlds.small_fabric import link


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
