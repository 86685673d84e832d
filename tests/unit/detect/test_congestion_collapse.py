"""congestion/collapse: what it is not, then what it is, where, whose, and what is left to a storm."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import Cause, Condition, Finding, Samples, Severity, Status
from streams.wire.symptoms import SymptomKind, ThrottledByPauseBegan
from tests.worlds.measure_stage import snapshot_head
from tests.worlds.observations import NIC, Cells, after, at, samples, span
from tests.worlds.small_fabric import begun
from tests.worlds.small_world import findings, measured, play

SPEED = 400e9
FULL = SPEED / 8

TOP = Topology(demo_fabric.inventory(DemoShape(pods=2, hosts=6, planes=1, spines=1, uplinks=1), at(0)))
POD1 = tuple(f"pod1-host{n}" for n in range(1, 7))


@dataclass(frozen=True)
class Rates:
    """The rates of a NIC's port in `spans`; otherwise it runs at 60 % of its speed and is never paused."""

    paused: float = 0.6
    """Ratio of the time."""
    sent: float = 0.15
    """Ratio of its speed."""
    spans: tuple[tuple[float, float], ...] = ((200, 400),)
    load: float = 0.6
    notified: float = 0
    """Congestion notifications a second."""
    repeated: float = 0
    """Packets a second that are sent again."""
    timeouts: float = 0


ALL = dict.fromkeys(POD1, Rates())


def readings(
    own: Mapping[str, Rates], cadence: float = 10, until: float = 700, hosts: Iterable[str] = POD1
) -> Iterator[Samples]:
    """Yield the readings of one port of each host."""
    t = 0.0
    while t <= until:
        for number, host in enumerate(hosts):
            rates = own.get(host, Rates(spans=()))
            now = t + number * cadence / 10
            during = sum(max(0.0, min(now, end) - begin) for begin, end in rates.spans)
            cells: Cells = {
                (Metric.PFC_RX_PAUSE_USECONDS, 3): {"mlx5_3": 1e6 * rates.paused * during},
                (Metric.CNP_HANDLED, -1): {"mlx5_3": 300 * now + rates.notified * during},
                (Metric.PACKET_SEQUENCE_ERRORS, -1): {"mlx5_3": 2 * now + rates.repeated * during},
                (Metric.LOCAL_ACK_TIMEOUTS, -1): {"mlx5_3": rates.timeouts * during},
                (Metric.TX_BYTES, -1): {"mlx5_3": 1e12 + FULL * (rates.load * (now - during) + rates.sent * during)},
                (Metric.SPEED_BPS, -1): {"mlx5_3": SPEED},
            }
            yield samples(host, now, {}, source=NIC, indexed=cells, sequence=round(t))
        t += cadence


def collapses(rows: Iterable[Samples], top: Topology = TOP) -> list[Finding]:
    """Return the collapses; nothing else is published."""
    published = findings(play(rows, top))
    assert all(f.condition is Condition.CONGESTION_COLLAPSE for f in published), published
    return published


def of_all(rates: Rates) -> dict[str, Rates]:
    """The same of all hosts of the pod."""
    return dict.fromkeys(POD1, rates)


NOT_A_COLLAPSE = {
    "a job's end: nothing is sent, and no port pauses": of_all(Rates(paused=0, sent=0)),
    "a phase in which the job computes": of_all(Rates(paused=0.02, sent=0.1)),
    "an all-reduce that is paused for a third of the time, and carries most of what it did": of_all(
        Rates(paused=0.35, sent=0.5)
    ),
    "a minute of it at most": of_all(Rates(spans=((205, 255),))),
    "two of six hosts: the senders of an incast": dict.fromkeys(POD1[:2], Rates()),
    "one after the other": {host: Rates(spans=((150 + 130 * n, 220 + 130 * n),)) for n, host in enumerate(POD1[:4])},
    "what sent next to nothing before": of_all(Rates(load=0.05, sent=0.015)),
    "what was never otherwise": of_all(Rates(spans=((0, 700),))),
    "congestion control that keeps all links busy": of_all(Rates(paused=0, sent=0.45, notified=8_000)),
    "a job's end, with the last notifications": of_all(Rates(paused=0, sent=0, notified=2_000)),
    "a phase with few notifications": of_all(Rates(paused=0, sent=0.15, notified=200)),
    "lost packets that slow no host": of_all(Rates(paused=0, sent=0.5, repeated=5_000)),
    "a phase with a few lost packets": of_all(Rates(paused=0, sent=0.15, repeated=20, timeouts=2)),
    "a job's end, with its last lost packets": of_all(Rates(paused=0, sent=0, repeated=5_000)),
    "two of six hosts that losses slow": dict.fromkeys(POD1[:2], Rates(paused=0, repeated=5_000)),
    "two of six hosts that congestion control slows": dict.fromkeys(POD1[:2], Rates(paused=0, notified=8_000)),
}


