"""A small plant by hand: four hosts of two ports at two switches."""

import numpy as np

from streams.simulation.fabric_arrays import FabricArrays

HOSTS, LEAVES = 40, 4


def plant() -> FabricArrays:
    """Forty hosts of two ports, each port at another of four switches, which have twenty."""
    devices = tuple([f"host{i}" for i in range(HOSTS)] + [f"leaf{i}" for i in range(LEAVES)])
    host_ports, leaf_ports = ("n0", "n1"), tuple(f"e{i}" for i in range(20))
    ports = (host_ports,) * HOSTS + (leaf_ports,) * LEAVES
    links, used = [], [0] * LEAVES
    for host in range(HOSTS):
        for nic in range(2):
            leaf = 2 * (host % 2) + nic
            links.append((2 * host + nic, 2 * HOSTS + 20 * leaf + used[leaf]))
            used[leaf] += 1
    return FabricArrays(devices, (True,) * HOSTS + (False,) * LEAVES, ports, np.array(links, np.int64))
