"""congestion/pfc-storm: what it is not, then what it is, where its root is, and what `measure` keeps of it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from streams.detect.evidence.episodes import BOTH_ENDS, ONE_END
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.replay.driver import event_time
from streams.wire.models import Cause, Condition, Event, EventKind, Finding, Message, Samples, Severity, Source, Status
from streams.wire.symptoms import SymptomKind
from tests.worlds.measure_stage import snapshot_head
from tests.worlds.observations import NIC, Cells, after, at, samples, span
from tests.worlds.small_fabric import begun
from tests.worlds.small_world import SmallWorld, findings, measured, play, statuses

SPEED = 400e9
FULL = SPEED / 8
FOREVER_PAUSED = SPEED / (65535 * 512)
"""Frames a second that keep a port of this speed paused."""

TOP = Topology(demo_fabric.inventory(DemoShape(pods=2, hosts=3, planes=1, spines=1, uplinks=1), at(0)))
PORT = "pod1-host2/mlx5_3"


@dataclass(frozen=True)
class Rates:
    """The rates of a NIC's port from 100 s to 160 s; before and after it is at half load and never paused."""

    frames: float = 0
    useconds: float | None = None
    transitions: float | None = None
    sent: float = 0
    speed: float | None = SPEED
    waited: float | None = None
    """The bytes a second that the port of InfiniBand did not send for lack of credits."""


def readings(own: Rates, cadence: float = 10, until: float = 300) -> Iterator[Samples]:
    """Yield readings of one paused port."""
    t = 0.0
    while t <= until:
        during, besides = max(0.0, min(t, 160) - 100), t - max(0.0, min(t, 160) - 100)
        indexed = {(Metric.PFC_RX_FRAMES, 3): 7 + own.frames * during}
        if own.useconds is not None:
            indexed[Metric.PFC_RX_PAUSE_USECONDS, 3] = own.useconds * during
        if own.transitions is not None:
            indexed[Metric.PFC_RX_TRANSITIONS, 3] = own.transitions * during
        if own.waited is not None:
            indexed[Metric.TX_WAIT_BYTES, -1] = own.waited * during + FULL / 5 * besides
        indexed[Metric.TX_BYTES, -1] = 1e12 + FULL / 2 * besides + own.sent * during
        if own.speed:
            indexed[Metric.SPEED_BPS, -1] = own.speed
        cells: Cells = {column: {"mlx5_3": value} for column, value in indexed.items()}
        yield samples("pod1-host2", t, {}, source=NIC, indexed=cells, sequence=round(t))
        t += cadence


def storms_in(rows: Iterable[Message]) -> list[Finding]:
    """Return the symptoms of pause."""
    return [f for f in findings(play(rows, TOP)) if f.condition is Condition.CONGESTION_PFC_STORM]


NOT_A_STORM = {
    "an all-reduce at full load that is paused now and then": Rates(
        frames=5_000, useconds=60_000, transitions=2_500, sent=0.95 * FULL
    ),
    "half the bandwidth, in congestion that never ends": Rates(
        frames=200_000, useconds=500_000, transitions=90_000, sent=0.5 * FULL
    ),
    "one of fifty senders of an incast, by frames alone": Rates(frames=200_000, sent=FULL / 50),
    "one of five hundred, whose pause is switched all the time": Rates(
        frames=200_000, useconds=998_000, transitions=4_000, sent=FULL / 500
    ),
    "a job's end: neither traffic nor pause": Rates(),
    "an idle port that is paused for a moment": Rates(frames=40, useconds=3_400, transitions=1),
    "frames that cannot be converted to time": Rates(frames=FOREVER_PAUSED, speed=None),
    "a port before an incast, which waits for credits and sends": Rates(waited=0.85 * FULL, sent=0.14 * FULL),
    "a port that waits for a half of the time": Rates(waited=0.5 * FULL),
    "waits at an unknown speed": Rates(waited=FULL, speed=None),
    "microseconds contradict frames": Rates(frames=FOREVER_PAUSED, useconds=100_000),
}


@pytest.mark.parametrize("case", NOT_A_STORM)
@pytest.mark.parametrize("cadence", [1, 10, 30])
def test_it_is_not(case: str, cadence: float) -> None:
    """Similar conditions open nothing."""
    unknown = Topology(demo_fabric.inventory(DemoShape(pods=1, hosts=1, planes=1, spines=1, uplinks=1), at(0)))
    top = unknown if NOT_A_STORM[case].speed is None else TOP
    assert findings(play(readings(NOT_A_STORM[case], cadence), top)) == []


