"""Senders and victims of an incast: unknown senders first, then named ones, then victims."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from streams.fabric.topology import Topology
from streams.wire.models import Condition, Finding
from streams.wire.symptoms import CnpThrottledBegan, SymptomKind
from tests.worlds.observations import at, span
from tests.worlds.slowed_hosts import CNP_THROTTLED, Does, readings
from tests.worlds.small_world import findings, measured, play

WHOLE = Topology(demo_fabric.inventory(DemoShape(pods=2, hosts=6, planes=1, spines=1, uplinks=1), at(0)))
HOSTS = tuple(f"pod1-host{n}" for n in range(1, 7))
RECEIVER, LAST = HOSTS[0], HOSTS[5]


def placed(**jobs: Iterable[str]) -> Topology:
    """The fabric with these jobs only."""
    (row, *_) = WHOLE.jobs
    return WHOLE.with_jobs(tuple(row._replace(job=job, device=host) for job, own in jobs.items() for host in own))


TOP = placed(train=[*HOSTS[:4], "pod2-host1"], other=HOSTS[4:])


def published(top: Topology, **others: Does) -> tuple[Finding, str]:
    """Return the incast at the receiver and the text of its evidence; others by `host2` and so on."""
    own = {RECEIVER: Does(incast=True)} | {f"pod1-{name}": does for name, does in others.items()}
    (found,) = (f for f in findings(play(readings(HOSTS, own), top)) if f.condition is Condition.CONGESTION_INCAST)
    return found, "\n".join(evidence.statement for evidence in found.evidence)


def test_without_throttled_hosts_no_sender_is_named() -> None:
    """A few CNPs name no sender; the evidence counts the hosts in this pod and in other pods."""
    found, text = published(TOP, host2=Does(cnp_throttled=300))
    assert (
        "job train receives on pod1-host1: the senders are among its 4 other hosts; which of them is not known" in text
    )
    assert "because none of the 3 in its pod is throttled" in text
    assert "none of the 1 hosts of job train in other pods is throttled on this rail" in text
    assert "pod1-host2" not in text
    assert found.blast_radius is not None
    assert found.blast_radius.hosts == (RECEIVER,)


def test_without_a_job_throttled_hosts_are_named_but_no_senders() -> None:
    """Nothing connects them with the receiver but the time."""
    _, text = published(placed(other=HOSTS[4:]), host2=CNP_THROTTLED)
    assert "no job is known on pod1-host1: its senders are not known" in text
    assert "throttled at the same time on this rail: pod1-host2" in text
    assert "most likely senders" not in text


def test_a_host_throttled_on_another_rail_is_no_sender() -> None:
    """Traffic keeps its rail."""
    _, text = published(TOP, host2=Does(cnp_throttled=5000, port="mlx5_2"))
    assert "is not known" in text


def test_the_throttled_hosts_of_the_receiving_job_are_its_senders() -> None:
    """Named with their rate of congestion notifications, and out of how many hosts."""
    found, text = published(TOP, host2=CNP_THROTTLED, host4=CNP_THROTTLED)
    assert "job train receives on pod1-host1; most likely senders: pod1-host2, pod1-host4, " in text
    assert "up to 5020 congestion notifications a second" in text
    (own,) = (e for e in found.evidence if e.metric == "cnp_handled")
    assert (own.observed, own.peers) == (2.0, 3)
    assert found.final


def test_a_throttled_host_of_another_job_is_no_sender() -> None:
    """The evidence names it as throttled for a reason of its own."""
    _, text = published(TOP, host2=CNP_THROTTLED, host5=CNP_THROTTLED)
    assert "most likely senders: pod1-host2, throttled" in text
    assert "throttled as well, but no senders, because they run other: pod1-host5" in text


def test_victims_are_hosts_of_other_jobs_at_the_leaf_that_are_paused_and_send_far_less() -> None:
    """They and their job are hit by it; hosts of the receiving job are no victims of their own."""
    found, text = published(TOP, host2=CNP_THROTTLED, host3=Does(throttled=True), host5=Does(throttled=True))
    assert "victims: pod1-host5 of job other at the same leaf" in text
    assert found.blast_radius is not None
    assert found.blast_radius.hosts == (RECEIVER, "pod1-host5")
    assert found.blast_radius.jobs == ("other", "train")
    assert found.blast_radius.gpus == 16


@pytest.mark.parametrize(("rail", "is_victim"), [(3, True), (4, False)])
def test_victims_at_other_leaves_share_the_rail(rail: int, is_victim: bool) -> None:
    """Of another job in the same pod, throttled and sending far less; another rail has other paths."""
    inventory = demo_fabric.inventory(DemoShape(pods=2, hosts=6, planes=1, spines=1, uplinks=1), at(0))
    moved = {(LAST, "mlx5_3"): ("pod1-leaf8", "Ethernet99/1")}
    links = tuple(
        one._replace(z_device=moved[one.a][0], z_port=moved[one.a][1], rail=rail) if one.a in moved else one
        for one in inventory.links
    )
    top = Topology(replace(inventory, links=links)).with_jobs(TOP.jobs)
    found, text = published(top, host6=Does(throttled=True))
    assert found.blast_radius is not None
    assert (LAST in found.blast_radius.hosts) is is_victim
    assert (f"victims: {LAST} of job other at other leaves of the same rail" in text) is is_victim


def test_victims_are_found_without_a_pause_frame() -> None:
    """Notifications and throughput show the victims in a fabric that congestion control alone slows."""
    slowed = Does(cnp_throttled=8000, throttled=True, paused=False)
    found, text = published(TOP, host2=CNP_THROTTLED, host5=slowed)
    assert "victims: pod1-host5 of job other at the same leaf, throttled and sending far less" in text
    assert found.blast_radius is not None
    assert found.blast_radius.jobs == ("other", "train")


def test_senders_and_victims_are_found_without_pause_and_without_notifications() -> None:
    """Repeated packets and the throughput show both in a fabric without flow and congestion control."""
    losing = Does(throttled=True, paused=False, repeated=900)
    found, text = published(TOP, host2=losing, host5=losing)
    assert "job train receives on pod1-host1; most likely senders: pod1-host2, slowed by losses meanwhile" in text
    assert "pod1-host2 repeat up to 900 lost packets a second and send far less meanwhile" in text
    assert "victims: pod1-host5 of job other at the same leaf" in text
    assert found.blast_radius is not None
    assert found.blast_radius.jobs == ("other", "train")


@pytest.mark.parametrize("restart_at", [None, 130, 150, 200, 430])
def test_cnp_throttling_begins_and_ends_with_one_symptom_each(restart_at: float | None) -> None:
    """It begins after thirty seconds; a restart changes nothing, and other ports have no symptom."""
    emitted = measured(TOP, readings(HOSTS, {RECEIVER: CNP_THROTTLED}), restart_at)
    assert [s.kind for s in emitted] == [SymptomKind.CNP_THROTTLED_BEGAN, SymptomKind.CNP_THROTTLED_ENDED]
    assert [span(s) for s in emitted] == [(120, 150), (420, 430)]
    assert isinstance(emitted[0].payload, CnpThrottledBegan)
    assert emitted[0].payload.cnp_per_s == 5020
