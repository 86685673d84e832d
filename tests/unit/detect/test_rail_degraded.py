"""rail/degraded: negative cases first, then when it opens, what it reports, and when it resolves."""

from collections.abc import Callable, Sequence

import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from streams.detect.correlate.stage import Correlate
from streams.detect.detectors.rail_degraded.comparison import RailParams, RailReason, compare_rails
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import Cause, Condition, Finding, PeerGroup, PeerWindow, Source, Status, Symptom
from streams.wire.symptoms import SourceSilence
from tests.worlds.observations import after, at, down, episodes, last, off, on, samples, up
from tests.worlds.small_fabric import begun
from tests.worlds.small_world import play

TOP = Topology(demo_fabric.inventory(DemoShape(pods=1, hosts=6, planes=1, spines=1, uplinks=1), at(0)))
HOSTS = tuple(f"pod1-host{n}" for n in range(1, 7))
JOB = HOSTS[:5]
"""Of one job; host6 is of another."""
BAD = (HOSTS[1], 3)
RATE, FAST = 25e9 * 60, 4e11
Cell = tuple[str, int, int]
"""(host, rail, minute)"""
TX, TIMEOUTS, STALLS = Metric.TX_BYTES, Metric.LOCAL_ACK_TIMEOUTS, Metric.PCIE_STALLED_READ_SECONDS
METRICS = (TX, Metric.SPEED_BPS, TIMEOUTS, STALLS)
Readings = Callable[[Cell], dict[Metric, float]]


def is_bad(cell: Cell, begin: int = 2, end: int = 6) -> bool:
    """The rail BAD in some minutes."""
    return cell[:2] == BAD and begin <= cell[2] < end


def minutes(readings_of: Readings, count: int = 16, hosts: Sequence[str] = HOSTS) -> list[PeerWindow]:
    """All hosts, minute after minute; a cell has what differs from usual."""
    usual = {TX: RATE, Metric.SPEED_BPS: FAST, TIMEOUTS: 0.0, STALLS: 0.0}
    made = []
    for n in range(count):
        for host in hosts:
            cells = [usual | readings_of((host, rail, n)) for rail in range(8)]
            begin = at(20 + 60 * n)
            made.append(
                PeerWindow(
                    host, Source.SOURCE_NIC, PeerGroup.HOST_RAILS, begin, begin + ns(60), begin - ns(10),
                    begin + ns(50), tuple(f"mlx5_{rail}" for rail in range(8)), METRICS,
                    tuple(cell[metric] * (_noise(host, rail) if metric is TX else 1.0)
                          for metric in METRICS for rail, cell in enumerate(cells)),
                )
            )  # fmt: skip
    return made


def _noise(host: str, rail: int) -> float:
    """Within a hundredth: a healthy fabric stays within three."""
    return 1 + ((HOSTS.index(host) * 8 + rail) * 5 % 3 - 1) / 100


def slow(share: float, when: Callable[[Cell], bool] = is_bad) -> Readings:
    """Some cells carry a share of the others."""
    return lambda cell: {TX: RATE * share} if when(cell) else {}


def emitted(
    windows: Sequence[PeerWindow],
    until_min: float = 60,
    silent: Sequence[str] = (),
    symptoms: Sequence[Symptom] = (),
    topology: Topology = TOP,
) -> list[Finding]:
    """All revisions; each minute's windows come when they are final, and time goes on; some hosts are not read."""
    stage = begun(Correlate(DetectParams()), topology)
    outputs = stage.process(
        [Symptom(host, "", SourceSilence(False), at(0), source=Source.SOURCE_NIC) for host in silent]
    )
    outputs += stage.process(symptoms)
    for window in sorted(windows, key=lambda w: w.end_ns):
        if window.end_ns + ns(30) > at(60 * until_min):
            continue
        outputs += stage.advance_watermark(window.end_ns + ns(30) - 1)
        outputs += stage.process([window])
    outputs += stage.advance_watermark(at(60 * until_min))
    found = [f for f in episodes(outputs) if f.condition is Condition.RAIL_DEGRADED]
    assert all(f.detector == "rail/degraded" for f in found)
    return found