STORMS = {
    "by frames": Rates(frames=FOREVER_PAUSED),
    "by microseconds": Rates(frames=2_000, useconds=990_000),
    "pause that stays on": Rates(frames=FOREVER_PAUSED, useconds=1_000_000, transitions=0),
    "what another priority sends": Rates(frames=FOREVER_PAUSED, sent=0.005 * FULL),
    "a port that waits for credits": Rates(waited=0.99 * FULL, sent=0.001 * FULL),
    "waits at a speed that only the inventory knows": Rates(waited=FULL, speed=None),
    "a speed that only the inventory knows": Rates(frames=FOREVER_PAUSED, speed=None),
}


@pytest.mark.parametrize("case", STORMS)
@pytest.mark.parametrize(("cadence", "detected"), [(1, 103), (10, 110), (30, 150)])
def test_it_is_found_with_the_reading_that_shows_it(case: str, cadence: float, detected: float) -> None:
    """Three seconds, or the first whole interval between two readings; the direction shows which end pauses."""
    (found,) = findings(play(readings(STORMS[case], cadence), TOP))
    assert (found.condition, found.severity) == (Condition.CONGESTION_PFC_STORM, Severity.CRITICAL)
    assert after(found.detected_at_ns) == detected
    assert after(found.started_at_ns) == (120 if cadence == 30 else 100)
    assert after(found.resolved_at_ns) == (150 if cadence == 30 else 160)
    assert found.evidence[0].at is not None
    assert found.evidence[0].at.device == "pod1-leaf4"
    assert (found.cause, found.confidence) == (Cause.SWITCH, ONE_END)
    assert found.coverage is not None
    assert found.coverage.missing == ("pod1-leaf4/Ethernet2/1",)


def test_a_hole_in_the_readings_does_not_end_it() -> None:
    """An unread port stays open, and the next reading confirms it."""
    rows = [s for s in readings(STORMS["by frames"]) if not at(120) <= s.sampled_at_ns < at(150)]
    (found,) = storms_in(rows)
    assert (after(found.started_at_ns), after(found.resolved_at_ns)) == (100, 160)
    (found,) = storms_in(s for s in readings(STORMS["by frames"]) if s.sampled_at_ns < at(130))
    assert found.status in (Status.OPEN, Status.UPDATED)


def test_counters_that_restart_are_no_pause() -> None:
    """After a boot two readings are needed, and a counter that fell is ignored."""
    rows = [
        samples("pod1-host2", t, {}, source=NIC, boot_id=1 + (t >= 100), sequence=t, indexed={
            (Metric.PFC_RX_FRAMES, 3): {"mlx5_3": 9e9 if t < 100 else 3e6 * (t >= 110)},
            (Metric.TX_BYTES, -1): {"mlx5_3": 1e15 if t < 100 else FULL * (t - 100)},
            (Metric.SPEED_BPS, -1): {"mlx5_3": SPEED},
        })
        for t in range(0, 300, 10)
    ]  # fmt: skip
    assert storms_in(rows) == []


PAUSED_BY = {
    "pod1-leaf4": ("pod1-host1", "pod1-host3", "spine1"), "spine1": ("pod2-leaf4",),
    "pod2-leaf4": ("pod2-host1", "pod2-host2", "pod2-host3"),
}  # fmt: skip
"""The devices that each device pauses."""


def tree(until: float = 400) -> dict[str, list[tuple[float, float]]]:
    """A NIC pauses its leaf, the leaf all others at it, the spine the other pod's leaf, and that its hosts."""
    pausing = {PORT: [(95.0, until)]}
    for device, hop in (("pod1-leaf4", 0.2), ("spine1", 0.4), ("pod2-leaf4", 0.6)):
        for cable in TOP.links_of[device]:
            own = cable.lower if cable.lower.device == device else cable.upper
            far = cable.far_end(own).device
            if far in PAUSED_BY[device]:
                pausing[f"{own.device}/{own.port}"] = [(95.0 + hop, until + hop)]
    return pausing


def findings_of(world: SmallWorld, until: float = 900) -> list[Finding]:
    """All revisions about storms."""
    published = play([*world.rounds(until), *statuses(world, until)], world.topology)
    return [f for f in published if isinstance(f, Finding) and f.condition is Condition.CONGESTION_PFC_STORM]


