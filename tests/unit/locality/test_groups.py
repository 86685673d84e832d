"""Units and groups of tiers: nested partitions of the hosts with stable names."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from streams.fabric.inventory import Device, Inventory
from streams.fabric.topology import Topology
from streams.locality.groups import NO_GROUP, Groups, natural_key
from tests.worlds.localities import clos_groups, demo_groups
from tests.worlds.small_fabric import link

FABRICS = (demo_groups, clos_groups, lambda: clos_groups(planes=2), lambda: clos_groups(gpus=16))


def members(groups: Groups, level: int) -> dict[str, list[str]]:
    """Return the hosts of each group of a level, by its name."""
    found = groups.levels()[level]
    pairs = zip(found.names, found.members, strict=True)
    return {name: [groups.graph.names[host] for host in hosts.tolist()] for name, hosts in pairs}


def test_a_unit_is_the_hosts_with_the_same_leaves() -> None:
    """It is named by their first leaf; the spines connect both pods."""
    assert members(demo_groups(), 0) == {
        "pod1-leaf1": [f"pod1-host{number}" for number in range(1, 5)],
        "pod2-leaf1": [f"pod2-host{number}" for number in range(1, 5)],
    }
    assert list(members(demo_groups(), 1)) == ["spine1"]


@pytest.mark.parametrize("make", FABRICS)
def test_levels_are_nested_partitions_of_the_hosts(make: Callable[[], Groups]) -> None:
    """Every host is in one group of each level, and a group's hosts are in one group of the next level."""
    groups = make()
    levels = groups.levels()
    for level in levels:
        assert sorted(np.concatenate(level.members).tolist()) == groups.hosts.tolist()
        assert len(set(level.names)) == len(level.names)
    for lower, upper in pairwise(levels):
        assert all(len(set(upper.group[hosts].tolist())) == 1 for hosts in lower.members)


def test_three_tiers_have_a_level_each() -> None:
    """Hosts of a pod are in units of their leaves, pods in one fabric; equal planes make no further unit."""
    groups = clos_groups()
    units, pods, fabric = groups.levels()
    assert [level.tier for level in groups.levels()] == ["T0", "T1", "T2"]
    assert len(fabric.names) == 1 < len(pods.names) <= len(units.names)
    for hosts in pods.members:
        assert len({groups.topology.pod_of(groups.graph.names[host]) for host in hosts.tolist()}) == 1
    assert len(clos_groups(planes=2).levels()[-1].names) == 1


def test_a_host_without_a_leaf_is_in_no_group() -> None:
    """Links to storage and between hosts are not part of the hierarchy; equal first leaves give unlike names."""
    hosts = [Device(name, "host", "host", gpus=8) for name in ("a", "b", "c", "d")]
    switches = [Device("l1", "switch", "T0"), Device("l2", "switch", "T0"), Device("s", "switch", "storage")]
    links = [
        link("a/0", "l1/0", "host-link"), link("a/1", "l2/0", "host-link"), link("b/0", "l1/1", "host-link"),
        link("c/0", "s/0", "host-link"), link("c/1", "d/1", "host-link"),
    ]  # fmt: skip
    groups = Groups(Topology(Inventory(devices=(*hosts, *switches), links=tuple(links))))
    assert members(groups, 0) == {"l1": ["a"], "l1-2": ["b"]}
    assert [len(each.names) for each in groups.levels()] == [2, 1], "leaf l1 connects both units"
    assert groups.units.group[groups.graph.number["c"]] == NO_GROUP


def test_natural_order_counts_numbers() -> None:
    """Leaf 2 comes before leaf 10."""
    assert sorted(["leaf10", "leaf2", "leaf1-2"], key=natural_key) == ["leaf1-2", "leaf2", "leaf10"]