@pytest.mark.parametrize("case", NOT_A_COLLAPSE)
@pytest.mark.parametrize("cadence", [1, 10, 30])
def test_it_is_not(case: str, cadence: float) -> None:
    """Similar conditions open nothing."""
    assert collapses(readings(NOT_A_COLLAPSE[case], cadence)) == []


@pytest.mark.parametrize("cadence", [1, 10, 30])
def test_hosts_that_are_paused_and_send_far_less_at_once_are_one_finding(cadence: float) -> None:
    """A minute after its begin, one critical finding of the pod, with the hosts and their share of traffic."""
    (found,) = collapses(readings(ALL, cadence))
    assert (found.severity, found.status, found.cause) == (Severity.CRITICAL, Status.RESOLVED, Cause.CONGESTION)
    assert (found.subject.id, found.subject.a) == ("pod:pod1", None)
    began, emitted, ended = (after(ns) or 0 for ns in (found.started_at_ns, found.detected_at_ns, found.resolved_at_ns))
    assert 200 - cadence <= began <= 200 + 2 * cadence
    assert 260 <= emitted <= 260 + 3 * cadence
    assert 400 - 2 * cadence <= ended <= 400 + cadence
    assert found.summary.startswith("6 of 6 hosts of rail 3 in pod1 are paused and send 2")
    assert found.evidence[0].observed == pytest.approx(0.25, abs=0.05)
    assert "pfc" in found.evidence[-1].metric
    assert found.final


@pytest.mark.parametrize("cadence", [1, 10, 30])
def test_hosts_that_congestion_control_slows_without_a_pause_frame_are_one_finding(cadence: float) -> None:
    """In a fabric that hardly pauses, notifications and the throughput show the collapse."""
    (found,) = collapses(readings(of_all(Rates(paused=0, notified=8_000)), cadence))
    assert (found.severity, found.status, found.final) == (Severity.CRITICAL, Status.RESOLVED, True)
    assert after(found.started_at_ns) == pytest.approx(200, abs=2 * cadence)
    assert after(found.resolved_at_ns) == pytest.approx(400, abs=2 * cadence)
    assert found.summary.startswith("6 of 6 hosts of rail 3 in pod1 are throttled by congestion notifications and send")
    assert found.evidence[-1].metric == "cnp_handled"


@pytest.mark.parametrize("cadence", [1, 10, 30])
@pytest.mark.parametrize("lost", [Rates(paused=0, repeated=900), Rates(paused=0, timeouts=40)], ids=["again", "late"])
def test_hosts_that_losses_slow_without_pause_or_notifications_are_one_finding(lost: Rates, cadence: float) -> None:
    """Repeated packets, or timeouts, and the throughput show the collapse of a fabric that drops; its cause is open."""
    (found,) = collapses(readings(of_all(lost), cadence))
    assert (found.severity, found.status, found.cause) == (Severity.CRITICAL, Status.RESOLVED, Cause.UNKNOWN)
    assert after(found.started_at_ns) == pytest.approx(200, abs=2 * cadence)
    assert after(found.resolved_at_ns) == pytest.approx(400, abs=2 * cadence)
    assert found.summary.startswith("6 of 6 hosts of rail 3 in pod1 repeat lost packets and send")
    assert found.evidence[-1].metric == "packet_sequence_errors"


@pytest.mark.parametrize("cadence", [1, 10, 30])
@pytest.mark.parametrize(("pause", "count"), [(30, 1), (55, 1), (150, 2)])
def test_what_comes_back_within_a_minute_is_the_same_and_nothing_is_lost(
    pause: float, count: int, cadence: float
) -> None:
    """However late the second is reported after its begin."""
    own = of_all(Rates(spans=((200, 400), (400 + pause, 600 + pause))))
    found = collapses(readings(own, cadence, until=1000))
    assert after(found[-1].resolved_at_ns) == pytest.approx(600 + pause, abs=2 * cadence)
    assert len(found) == count


def test_half_of_the_hosts_suffice_and_the_impact_names_them() -> None:
    """The hosts and jobs of the impact are the throttled ones."""
    (found,) = collapses(readings(dict.fromkeys(POD1[:3], Rates())))
    assert found.blast_radius is not None
    assert found.blast_radius.hosts == POD1[:3]
    assert found.blast_radius.jobs == TOP.jobs_on(POD1[:3], at(200)) != ()


def test_a_job_is_a_group_where_its_rails_are_too_wide() -> None:
    """Three of a rail's eight hosts, which are all that a job has here."""
    wide = Topology(demo_fabric.inventory(DemoShape(pods=1, hosts=8, planes=1, spines=1, uplinks=1), at(0)))
    job = max(sorted({row.job for row in wide.jobs}), key=lambda name: len(wide.placement.hosts_of(name, at(200))))
    own = wide.placement.hosts_of(job, at(200))[:3]
    stays = tuple(row for row in wide.jobs if row.job != job or row.device in own)
    few = wide.with_jobs(stays)
    assert few.placement.hosts_of(job, at(200)) == own
    hosts = [f"pod1-host{n}" for n in range(1, 9)]
    (found,) = collapses(readings(dict.fromkeys(own, Rates()), hosts=hosts), few)
    assert found.summary.startswith(f"3 of 3 hosts of job {job} in pod1")
    assert collapses(readings(dict.fromkeys(own, Rates()), hosts=hosts), wide.with_jobs(())) == []