def test_the_root_is_the_port_of_a_device_that_pauses_and_is_not_paused() -> None:
    """Over two pods: one finding without a parent, all others its children, at most one page."""
    published = findings(findings_of(SmallWorld(topology=TOP, pausing=tree())))
    (root,) = [f for f in published if not f.parent_id]
    assert root.subject.a is not None
    assert f"{root.subject.a.device}/{root.subject.a.port}" == PORT
    assert len(published) == 8
    assert {f.parent_id for f in published if f.id != root.id} == {root.id}
    assert {f.cause for f in published} == {Cause.NIC}
    assert {f.subject.pod for f in published} == {"pod1", "pod2"}
    assert all(f.confidence == BOTH_ENDS for f in published)


def test_the_root_names_the_job_at_its_origin_and_the_paused_ones() -> None:
    """The root names the job at the origin of the pause, and the jobs that cannot send."""
    (root,) = [f for f in findings(findings_of(SmallWorld(topology=TOP, pausing=tree()))) if not f.parent_id]
    assert root.blast_radius is not None
    assert root.blast_radius.jobs == ("finetune-8b", "pretrain-70b")
    assert set(root.blast_radius.hosts) == {f"pod{p}-host{h}" for p in (1, 2) for h in (1, 2, 3)}
    assert "the root of 7 more paused links in 2 pods; job pretrain-70b runs on it" in root.evidence[-1].statement


def test_a_storm_of_one_link_is_the_root_of_no_other() -> None:
    """Its evidence names what its origin runs, and no number of further links."""
    (root,) = findings(findings_of(SmallWorld(topology=TOP, pausing={PORT: tree()[PORT]})))
    assert "is not paused by any device; job pretrain-70b runs on it" in root.evidence[-1].statement


def test_a_host_that_stalls_exonerates_the_fabric() -> None:
    """The NIC waits for its host's memory while it pauses: the cause of all of it is PCIe."""
    published = findings(findings_of(SmallWorld(topology=TOP, pausing=tree(), pcie_stalled={PORT: tree()[PORT]})))
    assert {f.cause for f in published} == {Cause.PCIE}
    (root,) = [f for f in published if not f.parent_id]
    assert any("its host is the cause, not the fabric" in e.statement for e in root.evidence)


def test_two_roots_are_two_incidents() -> None:
    """NICs at different leaves, neither of which is paused."""
    published = findings(
        findings_of(SmallWorld(topology=TOP, pausing={PORT: [(95, 400)], "pod2-host1/mlx5_0": [(105, 300)]}))
    )
    assert [f.parent_id for f in published] == ["", ""]


def test_ports_that_pause_each_other_in_a_circle_have_one_that_stands_for_them() -> None:
    """A deadlock has no root: the first of the circle is the parent of the others."""
    top = Topology(demo_fabric.inventory(DemoShape(pods=1, hosts=2, planes=1, spines=2, uplinks=1), at(0)))
    circle = {}
    for down, up in (("pod1-leaf1", "spine1"), ("pod1-leaf2", "spine2")):
        cable = next(c for c in top.uplinks_of[down] if c.upper.device == up)
        circle[f"{down}/{cable.lower.port}"] = [(95.0, 400.0)]
    for up, down in (("spine1", "pod1-leaf2"), ("spine2", "pod1-leaf1")):
        cable = next(c for c in top.uplinks_of[down] if c.upper.device == up)
        circle[f"{up}/{cable.upper.port}"] = [(95.0, 400.0)]
    published = findings(findings_of(SmallWorld(topology=top, pausing=circle)))
    roots = [f for f in published if not f.parent_id]
    assert (len(published), len(roots)) == (4, 1)


def test_its_begin_and_its_end_are_emitted() -> None:
    """Two symptoms for a minute of storm, however often it is read."""
    published = measured(TOP, readings(STORMS["by frames"], cadence=1))
    assert [s.kind for s in published] == [SymptomKind.PAUSE_RECEIVED_BEGAN, SymptomKind.PAUSE_RECEIVED_ENDED]
    assert [span(s) for s in published] == [(100, 103), (160, 161)]


def emitted(t: float, port: str = "Ethernet1/1", device: str = "pod1-leaf4") -> Event:
    return Event(device, port, EventKind.PFC_STORM, at(t), at(t), Source.SOURCE_GNMI, detail="queue 3")