NONE: dict[str, list[PeerWindow]] = {
    "all alike": minutes(lambda _: {}),
    "five per cent less": minutes(slow(0.95)),
    "two slow minutes": minutes(slow(0.5, lambda c: is_bad(c, 2, 4))),
    "slow every other minute": minutes(slow(0.5, lambda c: is_bad(c, 0, 16) and c[2] % 2 == 0)),
    "the whole job slows": minutes(slow(0.4, lambda c: c[0] in JOB)),
    "all rails of a host fall together": minutes(slow(0.4, lambda c: c[0] == BAD[0])),
    "a rail that is slow on every host": minutes(slow(0.4, lambda c: c[1] == 3)),
    "an idle host": minutes(slow(0.0, lambda c: c[0] == BAD[0])),
    "an idle fabric": minutes(lambda c: {TX: RATE * 0.01 * (0.5 if is_bad(c) else 1)}),
    "a host of a job of its own": minutes(slow(0.5, lambda c: c[0] == HOSTS[5] and c[1] == 3)),
    "peers that differ as much": minutes(
        lambda c: {TX: RATE * (0.6 + 0.35 * ((HOSTS.index(c[0]) * 7 + c[1] * 3) % 5))} if c[1] == 3 else {}),
    "timeouts on every host": minutes(lambda _: {TIMEOUTS: 600.0}),
    "a counter that is not there": minutes(lambda c: {TX: -1.0} if is_bad(c) else {}),
}  # fmt: skip


@pytest.mark.parametrize("windows", NONE.values(), ids=NONE)
def test_what_is_not_degraded(windows: Sequence[PeerWindow]) -> None:
    """Idle hosts, whole jobs, whole hosts, whole rails, short spells, too few peers."""
    assert emitted(windows) == []


SOME: dict[str, tuple[list[PeerWindow], Cause, float, float, str]] = {
    # windows; cause, started, resolved (minutes after the first window), and the summary
    "slower than its peers": (minutes(slow(0.7)), Cause.UNKNOWN, 2, 6, "is slow: 140.0 Gb/s, 70% of the 199.0 Gb/s"),
    "a tenth and a bit less": (minutes(slow(0.88)), Cause.UNKNOWN, 2, 6, "is slow"),
    "trained low, for one minute": (
        minutes(lambda c: {Metric.SPEED_BPS: 2e11} if is_bad(c, 2, 3) else {}), Cause.NIC, 2, 3,
        "trained at 200 instead of 400 Gb/s"),
    "trained low on an idle host": (
        minutes(lambda c: {TX: 0.0} | ({Metric.SPEED_BPS: 2e11} if is_bad(c) else {})), Cause.NIC, 2, 6,
        "trained at 200"),
    "its NIC stalls on PCIe": (
        minutes(lambda c: {TX: RATE * 0.5, STALLS: 40.0} if is_bad(c) else {}), Cause.PCIE, 2, 6, "stalled on PCIe"),
    "retransmitting at full speed": (
        minutes(lambda c: {TIMEOUTS: 180.0} if is_bad(c) else {}), Cause.UNKNOWN, 2, 6, "retransmits 3.0 times"),
}  # fmt: skip


@pytest.mark.parametrize(("windows", "cause", "started", "resolved", "summary"), SOME.values(), ids=SOME)
def test_what_is_degraded(
    windows: Sequence[PeerWindow], cause: Cause, started: float, resolved: float, summary: str
) -> None:
    """One episode of one rail, from its first bad minute to the end of its last."""
    (final,) = last(emitted(windows))
    assert (final.subject.id, final.subject.rail, final.subject.role) == ("rail:pod1-host2/3", 3, "rail")
    assert (final.status, final.final, final.cause) == (Status.RESOLVED, True, cause)
    assert (after(final.started_at_ns), after(final.resolved_at_ns)) == (20 + 60 * started, 20 + 60 * resolved)
    assert summary in final.summary
    assert final.evidence[0].at == final.subject.a


def test_hosts_without_readings_are_no_peers() -> None:
    """With two of the job's hosts silent, two are left: too few peers to compare with."""
    assert emitted(minutes(slow(0.5)), silent=HOSTS[3:5]) == []
    assert emitted(minutes(slow(0.5)), silent=HOSTS[4:5]) != []


