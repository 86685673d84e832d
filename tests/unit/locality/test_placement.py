"""Placements: the nearest set of hosts that nothing is known against, and the reasons."""

import pytest

from streams.locality.answers import PlacementAnswer
from streams.locality.impairments import FABRIC, Impairment
from streams.locality.placement import place
from tests.worlds.localities import clos_groups, doubtful, out, state

POD1, POD2 = (tuple(f"pod{pod}-host{number}" for number in range(1, 5)) for pod in (1, 2))
DEGRADED = doubtful("rail:pod1-host2/3")


def sets(*impairments: Impairment, gpus: int, **options: object) -> list[tuple[str, ...]]:
    """Return the hosts of each set on the demo's fabric."""
    return [each.hosts for each in place(state(*impairments), gpus, **options).sets]  # type: ignore[arg-type]


def reasons(found: PlacementAnswer) -> dict[str, tuple[str, ...]]:
    """Return the reasons for which hosts were left out."""
    return {each.host: each.reasons for each in found.left_out}


def test_a_job_that_fits_a_unit_is_placed_in_one() -> None:
    """Both units suffice; the path has one switch."""
    found = place(state(), 32)
    assert [each.hosts for each in found.sets] == [POD1, POD2]
    assert (found.sets[0].tier, found.sets[0].switches, found.sets[0].units) == ("T0", 1, ("pod1-leaf1",))
    assert found.left_out == ()


def test_a_degraded_rail_is_avoided_and_named_and_returns_when_healthy() -> None:
    """The set goes to the other pod; the host is listed with the finding."""
    found = place(state(DEGRADED), 32)
    assert [each.hosts for each in found.sets] == [POD2]
    assert reasons(found) == {
        "pod1-host2": ("rail:pod1-host2/3: is slower than its peers (rail/degraded fedcba98)",),
    }
    assert sets(gpus=32)[0] == POD1


def test_a_smaller_job_uses_the_rest_of_the_unit() -> None:
    """The unit with three usable hosts is filled before a whole one is broken up."""
    assert sets(DEGRADED, gpus=24) == [("pod1-host1", "pod1-host3", "pod1-host4"), POD2[:3]]


def test_a_leaf_that_is_down_takes_the_whole_unit() -> None:
    """Each host has no link of that rail; every one is listed."""
    found = place(state(out("device:pod1-leaf4")), 16)
    assert [each.hosts for each in found.sets] == [POD2[:2]]
    assert set(reasons(found)) == set(POD1)


def test_a_job_larger_than_a_unit_takes_whole_units() -> None:
    """Connected by the spines, with the smallest share that is left there."""
    found = place(state(), 64).sets
    assert [(each.tier, each.switches, each.group) for each in found] == [("T1", 3, "spine1")]
    lost = [out(f"port:pod1-leaf1/Ethernet{number}/1") for number in range(5, 11)]
    assert place(state(*lost), 64).sets[0].ratio == pytest.approx(1 - 0.5 / 8)


def test_without_enough_gpus_there_is_no_set() -> None:
    """Neither too many, nor while the whole fabric is in maintenance."""
    assert sets(gpus=65) == sets(out(FABRIC), gpus=8) == []
    assert place(state(DEGRADED), 64).usable_gpus == 56


def test_doubtful_hosts_are_used_last_where_they_are_permitted() -> None:
    """The set without them is first; a job that needs them names them."""
    assert sets(DEGRADED, gpus=32, allow_doubtful=True) == [POD2, POD1]
    found = place(state(DEGRADED), 64, allow_doubtful=True).sets[0]
    assert found.doubtful == ("pod1-host2",) and found.why[-1] == "1 hosts are doubtful: pod1-host2"


PLANES_LEFT = [
    # the planes of rail 1 that host-00001 lost, what its reasons add, and whether it is usable as a doubtful host
    ((3,), "rail 1 keeps 7 of 8 planes", True),
    ((3, 4), "rail 1 keeps 6 of 8 planes", True),
    (tuple(range(8)), "rail 1 keeps none of 8 planes", False),
]


@pytest.mark.parametrize(("planes", "reason", "is_usable"), PLANES_LEFT)
def test_a_host_is_used_by_the_planes_that_its_rails_keep(
    planes: tuple[int, ...], reason: str, is_usable: bool
) -> None:
    """A host that keeps planes is doubtful, and used after one that keeps more; without any plane it is out."""
    groups = clos_groups(gpus=16, planes=8)
    lost = [out(f"port:host-00001/eth_r1_p{plane}") for plane in planes] + [out("port:host-00002/eth_r0_p0")]
    found = place(state(*lost, groups=groups), 8)
    assert [each.hosts for each in found.sets] == [("host-00003", "host-00004")]
    assert reasons(found)["host-00001"][-1] == reason
    assert len(reasons(found)["host-00001"]) == len(planes) + 1
    assert reasons(found)["host-00002"][-1] == "rail 0 keeps 7 of 8 planes"
    more = place(state(*lost, groups=groups), 12, allow_doubtful=True).sets
    assert ("host-00001" in more[0].hosts) is (len(planes) == 1)  # equal loss: the first by number
    assert bool(place(state(*lost, groups=groups), 16, allow_doubtful=True).sets) is is_usable


def test_busy_hosts_are_left_out_with_their_reason() -> None:
    found = place(state(), 24, busy={"pod1-host1": "train runs on it", "pod2-host1": "train runs on it"})
    assert [each.hosts for each in found.sets] == [POD1[1:], POD2[1:]]
    assert reasons(found)["pod1-host1"] == ("train runs on it",)


@pytest.mark.parametrize("gpus", [4, 16, 60, 100, 128, 200, 256])
def test_every_set_is_large_enough_and_in_one_group(gpus: int) -> None:
    """On a fabric of three tiers, where the smallest group that suffices has it."""
    groups = clos_groups()
    names = groups.graph.names
    for each in place(state(groups=groups), gpus, limit=5).sets:
        assert gpus <= each.gpus < gpus + 4 and len(set(each.hosts)) == len(each.hosts)
        level = next(level for level in groups.levels() if each.group in level.names)
        members = {names[host] for host in level.members[level.names.index(each.group)].tolist()}
        assert set(each.hosts) <= members


def test_parts_of_a_larger_job_are_few() -> None:
    """60 GPUs need 15 hosts: as many units as whole ones need, and no more."""
    groups = clos_groups()
    largest = max(len(hosts) for hosts in groups.units.members)
    for each in place(state(groups=groups), 60).sets:
        assert len(each.units) == -(-15 // largest)