def in_order(*of: Iterable[Message]) -> list[Message]:
    return sorted((message for messages in of for message in messages), key=event_time)


def counted(storms: dict[int, float]) -> Iterator[Samples]:
    """A watchdog's counter at some times."""
    for t, count in storms.items():
        cells: Cells = {(Metric.PFC_WATCHDOG_STORMS, 3): {"Ethernet1/1": count}}
        yield samples("pod1-leaf4", t, {}, indexed=cells, sequence=round(t))


def test_a_watchdog_report_opens_a_finding_at_once() -> None:
    """By its event, or by the reading that counts it; the far end pauses, and it resolves when no report follows."""
    quiet = list(counted(dict.fromkeys(range(0, 310, 10), 4.0)))
    growing = list(counted({t: 4.0 + (t >= 120) for t in range(0, 310, 10)}))
    assert storms_in(quiet) == []
    for rows in (in_order(quiet, [emitted(120)]), in_order(growing)):
        (found,) = storms_in(rows)
        assert (found.condition, found.severity) == (Condition.CONGESTION_PFC_STORM, Severity.CRITICAL)
        assert (after(found.started_at_ns), after(found.detected_at_ns)) == (120, 120)
        assert (found.status, after(found.resolved_at_ns)) == (Status.RESOLVED, 120)
        assert (found.cause, found.confidence) == (Cause.NIC, ONE_END)
        assert found.summary == (
            "pod1-host1/mlx5_3 pauses pod1-leaf4/Ethernet1/1 (queue 3) without end, by its watchdog, no traffic passes"
        )
        assert found.evidence[0].at is not None
        assert found.evidence[0].at.device == "pod1-host1"


def watched(
    count: Callable[[float], tuple[float, float, float]], *, until: float = 1800, cadence: float = 60,
    frames: Callable[[float], float] | None = None, queues: Sequence[int] = (3,),
) -> Iterator[Samples]:  # fmt: skip
    """Yield readings of a queue: its status, storms and restores by the time, and frames of pause if counted."""
    t = 0.0
    while t <= until:
        status, storms, restores = count(t)
        cells: Cells = {}
        for queue in queues:
            cells[Metric.PFC_WATCHDOG_STORMED, queue] = {"Ethernet1/1": status}
            cells[Metric.PFC_WATCHDOG_STORMS, queue] = {"Ethernet1/1": storms}
            cells[Metric.PFC_WATCHDOG_RESTORES, queue] = {"Ethernet1/1": restores}
            if frames is not None:
                cells[Metric.PFC_RX_FRAMES, queue] = {"Ethernet1/1": frames(t)}
        yield samples("pod1-leaf4", t, {}, indexed=cells, sequence=round(t))
        t += cadence


def test_a_queue_is_reported_for_as_long_as_the_watchdog_holds_it() -> None:
    """Stormed, and one storm more detected than restored; a status that its counters refute holds nothing."""
    stormed = watched(lambda t: (float(120 <= t < 900), 4.0 + (t >= 120), 4.0 + (t >= 900)))
    (found,) = storms_in(stormed)
    assert (after(found.started_at_ns), after(found.detected_at_ns), after(found.resolved_at_ns)) == (120, 120, 840)
    assert (found.cause, found.status, found.final) == (Cause.NIC, Status.RESOLVED, True)
    (still,) = storms_in(watched(lambda t: (float(t >= 120), 4.0 + (t >= 120), 4.0)))
    assert still.status in (Status.OPEN, Status.UPDATED)
    assert storms_in(watched(lambda t: (float(t >= 120), 4.0, 4.0))) == []
    (at_start,) = storms_in(watched(lambda _: (1.0, 5.0, 4.0)))
    assert after(at_start.started_at_ns) == 0