def test_a_stalling_rail_of_a_small_job_is_compared_with_the_hosts_of_other_jobs() -> None:
    """Two other hosts of the job are read. Its NIC stalls on PCIe, and that of no other host in the pod does."""
    stalling = minutes(lambda c: {TX: RATE * 0.5, STALLS: 40.0} if is_bad(c) else {})
    (final,) = last(emitted(stalling, silent=HOSTS[3:5]))
    assert (final.cause, final.subject.id, final.status) == (Cause.PCIE, "rail:pod1-host2/3", Status.RESOLVED)
    everywhere = minutes(lambda c: {TX: RATE * 0.5, STALLS: 40.0} if c[1] == 3 else {})
    assert emitted(everywhere, silent=HOSTS[3:5]) == []


def test_a_rail_that_is_down_or_shut_is_not_slow() -> None:
    """A rail that is down belongs to link/down or to an administrator; it trains for a minute afterwards."""
    windows = minutes(slow(0.0, lambda c: is_bad(c, 2, 6)))
    port = f"{BAD[0]}/mlx5_{BAD[1]}"
    assert emitted(windows) != []
    assert emitted(windows, symptoms=[down(port, 150), up(port, 375)]) == []
    assert emitted(windows, symptoms=[off(port, 150), on(port, 375)]) == []


def test_a_host_that_is_emitted_alone_is_compared_with_healthy_ones() -> None:
    """`measure` emits no host whose rails are equal: they are its peers all the same."""
    (final,) = last(emitted([w for w in minutes(slow(0.7)) if w.device == BAD[0]]))
    assert final.evidence[0].peers == 4


def test_it_opens_within_five_minutes_and_ends_after_five_good_ones() -> None:
    """Detected with its third bad window, RESOLVED with the fifth good one, final at once: all windows were."""
    windows = minutes(slow(0.7, lambda c: is_bad(c, 2, 5)))
    third = (20 + 60 * 5 + 30) / 60
    assert emitted(windows, third - 0.01) == []
    (opened,) = emitted(windows, third)
    assert (opened.status, after(opened.detected_at_ns)) == (Status.OPEN, third * 60)
    assert emitted(windows, third + 4.99)[-1].status is not Status.RESOLVED
    assert (emitted(windows, third + 5)[-1].status, emitted(windows, third + 5)[-1].final) == (Status.RESOLVED, True)


def test_it_stays_open_without_readings_of_the_host() -> None:
    """Missing is not healthy; of a host that is read, `measure` emits windows for ten minutes."""
    windows = [w for w in minutes(slow(0.7)) if w.device != BAD[0] or w.begin_ns < at(20 + 60 * 6)]
    silence = Symptom(BAD[0], "", SourceSilence(False), at(20 + 60 * 6 + 30), source=Source.SOURCE_NIC)
    assert {f.status for f in emitted(windows, symptoms=[silence])} <= {Status.OPEN, Status.UPDATED}
    (final,) = last(emitted(windows))
    assert (final.status, final.final, after(final.resolved_at_ns)) == (Status.RESOLVED, True, 20 + 60 * 6)


def test_two_rails_of_two_hosts_are_two_findings() -> None:
    """Each with its own peers."""
    found = last(emitted(minutes(slow(0.6, lambda c: is_bad(c) or (c[0] == HOSTS[3] and c[1] == 6)))))
    assert {f.subject.id for f in found} == {"rail:pod1-host2/3", "rail:pod1-host4/6"}


def test_a_rail_that_is_slow_for_a_day_is_one_finding_and_little_state() -> None:
    """Its beginning outlives its marks; the marks do not grow."""
    windows = minutes(slow(0.7, lambda c: is_bad(c, 2, 10**6)), count=240)
    found = emitted(windows, 240)
    assert len({f.id for f in found}) == 1
    assert {after(f.started_at_ns) for f in found} == {140}
    assert Status.RETRACTED not in {f.status for f in found}


def _speeds_alone(low: Sequence[int], until_s: int = 900) -> list[Finding]:
    """All revisions of a backtest in which only states and speeds are read; some rails of a host trained low."""
    rails = {host: [link.lower.port for link in TOP.links_of[host]] for host in HOSTS}
    readings = [
        samples(host, t, {
            Metric.OPER_UP: dict.fromkeys(ports, 1.0),
            Metric.ADMIN_UP: dict.fromkeys(ports, 1.0),
            Metric.SPEED_BPS: {
                port: 2e11 if host == BAD[0] and n in low and t >= 100 else 4e11 for n, port in enumerate(ports)
            },
        }, source=Source.SOURCE_NIC)
        for t in range(0, until_s, 10)
        for host, ports in rails.items()
    ]  # fmt: skip
    return [one for one in play(readings, TOP) if isinstance(one, Finding)]


