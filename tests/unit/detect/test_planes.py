"""NICs of several planes: the severity and the text of a finding go by the planes that a rail of a host retains."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest

from streams.fabric.clos import GenerateParams, generate
from streams.fabric.topology import Topology
from streams.report.job.footprint import Coverage, JobFootprint
from streams.report.job.impact import job_impacts
from streams.report.job.render_verdict import verdict_lines
from streams.report.job.verdict import Verdict
from streams.wire.models import Condition, Finding, Severity
from tests.worlds.small_fabric import job
from tests.worlds.small_world import SmallWorld, findings, play

WARNING, CRITICAL = Severity.WARNING, Severity.CRITICAL


@cache
def _fabric(planes: int, jobs: tuple[tuple[str, int], ...] = ()) -> Topology:
    """Three hosts of one NIC, each plane with a single switch."""
    own = generate(GenerateParams(gpus=3, rails=1, gpus_per_host=1, radix=4, planes=planes, jobs=0))
    allocations = (job(name, f"host-{host:05d}", "1970-01-01T00:00:00+00:00") for name, host in jobs)
    return Topology(replace(own, jobs=tuple(allocations)))


def _port(planes: int, host: int, plane: int) -> str:
    return f"host-{host:05d}/{f'eth_r0_p{plane}' if planes > 2 else f'mlx5_{plane}'}"


def _lost(planes: int, lost: Sequence[tuple[int, int]], jobs: tuple[tuple[str, int], ...] = ()) -> list[Finding]:
    """Return the final link/down of each lost host and plane; they are lost 40 s apart until the same time."""
    down = {_port(planes, *one): [(100.0 + 40 * number, 700.0)] for number, one in enumerate(lost)}
    world = SmallWorld(topology=_fabric(planes, jobs), down=down)
    final = findings(play(world.rounds(1000), world.topology))
    assert [one.condition for one in final] == [Condition.LINK_DOWN] * len(lost)
    return final


ALL_OF_8 = [(1, plane) for plane in range(8)]
LEFT = {
    # planes, lost (host, plane), severity, the planes left in each finding's summary, the share in its evidence
    "1 of 8": (8, [(1, 3)], WARNING, "keeps 7 of 8 planes", "12.5%"),
    "1 of 4": (4, [(1, 3)], WARNING, "keeps 3 of 4 planes", "25%"),
    "1 of 3": (3, [(1, 2)], WARNING, "keeps 2 of 3 planes", "33.3%"),
    "2 of 8": (8, [(1, 3), (1, 4)], CRITICAL, "keeps 6 of 8 planes", "25%"),
    "5 of 8": (8, ALL_OF_8[:5], CRITICAL, "keeps 3 of 8 planes", "62.5%"),
    "8 of 8": (8, ALL_OF_8, CRITICAL, "keeps none of 8 planes", "100%"),
    "1 of 8 of two hosts, in two planes": (8, [(1, 3), (2, 4)], WARNING, "keeps 7 of 8 planes", "12.5%"),
}  # fmt: skip


@pytest.mark.parametrize(("planes", "lost", "severity", "text", "share"), LEFT.values(), ids=LEFT)
def test_severity_goes_by_the_planes_that_are_left(
    planes: int, lost: list[tuple[int, int]], severity: Severity, text: str, share: str
) -> None:
    """One lost plane of many is a warning, more are critical; each finding has the least number that was left."""
    for found in _lost(planes, lost, (("train", 1), ("train", 2))):
        host = found.subject.id.removeprefix("link:").partition("/")[0]
        assert found.severity is severity
        assert found.summary.endswith(f"; rail 0 of {host} {text}")
        (evidence,) = (one for one in found.evidence if one.metric == "planes")
        assert f"{text}, {share} of its bandwidth is lost" in evidence.statement


OF_TWO = [([(1, 0)], WARNING), ([(1, 0), (2, 0)], WARNING), ([(1, 0), (1, 1)], CRITICAL)]


@pytest.mark.parametrize(("lost", "severity"), OF_TWO)
def test_of_two_planes_one_is_enough(lost: list[tuple[int, int]], severity: Severity) -> None:
    """A fabric of two planes is rated and described without counting planes, also if two hosts of a job lose one."""
    for found in _lost(2, lost, (("train", 1), ("train", 2))):
        assert found.severity is severity
        assert "planes" not in found.summary


def test_planes_that_are_lost_one_after_the_other_are_one_lost_plane() -> None:
    """The first plane is back before the second is lost."""
    down = {_port(8, 1, 3): [(100.0, 200.0)], _port(8, 1, 4): [(300.0, 400.0)]}
    world = SmallWorld(topology=_fabric(8), down=down)
    final = findings(play(world.rounds(700), world.topology))
    assert [(one.severity, "keeps 7 of 8" in one.summary) for one in final] == [(WARNING, True)] * 2


def test_a_host_that_lost_all_planes_shares_none_with_its_job() -> None:
    """Its NIC failed, so the lost plane of another host has another cause."""
    findings_of = _lost(8, [(1, 3), *((2, plane) for plane in range(8))], (("train", 1), ("train", 2)))
    assert [one.severity for one in findings_of] == [WARNING, *[CRITICAL] * 8]
    assert not any("several hosts" in one.summary for one in findings_of)


SHARED = {
    # the jobs of the hosts, the severity, and the job that lost the plane at several hosts
    "one job on both hosts": ((("train", 1), ("train", 2)), CRITICAL, "train"),
    "a job on each host": ((("train", 1), ("other", 2)), WARNING, ""),
    "a job on a third host as well": ((("train", 1), ("other", 2), ("train", 3)), WARNING, ""),
    "no job": ((), WARNING, ""),
}  # fmt: skip


@pytest.mark.parametrize(("jobs", "severity", "shared_by"), SHARED.values(), ids=SHARED)
def test_one_plane_at_several_hosts_of_a_job_is_critical(
    jobs: tuple[tuple[str, int], ...], severity: Severity, shared_by: str
) -> None:
    """Both findings are critical and name the job, also the first one, which was a warning."""
    for found in _lost(8, [(1, 3), (2, 3)], jobs):
        assert found.severity is severity
        assert (f"job {shared_by} lost plane 3 at several hosts" in found.summary) is bool(shared_by)


@pytest.mark.parametrize(("jobs", "severity"), [((("train", 1), ("train", 3)), CRITICAL), ((), WARNING)])
def test_the_switch_of_a_plane_is_rated_by_the_planes_of_its_hosts(
    jobs: tuple[tuple[str, int], ...], severity: Severity
) -> None:
    """A switch that is down takes one plane from each of its hosts."""
    world = SmallWorld(topology=_fabric(8, jobs), offline={"pod-01-t0-p3-r0-01": [(100, 10_000)]})
    (found,) = (
        one for one in findings(play(world.rounds(500), world.topology)) if one.condition is Condition.DEVICE_DOWN
    )
    assert found.severity is severity
    assert "3 hosts lose a plane: rail 0 of host-00001 keeps 7 of 8 planes" in found.summary


def test_a_job_lists_the_share_of_the_rail_that_it_lost() -> None:
    """A synchronous job waits for its slowest NIC, so the share of the rail is listed beside that of the host."""
    (found,) = _lost(8, [(1, 3)], (("train", 1), ("train", 2)))
    host = {"host-00001": [(0, found.started_at_ns + 1)]}
    place = JobFootprint("train", (0, 2 * found.started_at_ns), host, (), frozenset(), frozenset(host), frozenset())
    impacts = job_impacts(place, [found])
    lines = [line.strip() for line in verdict_lines(Verdict(place, impacts, (), Coverage(()), 0.95))]
    assert "12.5% of their capacity lost" in lines  # the host has one rail
    assert "rail 0 of host-00001 keeps 7 of 8 planes, 12.5% of its bandwidth is lost" in lines


def test_a_plane_is_counted_when_it_is_lost() -> None:
    """The first finding becomes critical with the second lost plane, and later counts the third."""
    down = {_port(8, 1, plane): [(100.0 + 200 * plane, 5000.0)] for plane in range(3)}
    world = SmallWorld(topology=_fabric(8), down=down)
    counted: dict[int, Severity] = {}
    for one in play(world.rounds(900), world.topology):
        if isinstance(one, Finding) and one.subject.plane == 0:
            left = next(int(e.observed or 0) for e in one.evidence if e.metric == "planes")
            counted.setdefault(left, one.severity)
    assert counted == {7: WARNING, 6: CRITICAL, 5: CRITICAL}
