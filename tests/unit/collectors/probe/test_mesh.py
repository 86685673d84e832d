"""Tests the choice of flows: who probes whom, fixed by the seed, rotated in parts."""

from collections import Counter
from itertools import pairwise

from collectors.probe.mesh import find_rails, flows_of
from collectors.probe.params import Params
from lab.constants import with_constants
from streams.fabric.inventory import Inventory, PortName
from tests.fixtures.namespace_clos import Shape

PARAMS = Params()
RAILS = find_rails(Shape(hosts=24).inventory())
HOSTS = sorted(RAILS.by_host)


def test_each_rail_probes_its_leaf_and_other_leaves_of_its_plane() -> None:
    """And never its own host, nor another plane, which it cannot reach."""
    for host in HOSTS:
        flows = flows_of(RAILS, host, PARAMS, 0)
        assert len(flows) == 2 * (PARAMS.tor_targets + PARAMS.fabric_flows)
        for rail, target, _ in flows:
            assert rail.port.device == host != target.port.device and rail.plane == target.plane
        on_leaf = Counter(flow.rail.port for flow in flows if flow.rail.leaf == flow.target.leaf)
        assert set(on_leaf.values()) == {PARAMS.tor_targets}


def test_each_rail_is_the_target_of_as_many_rails_of_its_leaf() -> None:
    """rail/unreachable needs three hosts of the leaf that probe it."""
    targets = Counter(
        flow.target.port
        for host in HOSTS
        for flow in flows_of(RAILS, host, with_constants(Params, rotated_per_hour=0)(), 0)
        if flow.rail.leaf == flow.target.leaf
    )
    assert set(targets.values()) == {3} and len(targets) == len(RAILS.all)


def test_the_flows_of_a_rail_have_different_source_ports_and_spread_over_leaves() -> None:
    """ECMP chooses among as many paths as there are 5-tuples."""
    flows = [flow for flow in flows_of(RAILS, "h00", PARAMS, 0) if flow.rail.plane == 0]
    assert len({flow.source_port for flow in flows}) == len(flows)
    leaves = Counter(flow.target.leaf for flow in flows if flow.target.leaf != flow.rail.leaf)
    assert min(leaves.values()) >= 3


def test_the_choice_is_fixed_and_a_fifth_of_it_rotates_each_hour() -> None:
    """All hosts and restarts choose the same; another seed chooses otherwise."""
    at = [set(flows_of(RAILS, "h03", PARAMS, hour)) for hour in range(6)]
    assert at[0] == set(flows_of(RAILS, "h03", PARAMS, 0))
    assert at[0] != set(flows_of(RAILS, "h03", with_constants(Params, seed=2)(), 0))
    for one, other in pairwise(at):
        assert len(one & other) >= 0.6 * len(one)
    assert at[0] != at[5]


def test_a_host_without_addresses_has_no_flows_and_a_lone_rail_none_on_its_leaf() -> None:
    """Names that are no IPv4 addresses are other aliases."""
    inventory = Shape(hosts=3).inventory()
    assert all(f.rail.leaf != f.target.leaf for f in flows_of(find_rails(inventory), "h00", PARAMS, 0))
    names = tuple(PortName(n.device, n.port, f"1mlx5_{n.alias}", n.source) for n in inventory.ports)
    assert find_rails(Inventory(inventory.devices, inventory.links, names)).all == ()