def test_a_rail_that_trained_low_needs_no_byte_counters() -> None:
    """Its state is up, and the speed is all that is read."""
    (found,) = last(_speeds_alone([3]))
    assert (found.condition, found.cause, found.subject.id) == (
        Condition.RAIL_DEGRADED, Cause.NIC, "rail:pod1-host2/3",
    )  # fmt: skip


def test_all_rails_of_a_host_that_train_low_are_one_finding_with_children() -> None:
    """The first represents the others, and what does not change is not published each minute."""
    revisions = _speeds_alone(range(8))
    found = last(revisions)
    roots = [one for one in found if not one.parent_id]
    assert (len(found), len(roots)) == (8, 1)
    assert {one.parent_id for one in found if one.parent_id} == {roots[0].id}
    assert "8 rails of pod1-host2 trained low together" in roots[0].summary
    assert len(revisions) <= 3 * len(found)


def test_too_few_peers_show_no_healthy_rail_either() -> None:
    """A rail that was bad has no mark in a window in which it cannot be compared, so its episode goes on."""
    windows = {window.device: window for window in minutes(lambda _: {}, 1)}
    watched = {f"{BAD[0]}/{BAD[1]}"}
    compared = compare_rails(RailParams(), TOP, windows, HOSTS, watched)
    assert [verdict.reason for _, verdict in compared.values()] == [RailReason.NONE]
    assert compare_rails(RailParams(), TOP, windows, HOSTS[:3], watched) == {}


def test_each_period_of_a_rail_is_at_the_port_of_its_own_plane() -> None:
    """A rail that was bad on one plane and then is on the other is reported there, as a fault of that port is."""
    inventory = generate(GenerateParams(gpus=64, planes=2, jobs=0))
    top, ports = Topology(inventory), tuple(f"mlx5_{n}" for n in range(16))
    hosts = [device.name for device in inventory.devices if device.kind == "host"]
    host = hosts[1]
    links = [link for name in ports if (link := top.link_at(Port(host, name))) is not None]
    (first, plane), (second, other) = ((link.lower.port, link.plane) for link in links if link.rail == 3)
    stalled = {first: range(2, 6), second: range(25, 29)}
    usual = {TX: RATE, Metric.SPEED_BPS: FAST, TIMEOUTS: 0.0, STALLS: 0.0}
    slow_port = usual | {TX: 0.7 * RATE, STALLS: 42.0}
    windows = []
    for n in range(40):
        ill = {name for name, when in stalled.items() if n in when}
        for one in hosts:
            values = tuple(
                (slow_port if one == host and name in ill else usual)[metric]
                for metric in METRICS for name in ports
            )  # fmt: skip
            begin = at(20 + 60 * n)
            windows.append(
                PeerWindow(
                    one, Source.SOURCE_NIC, PeerGroup.HOST_RAILS, begin, begin + ns(60), begin - ns(10),
                    begin + ns(50), ports, METRICS, values,
                )
            )  # fmt: skip
    found = [f for f in emitted(windows, topology=top) if f.status is Status.RESOLVED]
    at_ports = {(f.started_at_ns, f.subject.a.port, f.subject.plane) for f in found if f.subject.a is not None}
    assert at_ports == {(at(140), first, plane), (at(1520), second, other)}
    assert plane != other
    assert all(f"{host}/{f.subject.a.port} is slow" in f.evidence[0].statement for f in found if f.subject.a)


def test_a_rail_that_trained_low_keeps_its_onset_and_has_few_revisions() -> None:
    """200 windows: the first bad window and the worst stay, and a window more is no revision."""
    slow = {n: 2e11 if n != 5 else 1e11 for n in range(2, 202)}
    windows = minutes(
        lambda cell: {Metric.SPEED_BPS: slow.get(cell[2], FAST)} if cell[:2] == BAD else {}, 220, HOSTS[:2]
    )
    found = emitted(windows, until_min=260)
    assert len({one.id for one in found}) == 1
    assert len(found) <= 10
    onset = at(20 + 60 * 2)
    assert {one.started_at_ns for one in found} == {one.evidence[0].window_start_ns for one in found} == {onset}
    assert "trained at 100 instead of 400" in found[-1].summary
    assert (found[-1].final, found[-1].resolved_at_ns) == (True, at(20 + 60 * 202))
