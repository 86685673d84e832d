"""Tests the capacity that hosts lose: exact numbers on small fabrics, and comparison with a recursive count."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.fabric.capacity import CapacityLoss, Impact, capacity_loss
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.graph import NO_LINKS
from streams.fabric.inventory import Device, Inventory
from streams.fabric.topology import Topology, links_of_subjects
from tests.worlds.small_fabric import link, topology

TOP = topology()
CLOS = Topology(generate(GenerateParams(gpus=64, radix=8, rails=4, gpus_per_host=4, planes=2)))
SINGLE = Topology(generate(GenerateParams(gpus=64, radix=8, rails=4, gpus_per_host=4)))
FABRICS = (TOP, CLOS, SINGLE)


def _lost(top: Topology, *subjects: str, broken: tuple[str, ...] = ()) -> CapacityLoss:
    return capacity_loss(top.graph, links_of_subjects(top, subjects), links_of_subjects(top, broken))


def _remaining(top: Topology, device: str, gone: frozenset[str]) -> Fraction:
    """Return the remaining uplink share of a device, counted link by link."""
    rank = {"host": 0, "T0": 1, "T1": 2, "T2": 3}
    ups = [c for c in top.uplinks_of.get(device, ())
           if rank[top.devices[c.upper.device].tier] > rank[top.devices[device].tier]]  # fmt: skip
    if not ups:
        return Fraction(1)
    return sum((_remaining(top, c.upper.device, gone) for c in ups if c.id not in gone), Fraction()) / len(ups)


@pytest.mark.parametrize(
    ("subject", "hosts", "share", "impact"),
    [
        ("plane:0", 4, 0.5, Impact.DEGRADED),
        ("device:p1-l0", 2, 0.5, Impact.DEGRADED),
        ("device:s1", 4, 0.25, Impact.DEGRADED),
        ("link:p1-h1/e0--p1-l0/d1", 1, 0.5, Impact.DEGRADED),
        ("port:s1/p1-l0", 2, 0.125, Impact.DEGRADED),
        ("device:p1-h1", 1, 1.0, Impact.DOWN),
        ("rail:p1-h1/0", 1, 1.0, Impact.DOWN),
        ("pod:p1", 2, 1.0, Impact.DOWN),
        ("device:unknown", 0, 0.0, Impact.NONE),
    ],
)
def test_one_plane_of_two_is_half_and_not_down(subject: str, hosts: int, share: float, impact: Impact) -> None:
    """A rail is down only if it retains no plane; above the leaves a share of a share is lost."""
    lost = _lost(TOP, subject)
    assert (len(lost.hosts()), lost.impact) == (hosts, impact)
    assert lost.affected_ratio == pytest.approx(share)
    assert lost.fabric_ratio == pytest.approx(share * hosts / 4)
    assert lost.gpus == 8 * hosts


def test_a_broken_link_is_not_counted_again() -> None:
    """The second plane takes the remaining half and the rail; the first one is not counted again."""
    second = _lost(TOP, "link:p1-h1/e1--p1-l1/d1", broken=("link:p1-h1/e0--p1-l0/d1", "rail:p1-h2/0"))
    assert (second.hosts(), second.affected_ratio, second.lost_rails) == (("p1-h1",), 0.5, (("p1-h1", 0),))
    again = _lost(TOP, "rail:p1-h2/0", broken=("device:p1-h2",))
    assert (again.hosts(), again.impact) == ((), Impact.NONE)


def test_hosts_below_the_minimum_share_are_omitted() -> None:
    """A spine takes a quarter from every host: a minimum of 26 % selects none."""
    lost = _lost(TOP, "device:s1")
    assert (len(lost.hosts(0.25)), lost.hosts(0.26)) == (4, ())


def test_links_are_weighted_by_speed() -> None:
    """A port of 200 beside one of 400 is a third of both."""
    devices = (Device("h", "host", "host"), Device("a", "switch", "T0", plane=0), Device("b", "switch", "T0", plane=1))
    links = (
        link("h/0", "a/0", "host-link", rail=0, speed_bps=400),
        link("h/1", "b/0", "host-link", rail=0, speed_bps=200),
    )
    top = Topology(Inventory(devices=devices, links=links))
    assert _lost(top, "plane:1").affected_ratio == pytest.approx(1 / 3)


@given(st.sampled_from(FABRICS), st.data())
def test_shares_equal_the_recursive_count(top: Topology, data: st.DataObject) -> None:
    """For any failed and any broken links the loss of a host is its share before less its share after."""
    graph, link_ids = top.graph, sorted(top.links)
    gone = frozenset(data.draw(st.lists(st.sampled_from(link_ids), max_size=30)))
    broken = frozenset(data.draw(st.lists(st.sampled_from(link_ids), max_size=30)))
    numbers = [graph.numbers_of(top.links[each] for each in some) for some in (gone, broken)]
    lost = capacity_loss(graph, *numbers)
    hosts = [name for name, device in top.devices.items() if device.kind == "host"]
    expected = {name: _remaining(top, name, broken) - _remaining(top, name, broken | gone) for name in hosts}
    found = {graph.names[host]: share for host, share in zip(lost.host.tolist(), lost.share.tolist(), strict=True)}
    assert found == pytest.approx({name: float(share) for name, share in expected.items() if share})
    assert lost.fabric_ratio == pytest.approx(float(sum(expected.values()) / len(hosts)))


@given(st.sampled_from(FABRICS), st.data())
def test_rails_without_a_plane_are_down(top: Topology, data: st.DataObject) -> None:
    """Every link of the rail failed or leads to a switch without uplinks."""
    link_ids = sorted(top.links)
    gone = frozenset(data.draw(st.lists(st.sampled_from(link_ids), max_size=len(link_ids))))
    lost = capacity_loss(top.graph, top.graph.numbers_of(top.links[each] for each in gone))
    rails: dict[tuple[str, int], Fraction] = {}
    for link_ in top.links.values():
        if link_.role == "host-link":
            assert link_.rail is not None
            carries = Fraction() if link_.id in gone else _remaining(top, link_.upper.device, gone)
            key = (link_.lower.device, link_.rail)
            rails[key] = rails.get(key, Fraction()) + carries
    assert lost.lost_rails == tuple(sorted(key for key, carries in rails.items() if not carries))
    assert (lost.impact is Impact.DOWN) == bool(lost.lost_rails)


@given(st.sampled_from(FABRICS), st.data())
def test_more_failed_links_never_reduce_the_loss(top: Topology, data: st.DataObject) -> None:
    """Losses step by step add up to the loss at once."""
    every = np.arange(len(top.graph.links))
    some = data.draw(st.lists(st.sampled_from(every.tolist()), max_size=20))
    first, second = np.array(some[: len(some) // 2], np.int64), np.array(some[len(some) // 2 :], np.int64)
    steps = capacity_loss(top.graph, first).fabric_ratio + capacity_loss(top.graph, second, first).fabric_ratio
    assert capacity_loss(top.graph, np.union1d(first, second)).fabric_ratio == pytest.approx(steps)
    assert capacity_loss(top.graph, every).fabric_ratio == pytest.approx(1.0)
    assert capacity_loss(top.graph, NO_LINKS).fabric_ratio == 0.0