def test_it_stays_open_without_readings() -> None:
    """Missing readings do not resolve a finding."""
    (found,) = collapses(r for r in readings(ALL) if r.sampled_at_ns < at(300))
    assert found.resolved_at_ns is None


def test_twice_within_the_quiet_time_is_once() -> None:
    """Hosts that are free for less than a minute."""
    (found,) = collapses(readings(of_all(Rates(spans=((200, 300), (340, 420))))))
    assert 410 <= (after(found.resolved_at_ns) or 0) <= 430


def test_throttling_begins_and_ends_with_one_symptom_each() -> None:
    """The symptom has the ratio of the present to the former send rate."""
    published = measured(TOP, readings(ALL, hosts=POD1[:1]))
    assert [s.kind for s in published] == [SymptomKind.THROTTLED_BY_PAUSE_BEGAN, SymptomKind.THROTTLED_BY_PAUSE_ENDED]
    assert [span(s) for s in published] == [(200, 260), (400, 410)]
    assert isinstance(published[0].payload, ThrottledByPauseBegan)
    assert published[0].payload.tx_ratio == pytest.approx(0.25, rel=0.01)
    assert f"{published[0].payload.paused_ratio:.0%}" == "60%"


def test_a_port_without_traffic_is_a_storm_and_not_throttled() -> None:
    """The remaining traffic distinguishes the two."""
    kinds = {s.kind for s in measured(TOP, readings(of_all(Rates(paused=1.0, sent=0.001)), hosts=POD1[:1]))}
    assert kinds == {SymptomKind.PAUSE_RECEIVED_BEGAN, SymptomKind.PAUSE_RECEIVED_ENDED}


def test_a_healthy_port_has_no_state() -> None:
    """No state is retained of unthrottled ports, nor after the end."""
    stage = begun(Measure(DetectParams()), TOP)
    for row in readings(ALL):
        stage.process([row])
    assert snapshot_head(stage)["small"]["monitors"]["replayed"]["pause"][1] == []


POD2 = tuple(f"pod2-host{n}" for n in range(1, 7))


def test_pods_that_share_a_job_are_one_incident() -> None:
    """The first detected is the root, with the hosts and jobs of both; the other is its child."""
    hosts = (*POD1, *POD2)
    later = dict.fromkeys(POD2, Rates(spans=((230, 400),)))
    published = collapses(readings({**ALL, **later}, hosts=hosts))
    assert [f.subject.pod for f in published] == ["pod1", "pod2"]
    assert [f.parent_id for f in published] == ["", published[0].id]
    assert published[0].blast_radius is not None
    assert set(published[0].blast_radius.hosts) == set(hosts)
    assert published[0].summary.startswith("2 pods of job ")
    apart = TOP.with_jobs(())
    assert [f.parent_id for f in collapses(readings({**ALL, **later}, hosts=hosts), apart)] == ["", ""]


def test_a_collapse_that_is_over_before_another_begins_has_nothing_to_do_with_it() -> None:
    """The same job, ten minutes later."""
    later = dict.fromkeys(POD2, Rates(spans=((700, 900),)))
    published = collapses(readings({**ALL, **later}, hosts=(*POD1, *POD2), until=1200))
    assert [f.parent_id for f in published] == ["", ""]


def test_a_storm_explains_it() -> None:
    """One NIC through which nothing goes any more, in the same pod: the collapse is a child of the storm's root."""
    published = findings(play(readings({**ALL, POD1[0]: Rates(paused=1.0, sent=0, spans=((195, 420),))}), TOP))
    assert [f.condition for f in published] == [Condition.CONGESTION_PFC_STORM, Condition.CONGESTION_COLLAPSE]
    assert [f.parent_id for f in published] == ["", published[0].id]


def test_a_storm_that_came_after_it_or_holds_others_does_not_explain_it() -> None:
    """It was detected before the storm; or the storm is in another pod, without a job of this one."""
    after_it = {**ALL, POD1[0]: Rates(paused=1.0, sent=0, spans=((330, 420),))}
    elsewhere = {**ALL, POD2[0]: Rates(paused=1.0, sent=0, spans=((195, 420),))}
    for own, top in ((after_it, TOP), (elsewhere, TOP.with_jobs(()))):
        published = findings(play(readings(own, hosts=(*POD1, *POD2)), top))
        assert {f.condition for f in published} == {Condition.CONGESTION_PFC_STORM, Condition.CONGESTION_COLLAPSE}
        assert [f.parent_id for f in published] == ["", ""]