@pytest.mark.parametrize("cadence", [10, 60])
@pytest.mark.parametrize("queues", [(3,), (3, 4)])
def test_a_storm_that_is_restored_again_and_again_is_one(cadence: float, queues: Sequence[int]) -> None:
    """170 cycles in 20 minutes, on one or two queues, of which the readings show the counters only."""
    cycles = watched(lambda t: (0.0, *(2 * (min(1200.0, max(0.0, t - 300)) // 7.06,))), cadence=cadence, queues=queues)
    (found,) = storms_in(cycles)
    assert after(found.started_at_ns) in (300 + cadence, 300) and after(found.resolved_at_ns) == 1500
    assert "(queue 3)" in found.summary


def test_a_queue_without_pause_is_stuck() -> None:
    """The watchdog drops all traffic, and no frame of pause arrives for ten minutes: the switch is the cause."""
    state = lambda t: (float(t >= 120), 4.0 + (t >= 120), 4.0)  # noqa: E731
    (stuck,) = storms_in(watched(state, frames=lambda t: min(t, 180.0)))
    assert stuck.cause is Cause.SWITCH
    assert stuck.summary == (
        "the PFC watchdog of pod1-leaf4/Ethernet1/1 (queue 3) is stuck: it drops all traffic, and pod1-host1/mlx5_3"
        " does not pause it"
    )
    (paused,) = storms_in(watched(state, frames=lambda t: t))
    (unknown,) = storms_in(watched(state))
    assert {paused.cause, unknown.cause} == {Cause.NIC}


def waiting(used: Callable[[float], float], sent: float, freed: float | None = None) -> Iterator[Samples]:
    """Yield readings of a switch's port that sends at this rate with these credits in use."""
    for n in range(31):
        t = 10.0 * n
        cells: Cells = {
            (Metric.CREDITS_USED, 2): {"Ethernet1/1": used(t)},
            (Metric.TX_BYTES, -1): {"Ethernet1/1": 1e12 + FULL / 2 * min(t, 100) + sent * max(0, t - 100)},
            (Metric.SPEED_BPS, -1): {"Ethernet1/1": SPEED},
        }
        if freed is not None:
            cells[Metric.CREDITS_FREED, 2] = {"Ethernet1/1": freed * t}
        yield samples("pod1-leaf4", t, {}, indexed=cells, sequence=n)


def test_a_port_that_waits_for_credits_is_paused() -> None:
    """Credits in use without traffic: not on an idle port, nor in flight, nor while some are freed."""
    idle = list(waiting(lambda t: 40.0 * (t < 100), 0))
    busy = list(waiting(lambda _: 900.0, 0.5 * FULL))
    trickle = list(waiting(lambda _: 900.0, 0, freed=5.0))
    drains = list(waiting(lambda t: 900.0 - t, 0))
    assert [storms_in(rows) for rows in (idle, busy, trickle, drains)] == [[]] * 4
    (found,) = storms_in(waiting(lambda _: 900.0, 0, freed=0.0))
    assert (after(found.started_at_ns), after(found.detected_at_ns), found.cause) == (100, 110, Cause.NIC)
    assert found.summary == (
        "pod1-host1/mlx5_3 frees no credits of pod1-leaf4/Ethernet1/1 (virtual channel 2) 100% of the time, no traffic"
        " passes"
    )
    assert found.evidence[0].metric == "credits_used"


def test_readings_extend_the_episode_that_a_watchdog_began() -> None:
    """One episode lasts from the watchdog's event for as long as readings show it, with the ratio of the readings."""
    event = emitted(100.25, port="Ethernet2/1")
    world = SmallWorld(topology=TOP, pausing={PORT: [(100.0, 250.0)]})
    rows = in_order(world.rounds(600), statuses(world, 600), [event])
    (found,) = [f for f in findings(play(rows, TOP)) if f.condition is Condition.CONGESTION_PFC_STORM]
    assert after(found.detected_at_ns) == 100.25
    assert (after(found.resolved_at_ns), found.confidence) == (250, BOTH_ENDS)
    assert "100% of the time" in found.summary


def test_repeated_watchdog_events_are_one_storm() -> None:
    """This also applies when a reading began at the moment of the event."""
    rows = list(readings(STORMS["by frames"]))
    events = [
        emitted(100, "mlx5_3", "pod1-host2"),
        emitted(100, "mlx5_3", "pod1-host2"),
        emitted(115, "mlx5_3", "pod1-host2"),
    ]
    (found,) = storms_in(in_order(rows, events))
    assert (after(found.started_at_ns), after(found.resolved_at_ns)) == (100, 160)


def test_a_healthy_port_has_no_state() -> None:
    """No state is retained of ports without a storm, nor after its end."""
    stage = begun(Measure(DetectParams()), TOP)
    for row in readings(STORMS["by frames"]):
        stage.process([row])
    assert snapshot_head(stage)["small"]["monitors"]["replayed"]["pause"][0] == []
