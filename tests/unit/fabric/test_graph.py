"""The fabric as arrays: numbers of links, who is like whom, and which links go with which thing."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.fabric.graph import EquivalenceKey
from streams.fabric.ids import Port
from streams.fabric.inventory import Device, Inventory
from streams.fabric.subject_links import links_of_subject, links_of_subjects
from streams.fabric.topology import Topology
from streams.simulation.clos import GenerateParams, generate
from tests.worlds.small_fabric import inventory, job, link, topology

CLOS = Topology(generate(GenerateParams(gpus=96, radix=8, rails=4, gpus_per_host=4, planes=2)))
"""Three tiers in two planes."""
CABLES = tuple(CLOS.links.values())
ALIKE: tuple[EquivalenceKey, ...] = ("role", "tier", "pod", "plane", "rail", "lower")


def test_every_link_has_a_number_of_its_own() -> None:
    """And the number leads back to it."""
    graph = CLOS.graph
    numbers = graph.numbers_of(CABLES)
    assert sorted(numbers.tolist()) == list(range(len(CABLES)))
    assert graph.links_at(numbers) == CABLES
    with pytest.raises(ValueError, match="not in tuple"):
        graph.number_of(CABLES[0]._replace(id="link:another"))


def test_the_columns_say_what_the_links_say() -> None:
    """Ends, rails, planes, pods and roles; what is absent is so."""
    graph = CLOS.graph
    for number, cable in enumerate(graph.links):
        assert graph.names[graph.lower[number]] == cable.lower.device
        assert graph.names[graph.upper[number]] == cable.upper.device
        assert (graph.roles[graph.role[number]], graph.pods[graph.pod[number]]) == (cable.role, cable.pod)
        assert graph.rail[number] == (-1 if cable.rail is None else cable.rail)
        assert (graph.plane[number], graph.speed[number]) == (cable.plane, cable.speed_bps)


def test_ends_of_a_link_are_found_by_its_id() -> None:
    """The lower first; of an unknown one there are none."""
    top = topology()
    assert top.endpoints_of("link:p1-h1/e0--p1-l0/d1") == (Port("p1-h1", "e0"), Port("p1-l0", "d1"))
    assert top.endpoints_of("link:x/1--y/1") is None


def test_peers_of_a_host_link_are_the_same_rail_and_plane_of_its_pod() -> None:
    """And otherwise alike: its host's other rails, or the rail in the whole fabric."""
    top = topology()
    cable = top.links["link:p1-h1/e0--p1-l0/d1"]
    assert [peer.id for peer in top.peers_of(cable)] == ["link:p1-h2/e0--p1-l0/d2"]
    assert [peer.id for peer in top.peers_of(cable, ("lower", "role"))] == ["link:p1-h1/e1--p1-l1/d1"]
    assert [peer.lower.device for peer in top.peers_of(cable, ("rail", "plane", "role"))] == ["p1-h2", "p2-h1", "p2-h2"]


def test_peers_of_a_fabric_link_are_of_its_tier() -> None:
    """Links up from T1s are not compared with those up from T0s."""
    cable = next(c for c in CABLES if CLOS.devices[c.lower.device].tier == "T1")
    peers = CLOS.peers_of(cable)
    assert len(peers) > 1
    assert {CLOS.devices[peer.lower.device].tier for peer in peers} == {"T1"}
    assert {(peer.pod, peer.plane) for peer in peers} == {(cable.pod, cable.plane)}


@given(st.sampled_from(CABLES), st.sampled_from([c for n in range(7) for c in combinations(ALIKE, n)]))
def test_peers_are_all_that_are_alike(cable: "object", alike: tuple[EquivalenceKey, ...]) -> None:
    """In any set of likenesses: as one finds by comparing with each link."""

    def seen(own: object) -> list[object]:
        more = {"tier": CLOS.devices[own.lower.device].tier, "lower": own.lower.device}  # type: ignore[attr-defined]
        return [more[name] if name in more else getattr(own, name) for name in alike]

    expected = {other.id for other in CABLES if seen(other) == seen(cable) and other is not cable}
    assert {peer.id for peer in CLOS.peers_of(cable, alike)} == expected  # type: ignore[arg-type]


def test_devices_like_another_are_of_its_kind_tier_pod_and_plane() -> None:
    """Whose firmware or load may be compared."""
    graph = topology().graph
    assert graph.equivalent_devices("p1-h1") == ("p1-h2",)
    assert graph.equivalent_devices("s2") == ("s1", "s3", "s4")
    assert graph.equivalent_devices("p1-l0") == graph.equivalent_devices("nobody") == ()


def test_links_of_hosts_are_found_by_rail_and_plane() -> None:
    """Those of a job's hosts, for one; unknown hosts have none."""
    graph = topology().graph
    found = graph.links_at(graph.links_of_hosts(["p2-h1", "nobody", "p1-h2"], rail=0, plane=1))
    assert [cable.lower for cable in found] == [Port("p2-h1", "e1"), Port("p1-h2", "e1")]
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
def test_links_go_with_things_by_their_subject_ids(subject: str, ends: set[tuple[str, str]]) -> None:
    """Of what the inventory does not know, none."""
    top = topology()
    found = top.graph.links_at(links_of_subject(top, subject))
    assert {(cable.lower.device, cable.upper.device) for cable in found} == ends


def test_links_of_several_things_are_counted_once() -> None:
    """A link with both its ends."""
    top = topology()
    both = links_of_subjects(top, ["port:p1-h1/e0", "port:p1-l0/d1", "rail:p1-h2/0"])
    assert len(both) == 3
    assert len(links_of_subjects(top, [])) == 0


def test_jobs_that_change_leave_the_arrays_as_they_are() -> None:
    """They are made once for all topologies of one version, whoever asks first."""
    top = topology()
    later = top.with_jobs((job("j", "p1-h1", "1970-01-01T00:00:00+00:00"),))
    assert later.graph is top.graph


def test_links_of_unknown_speed_count_alike() -> None:
    """One that is not known leaves no sum of speeds."""
    assert set(topology().graph.speed.tolist()) == {1.0}
    own = inventory()
    fast = Inventory(own.devices, tuple(each._replace(speed_bps=7) for each in own.links))
    assert set(Topology(fast).graph.speed.tolist()) == {7.0}


def test_a_fabric_of_nothing_and_one_of_odd_links_have_arrays() -> None:
    """Links across a tier are no way up; a fabric without links has none."""
    graph = Topology(Inventory()).graph
    assert len(graph.links) == 0
    devices = (Device("a", "switch", "T0"), Device("b", "switch", "T0"), Device("z", "host", "disk"))
    graph = Topology(Inventory(devices=devices, links=(link("a/1", "b/1"), link("a/2", "z/1", "host-link")))).graph
    assert graph.is_up.tolist() == [False, False]
    assert np.array_equal(graph.links_of(np.array([0, 1])), [0, 1])
