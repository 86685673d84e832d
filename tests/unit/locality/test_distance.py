"""Distances of hosts and GPUs: tiers, switches, and the capacity that is left."""

import pytest

from streams.locality.distance import UnknownHost
from streams.locality.fabric_state import Usability
from tests.worlds.localities import clos_groups, demo_groups, distances, doubtful, out

NIC_BPS = 400e9


def test_hosts_of_a_unit_are_one_switch_apart() -> None:
    """On every rail, with the whole capacity."""
    found = distances().between("pod1-host1", "pod1-host2")
    assert (found.tier, found.switches, found.same_unit, found.same_pod) == ("T0", 1, True, True)
    assert (found.ratio, found.capacity_bps, len(found.paths)) == (1.0, 8 * NIC_BPS, 8)
    assert found.paths[2].leaves == ("pod1-leaf3", "pod1-leaf3")


def test_hosts_of_two_pods_meet_at_the_spines() -> None:
    """Three switches."""
    found = distances().between("pod1-host1", "pod2-host2")
    assert (found.tier, found.switches, found.same_unit, found.same_pod) == ("T1", 3, False, False)


def test_a_fabric_of_three_tiers_has_five_switches_between_pods() -> None:
    """And three between the units of a pod."""
    groups = clos_groups()
    names, pods = groups.graph.names, groups.levels()[1]
    first = int(pods.members[0][0])
    far = names[int(pods.members[1][0])]
    assert distances(groups=groups).between(names[first], far).switches == 5
    units = groups.units.group
    other = next(host for host in pods.members[0].tolist() if units[host] != units[first])
    assert distances(groups=groups).between(names[first], names[other]).switches == 3


def test_a_host_is_at_no_distance_from_itself() -> None:
    """No path, no switch."""
    found = distances().between("pod1-host1", "pod1-host1")
    assert (found.tier, found.switches, found.paths) == ("host", 0, ())


def test_a_link_that_is_down_takes_one_rail() -> None:
    """The path has no capacity, and names the host whose link it is."""
    found = distances(out("link:pod1-host1/mlx5_2--pod1-leaf3/Ethernet1/1")).between("pod1-host2", "pod1-host1")
    assert found.ratio == pytest.approx(7 / 8)
    assert found.paths[2].bottleneck == "pod1-host1 has no link in service to pod1-leaf3"


def test_lost_uplinks_are_a_shared_bottleneck_between_pods_only() -> None:
    """Four hosts share two uplinks of eight: half of the rail between pods, all of it within the pod."""
    lost = [out(f"port:pod1-leaf1/Ethernet{number}/1") for number in range(5, 11)]
    assert distances(*lost).between("pod1-host1", "pod1-host2").ratio == 1.0
    path = distances(*lost).between("pod1-host1", "pod2-host1").paths[0]
    assert (path.ratio, path.capacity_bps) == (0.5, NIC_BPS / 2)
    assert path.bottleneck == (
        "uplinks of pod1-leaf1 carry 50% of the traffic from below, 100% as built, shared by 4 hosts"
    )


def test_a_loss_further_up_reaches_the_leaves() -> None:
    """Of three tiers: without all but one T2 of a group, its T1s carry less, and so do the leaves below."""
    groups = clos_groups()
    names, pods = groups.graph.names, groups.levels()[1]
    near, far = names[int(pods.members[0][0])], names[int(pods.members[1][0])]
    tops = [name for name, device in groups.topology.devices.items() if device.tier == "T2"]
    assert distances(groups=groups).between(near, far).ratio == 1.0
    found = distances(*(out(f"device:{top}") for top in tops[::2]), groups=groups).between(near, far)
    assert 0 < found.ratio < 1


def test_gpus_of_one_rail_are_nearer_than_others() -> None:
    """GPU 3 is on rail 3; across rails one leaf after the links between GPUs, three switches without."""
    same = distances().between_gpus(("pod1-host1", 3), ("pod1-host2", 3))
    assert (same.rails, same.switches, same.switches_by_rail) == ((3, 3), 1, 1)
    other = distances().between_gpus(("pod1-host1", 3), ("pod1-host2", 4))
    assert (other.switches, other.switches_by_rail) == (3, 1)
    own = distances().between_gpus(("pod1-host1", 3), ("pod1-host1", 4))
    assert (own.same_host, own.switches) == (True, 0)


@pytest.mark.parametrize(
    ("host", "message"),
    [("nowhere", "nowhere is no device of the inventory"), ("spine1", "spine1 is a switch")],
)
def test_an_unknown_host_is_refused(host: str, message: str) -> None:
    """By name; so is a GPU that a host does not have."""
    with pytest.raises(UnknownHost, match=message):
        distances().between("pod1-host1", host)
    with pytest.raises(UnknownHost, match="has no GPU 8"):
        distances().between_gpus(("pod1-host1", 8), ("pod1-host2", 0))


def test_near_lists_the_unit_first_and_usable_hosts_before_others() -> None:
    found = distances(doubtful("rail:pod1-host2/3")).near("pod1-host1", limit=5)
    assert [each.host for each in found] == ["pod1-host3", "pod1-host4", "pod1-host2", "pod2-host1", "pod2-host2"]
    assert [each.switches for each in found] == [1, 1, 1, 3, 3]
    assert found[2].usability is Usability.DOUBTFUL
    assert found[2].reasons == ("rail:pod1-host2/3: is slower than its peers (rail/degraded fedcba98)",)
    assert len(distances().near("pod1-host1", limit=100)) == len(demo_groups().hosts) - 1
