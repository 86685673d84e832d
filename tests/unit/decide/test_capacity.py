"""Tests the surviving capacity of switches, planes, rails and pods, and that its counts stay exact."""

from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.decide.capacity import Capacity, Group
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from tests.worlds.other_fabrics import three_tiers
from tests.worlds.small_fabric import topology as small_fabric

TOP = three_tiers()
FABRIC = [number for number, one in enumerate(TOP.graph.links) if one.role == "fabric-link"]


def capacity(top: Topology = TOP, lost: Collection[int] = ()) -> Capacity:
    """Return the capacity of a fabric in which all links carry, except the lost ones."""
    own = Capacity(top)
    lose(own, lost)
    return own


def lose(own: Capacity, lost: Collection[int]) -> None:
    """Set all links as carrying, except the lost ones."""
    ids = {own.graph.links[number].id for number in lost}
    for pod in range(len(own.graph.pods)):
        own.refresh(pod, ids)


def number(device: str, port: str, top: Topology = TOP) -> int:
    link = top.link_at(Port(device, port))
    assert link is not None
    found = Capacity(top).number_of(link)
    assert found is not None
    return found


def paths(device: str, gone: set[str]) -> int:
    """Return the number of paths from a device to the top without some links."""
    ups = [link for link in TOP.uplinks_of.get(device, ()) if link.is_uplink]
    return sum(paths(link.upper.device, gone) for link in ups if link.id not in gone) if ups else 1


def ratios(own: Capacity, links: list[int], lost: list[int] | None = None) -> dict[str, float]:
    return {str(one.group): one.ratio for one in own.surviving(links, lost or [])}


def test_no_link_carries_before_it_is_proven() -> None:
    """Without any observation nothing survives."""
    assert set(ratios(Capacity(TOP), [FABRIC[0]]).values()) == {0}


def test_an_uplink_of_a_leaf_counts_for_the_leaf_and_its_groups() -> None:
    """A leaf keeps 3 of 4 uplinks; the plane of a pod has 24 links, its rail 8 uplinks of T0s, the pod 48 links."""
    assert ratios(capacity(), [number("a-t0-0-0", "u0")]) == {
        "switch a-t0-0-0": 3 / 4,
        "plane 0 of pod a": 23 / 24,
        "rail 0 of pod a": 7 / 8,
        "pod a": 47 / 48,
    }


def test_an_uplink_of_a_second_tier_counts_for_all_switches_below() -> None:
    """The T1 keeps 3 of 4 uplinks, each leaf of its plane 15 of 16 paths; a T1 has no rail."""
    assert ratios(capacity(), [number("a-t1-0-0", "u0")]) == {
        "switch a-t0-0-0": 15 / 16,
        "switch a-t0-0-1": 15 / 16,
        "switch a-t1-0-0": 3 / 4,
        "plane 0 of pod a": 23 / 24,
        "pod a": 47 / 48,
    }


def test_lost_links_count_but_only_groups_of_the_target_are_compared() -> None:
    """A loss elsewhere in the pod lowers the shared groups and adds none."""
    other = number("a-t0-1-1", "u0")
    assert ratios(capacity(), [number("a-t0-0-0", "u0")], [other]) == {
        "switch a-t0-0-0": 3 / 4,
        "plane 0 of pod a": 23 / 24,
        "rail 0 of pod a": 7 / 8,
        "pod a": 46 / 48,
    }


def test_a_link_that_carries_nothing_is_not_subtracted_twice() -> None:
    """The target counts as lost, also if it is down already."""
    own, target = capacity(), number("a-t0-0-0", "u0")
    expected = ratios(own, [target])
    lose(own, [target])
    assert ratios(own, [target]) == expected
    assert ratios(own, [target], [target]) == expected


def test_a_link_of_hosts_has_no_number() -> None:
    """Host links and links that the topology does not have are not counted."""
    host_link, other = TOP.link_at(Port("a-h0", "e00")), small_fabric().link_at(Port("p1-l0", "u0"))
    assert host_link is not None
    assert other is not None
    assert (capacity().number_of(host_link), capacity().number_of(other)) == (None, None)


def test_refresh_evaluates_one_pod() -> None:
    """Links of other pods keep their state."""
    own, target = Capacity(TOP), number("b-t0-0-0", "u0")
    (pod,) = own.pods_of(target)
    own.refresh(pod, {TOP.graph.links[number("b-t0-0-0", "u1")].id})
    assert ratios(own, [target])["switch b-t0-0-0"] == 1 / 2
    assert ratios(own, [target])["pod b"] == 46 / 48
    assert ratios(own, [number("a-t0-0-0", "u0")])["pod a"] == 0


def test_two_tiers_have_a_domain_for_each_leaf() -> None:
    """Without tiers between them, a leaf shares no path with another; the pod still counts both."""
    top = small_fabric()
    target = number("p1-l0", "u0", top)
    lost = [number("p1-l1", port, top) for port in ("u0", "u1")]
    assert ratios(capacity(top), [target], lost) == {
        "switch p1-l0": 3 / 4,
        "rail 0 of pod p1": 5 / 8,
        "pod p1": 5 / 8,
    }


@pytest.mark.parametrize("kind", ["plane", "rail", "pod"])
def test_each_group_alone_can_be_below_the_floor(kind: str) -> None:
    """All switches of the target keep their floor, and the plane, the rail or the pod does not."""
    lost = {
        "plane": [number(f"a-t1-0-{agg}", f"u{top}") for agg in (1, 2, 3) for top in (0, 1)],
        "rail": [number("a-t0-1-0", f"u{agg}") for agg in (0, 1)],
        "pod": [number(f"a-t1-1-{agg}", f"u{top}") for agg in range(4) for top in range(4)],
    }[kind]
    own, target = capacity(), number("a-t0-0-0", "u0")
    floor = {"plane": 0.72, "rail": 0.7, "pod": 0.7}[kind]
    assert Group("switch", "a-t0-0-0") not in own.below([target], floor)
    assert {group.kind for group in own.below([target], floor, lost)} - {"switch"} == {kind}


@settings(max_examples=60, deadline=None)
@given(st.sets(st.sampled_from(FABRIC), max_size=30), st.sampled_from(FABRIC))
def test_paths_are_those_of_the_fabric(lost: set[int], target: int) -> None:
    """The paths of each affected switch are those that the fabric's own count finds; groups are recounted."""
    own = capacity(lost=lost)
    gone = sorted(lost | {target})
    for one in own.surviving([target]):
        if one.group.kind == "switch":
            ids = {TOP.graph.links[n].id for n in gone}
            assert one.ratio == paths(one.group.name, ids) / paths(one.group.name, set())
        if one.group.kind == "pod":
            members = [n for n in FABRIC if TOP.graph.links[n].pod == one.group.name]
            assert one.ratio == sum(n not in gone for n in members) / len(members)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sets(st.sampled_from(FABRIC)), max_size=6), st.sets(st.sampled_from(FABRIC)))
def test_incremental_counts_equal_a_recount(changes: list[set[int]], down: set[int]) -> None:
    """After any sequence of changes, all groups are those of a new Capacity with the same states."""
    own = capacity()
    for lost in (*changes, down):
        lose(own, lost)
    recounted = capacity(lost=down)
    assert own.surviving(FABRIC) == recounted.surviving(FABRIC)
    assert ratios(own, [FABRIC[0]], [FABRIC[1]]) == ratios(recounted, [FABRIC[0]], [FABRIC[1]])
