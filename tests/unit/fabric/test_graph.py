"""Tests the fabric as arrays: link numbers, peers, and the links of subjects."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.fabric.clos import GenerateParams, generate
from streams.fabric.graph import EquivalenceKey
from streams.fabric.ids import Port
from streams.fabric.inventory import Device, Inventory
from streams.fabric.topology import Topology, links_of_subject, links_of_subjects
from tests.worlds.small_fabric import inventory, job, link, topology

CLOS = Topology(generate(GenerateParams(gpus=96, radix=8, rails=4, gpus_per_host=4, planes=2)))
"""Three tiers in two planes."""
LINKS = tuple(CLOS.links.values())
ALIKE: tuple[EquivalenceKey, ...] = ("role", "tier", "pod", "plane", "rail", "lower")


def test_every_link_has_a_unique_number() -> None:
    """The number leads back to the link."""
    graph = CLOS.graph
    numbers = graph.numbers_of(LINKS)
    assert sorted(numbers.tolist()) == list(range(len(LINKS)))
    assert graph.links_at(numbers) == LINKS
    with pytest.raises(ValueError, match="not in this fabric"):
        graph.number_of(LINKS[0]._replace(id="link:another"))


def test_the_columns_equal_the_links() -> None:
    """Ends, rails, planes, pods and roles are equal; absent values are ABSENT."""
    graph = CLOS.graph
    for number, link_ in enumerate(graph.links):
        assert graph.names[graph.lower[number]] == link_.lower.device
        assert graph.names[graph.upper[number]] == link_.upper.device
        assert (graph.roles[graph.role[number]], graph.pods[graph.pod[number]]) == (link_.role, link_.pod)
        assert graph.rail[number] == (-1 if link_.rail is None else link_.rail)
        assert (graph.plane[number], graph.speed[number]) == (link_.plane, link_.speed_bps)


@given(st.sampled_from(LINKS), st.sampled_from([c for n in range(7) for c in combinations(ALIKE, n)]))
def test_peers_are_all_links_with_equal_columns(link_: "object", alike: tuple[EquivalenceKey, ...]) -> None:
    """For any set of columns the peers equal those of a comparison with each link."""

    def key_of(own: object) -> list[object]:
        derived = {"tier": CLOS.devices[own.lower.device].tier, "lower": own.lower.device}  # type: ignore[attr-defined]
        return [derived[name] if name in derived else getattr(own, name) for name in alike]

    expected = {other.id for other in LINKS if key_of(other) == key_of(link_) and other is not link_}
    assert {peer.id for peer in CLOS.peers_of(link_, alike)} == expected  # type: ignore[arg-type]


def test_links_of_hosts_are_found_by_rail() -> None:
    """A job uses it for the links of its hosts; unknown hosts have none."""
    graph = topology().graph
    found = graph.links_at(graph.links_of_hosts(["p2-h1", "unknown", "p1-h2"], rail=0))
    assert [link_.lower for link_ in found] == [
        Port(host, port) for host in ("p2-h1", "p1-h2") for port in ("e0", "e1")
    ]
    assert len(graph.links_of_hosts(["p2-h1"])) == 2
    assert len(graph.links_of_hosts(["p2-h1"], rail=1)) == len(graph.links_of_hosts([])) == 0


@pytest.mark.parametrize(
    ("subject", "ends"),
    [
        ("link:p1-h1/e0--p1-l0/d1", {("p1-h1", "p1-l0")}),
        ("port:p1-l0/d1", {("p1-h1", "p1-l0")}),
        ("port:p1-h1/e0", {("p1-h1", "p1-l0")}),
        ("device:p1-h1", {("p1-h1", "p1-l0"), ("p1-h1", "p1-l1")}),
        ("device:s1", {(f"{p}-l{n}", "s1") for p in ("p1", "p2") for n in (0, 1)}),
        ("rail:p1-h1/0", {("p1-h1", "p1-l0"), ("p1-h1", "p1-l1")}),
        ("plane:1", {(f"{p}-h{n}", f"{p}-l1") for p in ("p1", "p2") for n in (1, 2)}),
        ("pod:p1", {(f"p1-h{n}", f"p1-l{p}") for n in (1, 2) for p in (0, 1)}
         | {(f"p1-l{p}", f"s{n}") for p in (0, 1) for n in (1, 2, 3, 4)}),
        *((subject, set()) for subject in (
            "rail:p1-h1/1", "rail:p1-h1/x", "plane:9", "plane:x", "pod:", "pod:p9", "device:x", "port:p1-h1/x",
            "link:x", "weather:1")),
    ],
)  # fmt: skip
def test_links_of_subjects_are_found_by_subject_id(subject: str, ends: set[tuple[str, str]]) -> None:
    """A subject that the inventory does not contain has none."""
    top = topology()
    found = top.graph.links_at(links_of_subject(top, subject))
    assert {(link_.lower.device, link_.upper.device) for link_ in found} == ends


def test_links_of_several_subjects_are_counted_once() -> None:
    """A link and both its ends are one link."""
    top = topology()
    both = links_of_subjects(top, ["port:p1-h1/e0", "port:p1-l0/d1", "rail:p1-h2/0"])
    assert len(both) == 3
    assert len(links_of_subjects(top, [])) == 0


def test_changed_jobs_do_not_rebuild_the_arrays() -> None:
    """The arrays are built once for all topologies of one version."""
    top = topology()
    later = top.with_jobs((job("j", "p1-h1", "1970-01-01T00:00:00+00:00"),))
    assert later.graph is top.graph


def test_links_of_unknown_speed_have_equal_weight() -> None:
    """One unknown speed makes a sum of speeds meaningless."""
    assert set(topology().graph.speed.tolist()) == {1.0}
    own = inventory()
    fast = Inventory(own.devices, tuple(each._replace(speed_bps=7) for each in own.links))
    assert set(Topology(fast).graph.speed.tolist()) == {7.0}


def test_an_empty_fabric_and_one_of_unusual_links_have_arrays() -> None:
    """Links within a tier are not uplinks; a fabric without links has none."""
    graph = Topology(Inventory()).graph
    assert len(graph.links) == 0
    devices = (Device("a", "switch", "T0"), Device("b", "switch", "T0"), Device("z", "host", "disk"))
    graph = Topology(Inventory(devices=devices, links=(link("a/1", "b/1"), link("a/2", "z/1", "host-link")))).graph
    assert graph.is_up.tolist() == [False, False]
    assert np.array_equal(graph.links_of(np.array([0, 1])), [0, 1])
