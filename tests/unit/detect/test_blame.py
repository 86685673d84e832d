"""Who is blamed for a crowded port: whom nobody can name first, then senders, and whose traffic waits."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pytest

from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.simulation import demo_fabric
from streams.simulation.demo_fabric import DemoShape
from streams.wire.models import Condition, Finding, Samples
from streams.wire.symptoms import CnpThrottledBegan, SymptomKind
from tests.worlds.live_stages import final_findings, histories, in_order, run, shuffled
from tests.worlds.observations import NIC, Cells, at, samples, span
from tests.worlds.small_world import findings, measured, play

FULL = 400e9 / 8
WHOLE = Topology(demo_fabric.inventory(DemoShape(pods=2, hosts=6, planes=1, spines=1, uplinks=1), at(0)))
HOSTS = tuple(f"pod1-host{n}" for n in range(1, 7))
RECEIVER, LAST = HOSTS[0], HOSTS[5]


def placed(**jobs: Iterable[str]) -> Topology:
    """The fabric with these jobs only."""
    (row, *_) = WHOLE.jobs
    return WHOLE.with_jobs(tuple(row._replace(job=job, device=host) for job, own in jobs.items() for host in own))


TOP = placed(train=[*HOSTS[:4], "pod2-host1"], other=HOSTS[4:])


@dataclass(frozen=True)
class Does:
    """What a host's port does from 120 s to 420 s, and else not."""

    crowded: bool = False
    slowed: float = 0
    """Times a second that it is told to slow down."""
    stifled: bool = False
    port: str = "mlx5_3"


def readings(own: dict[str, Does], last_s: float = 900) -> Iterator[Samples]:
    """Of the NICs of a pod's hosts."""
    for turn in range(int(last_s / 10)):
        for number, host in enumerate(HOSTS):
            does, t = own.get(host, Does()), turn * 10 + number
            during = max(0.0, min(t, 420) - 120)
            into = 1e13 + FULL * 0.5 * t + FULL * 0.47 * during * does.crowded
            counts = {
                (Metric.RX_BYTES, -1): into, (Metric.RX_PACKETS, -1): into / 4096,
                (Metric.ROCE_ECN_MARKED_PACKETS, -1): 0.4 * FULL / 4096 * during * does.crowded,
                (Metric.CNP_HANDLED, -1): 20 * t + does.slowed * during,
                (Metric.PFC_RX_PAUSE_USECONDS, 3): 6e5 * during * does.stifled,
                (Metric.TX_BYTES, -1): 1e13 + FULL * (0.5 * t - 0.4 * during * does.stifled),
                (Metric.SPEED_BPS, -1): 400e9,
            }  # fmt: skip
            cells: Cells = {column: {does.port: value} for column, value in counts.items()}
            yield samples(host, t, {}, source=NIC, indexed=cells, sequence=turn)


def said(top: Topology, **others: Does) -> tuple[Finding, str]:
    """The incast at the receiver, and all that its evidence says; others by `host2` and so on."""
    own = {RECEIVER: Does(crowded=True)} | {f"pod1-{name}": does for name, does in others.items()}
    (found,) = (f for f in findings(play(readings(own), top)) if f.condition is Condition.CONGESTION_INCAST)
    return found, "\n".join(evidence.statement for evidence in found.evidence)


SLOWED = Does(slowed=5000)


def test_where_nobody_is_slowed_nobody_is_named() -> None:
    """The counters of a few CNPs here and there name nobody; where the others are is said."""
    found, text = said(TOP, host2=Does(slowed=300))
    assert (
        "job train receives on pod1-host1: the senders are among its 4 other hosts; which of them is not known" in text
    )
    assert "1 more are in other pods" in text
    assert "pod1-host2" not in text
    assert found.blast_radius is not None
    assert found.blast_radius.hosts == (RECEIVER,)


def test_without_a_job_those_that_are_slowed_are_said_and_not_blamed() -> None:
    """Nothing connects them with the receiver but the time."""
    _, text = said(placed(other=HOSTS[4:]), host2=SLOWED)
    assert "no job is known on pod1-host1: its senders are not known" in text
    assert "throttled at the same time on this rail: pod1-host2" in text
    assert "most likely senders" not in text


def test_what_is_slowed_on_another_rail_sends_elsewhere() -> None:
    """Traffic keeps its rail."""
    _, text = said(TOP, host2=Does(slowed=5000, port="mlx5_2"))
    assert "is not known" in text


def test_the_slowed_hosts_of_the_receiving_job_are_its_senders() -> None:
    """Named with how often they are told to slow down, and of how many they are."""
    found, text = said(TOP, host2=SLOWED, host4=SLOWED)
    assert "job train receives on pod1-host1; most likely senders: pod1-host2, pod1-host4, " in text
    assert "up to 5020 congestion notifications a second" in text
    (own,) = (e for e in found.evidence if e.metric == "cnp_handled")
    assert (own.observed, own.peers) == (2.0, 3)
    assert found.final


def test_a_slowed_host_of_another_job_is_no_sender() -> None:
    """It is said that it is slowed, for it has a reason of its own."""
    _, text = said(TOP, host2=SLOWED, host5=SLOWED)
    assert "most likely senders: pod1-host2, throttled" in text
    assert "throttled as well, but no senders, because they run other: pod1-host5" in text


def test_victims_are_hosts_of_other_jobs_at_the_leaf_that_are_paused_and_send_far_less() -> None:
    """They and their job are hit by it; hosts of the receiving job are no victims of their own."""
    found, text = said(TOP, host2=SLOWED, host3=Does(stifled=True), host5=Does(stifled=True))
    assert "victims: pod1-host5 of job other at the same leaf" in text
    assert found.blast_radius is not None
    assert found.blast_radius.hosts == (RECEIVER, "pod1-host5")
    assert found.blast_radius.jobs == ("other", "train")
    assert found.blast_radius.gpus == 16


@pytest.mark.parametrize("restart_at", [None, 130, 150, 200, 430])
def test_a_port_tells_once_that_it_is_slowed_and_once_that_it_is_not(restart_at: float | None) -> None:
    """After thirty seconds of it; the same over a restart, and nothing of the others."""
    told = measured(TOP, readings({RECEIVER: SLOWED}), restart_at)
    assert [s.kind for s in told] == [SymptomKind.CNP_THROTTLED_BEGAN, SymptomKind.CNP_THROTTLED_ENDED]
    assert [span(s) for s in told] == [(120, 150), (420, 430)]
    assert isinstance(told[0].payload, CnpThrottledBegan)
    assert told[0].payload.cnp_per_s == 5020


MIXED = {
    RECEIVER: Does(crowded=True), HOSTS[1]: SLOWED, HOSTS[2]: Does(slowed=3000, stifled=True),
    HOSTS[4]: Does(stifled=True), LAST: SLOWED,
}  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2])
def test_order_repetition_and_restarts_decide_nobody_s_guilt(seed: int) -> None:
    """Whoever is heard first, and wherever a stage is taken over: the last revisions are the same."""
    messages = in_order(readings(MIXED, 800))
    chance = random.Random(seed)
    arrived = shuffled(messages, 18, chance)
    assert final_findings(run(arrived, TOP)) == final_findings(run(messages, TOP)) != []
    killed = {(chance.randrange(len(arrived)), chance.randrange(4)) for _ in range(12)}
    assert histories(run(arrived, TOP, killed)) == histories(run(arrived, TOP))
