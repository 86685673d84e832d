"""device/down and telemetry/stale over a small fabric: restarts, and failed devices, paths and collectors."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import pytest

from streams.detect.attribute.stage import Attribute
from streams.detect.detectors.device_down import DeviceDownParams, find_outages
from streams.detect.evidence.device_evidence import DeviceEvidence, Restart
from streams.detect.evidence.params import GroupingParams
from streams.detect.params import DetectParams
from streams.fabric.inventory import Device, Inventory
from streams.fabric.topology import Topology
from streams.wire.models import (
    Cause,
    Condition,
    Episode,
    EventKind,
    Finding,
    Message,
    Remediation,
    Samples,
    Severity,
    Source,
    Status,
    Subject,
    Symptom,
    Verdict,
)
from streams.wire.stage import Output
from streams.wire.symptoms import SourceSilence
from streams.wire.topics import FINDINGS
from tests.worlds import small_world
from tests.worlds.live_stages import in_order
from tests.worlds.measure_stage import UP, detected, stage, symptoms_of
from tests.worlds.observations import GNMI, SNMP, after, at, event, last, samples
from tests.worlds.small_fabric import begun, inventory, topology
from tests.worlds.small_world import SmallWorld, Statuses, findings, play, status

GONE = 1e9


@pytest.fixture(params=[small_world.statuses, small_world.statuses_each_round], ids=["rare", "each round"])
def statuses(request: pytest.FixtureRequest) -> Statuses:
    """Return the statuses of collectors: rare as today, and each round as in old recordings."""
    builder: Statuses = request.param
    return builder


def _of(found: list[Finding], condition: Condition) -> list[Finding]:
    return [f for f in found if f.condition is condition and f.status is not Status.RETRACTED]


def test_a_healthy_fabric_has_no_findings(statuses: Statuses) -> None:
    """Fifteen minutes of rounds and statuses publish nothing."""
    world = SmallWorld()
    assert play([*world.rounds(900), *statuses(world, 900)]) == []


def test_an_administrative_down_at_either_end_is_no_finding() -> None:
    """An administrative down explains the loss at the far end."""
    world = SmallWorld(disabled={"p1-l0/d1": [(100, 400)], "s1/p2-l0": [(200, 500)]})
    assert play(world.rounds(900)) == []


def test_a_short_restart_is_one_finding_and_its_ports_are_its_children() -> None:
    """A spine restarts: links of both pods go down, and the restart is the parent of each."""
    world = SmallWorld(offline={"s1": [(100, 220)]}, boots={"s1": 220})
    published = play(world.rounds(900))
    (reboot,) = _of(findings(published), Condition.DEVICE_DOWN)
    children = _of(findings(published), Condition.LINK_DOWN)
    assert (reboot.cause, reboot.severity, reboot.final) == (Cause.REBOOT, Severity.WARNING, True)
    assert (after(reboot.started_at_ns), after(reboot.resolved_at_ns)) == (90, 220)
    assert {c.subject.pod for c in children} == {"p1", "p2"}
    assert len(children) == 4
    assert {c.parent_id for c in children} == {reboot.id}
    assert {c.cause for c in children} == {Cause.REBOOT}
    assert all(f.parent_id for f in findings(published) if f.id != reboot.id and f.status is not Status.RETRACTED)


def test_no_link_of_a_restarted_device_is_acted_on() -> None:
    """No child is drained or repaired for it: only the device has a remediation."""
    world = SmallWorld(offline={"s1": [(100, 220)]}, boots={"s1": 220})
    published = play(world.rounds(900))
    decided = [one for one in published if isinstance(one, Remediation)]
    assert {r.target.id for r in decided} == {"device:s1"}
    assert decided[-1].verdict is Verdict.REVOKED


def test_a_restart_between_two_rounds_is_known_by_its_boot() -> None:
    """No port was seen down: the new boot id alone shows it."""
    world = SmallWorld(boots={"p1-l0": 100})
    (reboot,) = findings(play(world.rounds(900)))
    assert (reboot.condition, reboot.cause, reboot.final) == (Condition.DEVICE_DOWN, Cause.REBOOT, True)
    assert (after(reboot.started_at_ns), after(reboot.detected_at_ns), after(reboot.resolved_at_ns)) == (90, 100, 100)
    assert reboot.evidence[0].statement == "p1-l0 has another boot id than before"


def test_an_event_and_a_boot_id_of_one_restart_are_one_finding() -> None:
    """The device sends an event and its counters show the restart: one episode with one id."""
    world = SmallWorld(boots={"p1-l0": 100})
    events = [event("p1-l0", 97, EventKind.DEVICE_REBOOT)]
    both = findings(play([*world.rounds(900), *events]))
    by_boot = findings(play(world.rounds(900)))
    assert [f.id for f in both] == [f.id for f in by_boot]
    assert both[0].final


def test_a_device_that_is_down_is_detected_by_its_neighbors(statuses: Statuses) -> None:
    """A leaf is silent and its links are down at their other ends. All other findings are its children."""
    world = SmallWorld(offline={"p1-l0": [(100, GONE)]})
    found = findings(play([*world.rounds(600), *statuses(world, 600)]))
    (dead,) = _of(found, Condition.DEVICE_DOWN)
    assert (dead.is_closed, dead.cause, dead.severity) == (False, Cause.UNKNOWN, Severity.WARNING)
    assert (after(dead.started_at_ns), after(dead.resolved_at_ns)) == (90, None)
    assert dead.evidence[0].comparison == "both-ends"
    children = [f for f in found if f.id != dead.id and f.status is not Status.RETRACTED]
    assert {f.condition for f in children} == {Condition.LINK_DOWN, Condition.TELEMETRY_STALE}
    assert {f.parent_id for f in children} == {dead.id}
    (stale,) = _of(found, Condition.TELEMETRY_STALE)
    assert stale.cause == Cause.DEVICE


def test_an_outage_keeps_its_id_when_the_new_boot_becomes_known(statuses: Statuses) -> None:
    """The device was down and is up with another boot id: one episode, resolved, now with the cause REBOOT."""
    world = SmallWorld(offline={"p1-l0": [(100, 400)]}, boots={"p1-l0": 400})
    published = [f for f in play([*world.rounds(900), *statuses(world, 900)]) if isinstance(f, Finding)]
    own = [f for f in published if f.condition is Condition.DEVICE_DOWN]
    assert len({f.id for f in own}) == 1
    assert [(own[0].cause, own[0].status), (own[-1].cause, own[-1].status)] == [
        (Cause.UNKNOWN, Status.OPEN), (Cause.REBOOT, Status.RESOLVED),
    ]  # fmt: skip
    assert own[-1].final


def test_a_device_with_the_same_boot_id_did_not_restart(statuses: Statuses) -> None:
    """The device was unreachable and is up with the same boot id."""
    world = SmallWorld(offline={"p1-l0": [(100, 400)]})
    (own,) = _of(findings(play([*world.rounds(900), *statuses(world, 900)])), Condition.DEVICE_DOWN)
    assert (own.cause, own.status, after(own.resolved_at_ns)) == (Cause.UNKNOWN, Status.RESOLVED, 400)


def test_an_outage_that_takes_neighbors_below_their_floor_is_critical(statuses: Statuses) -> None:
    """Two spines of four are down: the leaves keep half of their paths, the floor is three quarters."""
    world = SmallWorld(offline={"s1": [(100, GONE)], "s2": [(100, GONE)]})
    dead = _of(findings(play([*world.rounds(600), *statuses(world, 600)])), Condition.DEVICE_DOWN)
    assert [(f.subject.id, f.severity) for f in dead] == [
        ("device:s1", Severity.CRITICAL), ("device:s2", Severity.CRITICAL),
    ]  # fmt: skip


def test_a_silent_device_with_links_up_is_stale_only(statuses: Statuses) -> None:
    """It is not read and its neighbors still see it: a path or a collector failed, not the device."""
    world = SmallWorld(not_polled={"p1-l0": [(100, 400)]})
    (stale,) = findings(play([*world.rounds(900), *statuses(world, 900)]))
    assert (stale.condition, stale.cause, stale.severity) == (
        Condition.TELEMETRY_STALE,
        Cause.UNKNOWN,
        Severity.WARNING,
    )
    assert (after(stale.started_at_ns), after(stale.detected_at_ns), after(stale.resolved_at_ns)) == (90, 120, 400)
    assert (stale.status, stale.final) == (Status.RESOLVED, True)


def test_a_silence_within_the_limit_is_no_finding() -> None:
    """The limit is the larger of three cadences and 30 s: exactly 30 s after the last sample it is not passed."""
    for cadence, gap in ((10, 30), (2, 30), (20, 60)):
        beats = [samples("p1-l0", t, {UP: {"d1": 1}}) for t in (0, gap)]
        published = [status("p1-l0", t, cadence=cadence) for t in (0, gap / 2, gap)]
        assert play([*beats, *published]) == []
        late = [samples("p1-l0", t, {UP: {"d1": 1}}) for t in (0, gap + 0.1)]
        (found,) = findings(play([*late, *published, status("p1-l0", gap + 0.1, cadence=cadence)]))
        assert (after(found.started_at_ns), after(found.detected_at_ns)) == (0, gap)


def test_a_cadence_is_learned_from_the_samples() -> None:
    """Without a status of its collector, a source that is read each minute may be silent for three."""
    beats = [samples("p1-l0", t, {UP: {"d1": 1}}) for t in (0, 60, 120, 180, 240, 420)]
    assert play(beats) == []
    (found,) = findings(play([*beats, samples("p1-l0", 601, {UP: {"d1": 1}})]))
    assert (after(found.started_at_ns), found.status) == (420, Status.RESOLVED)


def test_a_source_with_too_few_samples_may_be_silent_for_five_minutes() -> None:
    """One interval does not determine the cadence."""
    assert play([samples("p1-l0", t, {UP: {"d1": 1}}) for t in (0, 200, 499)]) == []


def test_a_regular_source_slower_than_five_minutes_is_stale_only_until_its_cadence_is_learned() -> None:
    """Two equal intervals are a cadence; a silence of three is found later."""
    beats = [samples("p1-l0", t, {UP: {"d1": 1}}) for t in [*range(0, 90_000, 900), 94_000, 94_900]]
    found = last(findings(play(beats)))
    assert [after(one.started_at_ns) for one in found][-1] == 89_100
    assert len(found) <= 3


def test_a_gap_that_only_the_next_sample_reveals_is_resolved_at_once() -> None:
    """The collector was down and no other source reported: one finding, resolved in its first revision."""
    beats = [samples("p1-l0", t, {UP: {"d1": 1}}) for t in (0, 10, 20, 30, 40, 340, 350)]
    published = [f for f in play(beats) if isinstance(f, Finding)]
    assert {f.status for f in published} == {Status.RESOLVED}
    assert (after(published[-1].started_at_ns), after(published[-1].resolved_at_ns)) == (40, 340)
    assert published[-1].evidence[0].observed == 300


def test_a_configured_target_that_was_never_seen_is_stale_until_it_is() -> None:
    """Its collector reports that it cannot reach it, and the error; the first sample resolves it."""
    other = SmallWorld()
    away = [status("p9", t, reachable=False, error="connection refused") for t in range(0, 600, 10)]
    rounds = list(other.rounds(900))
    (stale,) = findings(play([*rounds, *away]))
    assert (stale.subject.id, after(stale.started_at_ns), stale.status) == ("device:p9", 0, Status.OPEN)
    assert "connection refused" in stale.evidence[0].statement
    here = [samples("p9", t, {UP: {"x": 1}}) for t in range(600, 900, 10)]
    (found,) = findings(play([*rounds, *away, *here]))
    assert (found.id, found.status, after(found.resolved_at_ns), found.final) == (
        stale.id, Status.RESOLVED, 600, True,
    )  # fmt: skip


def test_a_failed_path_has_another_cause_than_an_unread_device(statuses: Statuses) -> None:
    """Another source of the device is live: the path failed, and the coverage has the number of live sources."""
    world = SmallWorld(not_polled={"p1-l0": [(100, GONE)]})
    snmp = SmallWorld().rounds(600, SNMP, phase=3)
    (stale,) = findings(play([*world.rounds(600), *statuses(world, 600), *snmp]))
    assert (stale.cause, stale.severity) == (Cause.PATH, Severity.WARNING)  # the device is seen, if not by this source
    assert stale.coverage is not None
    assert (stale.coverage.seen, stale.coverage.expected, stale.coverage.missing) == (1, 2, ("p1-l0/gnmi",))


def test_a_dead_collector_is_one_critical_parent_and_its_devices_are_children(statuses: Statuses) -> None:
    """It read four devices and sends no status: one page, not four."""
    own = ("p1-l0", "p1-l1", "p1-h1", "p1-h2")
    world = SmallWorld(not_polled={device: [(100, GONE)] for device in own})
    named = [
        replace(s, collector="dead") if s.device in own else s
        for s in statuses(world, 600, ends_at=lambda d: 100 if d in own else GONE)
    ]
    found = _of(findings(play([*world.rounds(600), *named])), Condition.TELEMETRY_STALE)
    assert {f.subject.id for f in found} == {f"device:{d}" for d in own}
    (root,) = [f for f in found if not f.parent_id]
    assert {f.parent_id for f in found if f.id != root.id} == {root.id}
    assert (root.cause, root.severity) == (Cause.COLLECTOR, Severity.CRITICAL)
    assert "its collector dead is silent too" in root.evidence[0].statement


def test_a_live_collector_is_not_the_cause_of_its_device_s_silence() -> None:
    """Its last status before the silence was a minute old; it reported the failure in time."""
    world = SmallWorld(not_polled={"p1-l0": [(100, GONE)]})
    for lost in (True, False):
        doubts = [status("p1-l0", t, reachable=not lost, error="no answer" * lost) for t in range(111, 600, 10)]
        beats = [status("p1-l0", 35), *doubts]
        (stale,) = findings(play([*world.rounds(600), *beats]))
        assert stale.cause == Cause.UNKNOWN


def test_only_the_current_collector_of_a_target_is_evaluated() -> None:
    """The first stopped, the second reads: no finding. The second cannot reach it: it is live and reports the error."""
    read = [s for s in SmallWorld().rounds(600) if s.device == "p1-l0"]
    first = [status("p1-l0", t, collector="first") for t in (5, 65)]
    assert findings(play([*read, *first, status("p1-l0", 112, collector="second"), status("p1-l0", 172)])) == []
    lost = [s for s in read if s.sampled_at_ns < at(100)]
    second = [status("p1-l0", t, reachable=False, error="refused", collector="second") for t in range(112, 600, 10)]
    (stale,) = findings(play([*lost, *first, *second]))
    assert (stale.cause, "collector second reports: refused" in stale.evidence[0].statement) == (Cause.UNKNOWN, True)


@pytest.mark.parametrize("dead", [True, False])
def test_a_restored_worker_evaluates_the_collector_as_its_predecessor(dead: bool) -> None:
    """The snapshot has the time of the collector's last status, wherever in the silence the worker changes."""
    beats = [samples("p1-l0", t, {UP: {"d1": 1}}) for t in (0, 10, 20, 30, 40)]
    doubts = [] if dead else [status("p1-l0", t) for t in (57, 67)]
    for taken_over in range(len(doubts) + 1):
        first, second = stage(), stage()
        assert symptoms_of(first, [*beats, status("p1-l0", 5), *doubts[:taken_over]]) == []
        second.restore(first.snapshot())
        assert symptoms_of(second, doubts[taken_over:]) == []
        outputs = detected(second.advance_watermark(at(71)))
        (silent,) = [o.message for o in outputs if isinstance(o.message, Symptom)]
        assert isinstance(silent.payload, SourceSilence)
        assert silent.payload.collector_silent is dead


def test_silence_alone_is_no_outage(statuses: Statuses) -> None:
    """A device that is silent and lost less than half of its links has a failed path, and is not down."""
    world = SmallWorld(not_polled={"p1-l0": [(100, GONE)]}, down={"p1-l0/d1": [(100, GONE)], "p1-l0/u0": [(100, GONE)]})
    found = findings(play([*world.rounds(600), *statuses(world, 600)]))
    assert _of(found, Condition.DEVICE_DOWN) == []
    assert len(_of(found, Condition.LINK_DOWN)) == 2


@pytest.mark.parametrize(
    ("by_clock", "kinds"), [(True, ["SOURCE_SILENT", "SOURCE_RESUMED"]), (False, ["SOURCE_RESUMED"])]
)
def test_a_gap_is_reported_once(by_clock: bool, kinds: list[str]) -> None:
    """A gap that the arrival clock detected is reported by its begin and its end; any other by its end alone."""
    own = stage()
    beats = [samples("p1-l0", t, {UP: {"d1": 1}}, source=GNMI) for t in (0, 10, 20, 30, 40)]
    assert symptoms_of(own, beats) == []
    clock = detected(own.advance_watermark(at(200))) if by_clock else []
    resumed = symptoms_of(own, [samples("p1-l0", 340, {UP: {"d1": 1}})])
    assert [
        *(o.message.kind.name for o in clock if isinstance(o.message, Symptom)),
        *(s.kind.name for s in resumed),
    ] == kinds
    silences = {(after(s.since_ns), s.payload.cadence_ns) for s in resumed if isinstance(s.payload, SourceSilence)}
    assert silences == {(40, 10_000_000_000)}


def _read(device: str, times: range, source: Source = GNMI) -> list[Samples]:
    return [samples(device, t, {UP: {"d1": 1.0}}, source=source) for t in times]


CADENCES = {
    "states and counters of a poll": (0.4, 40), "two intervals": (14, 40), "others": (20, 51),
    "both": (0.4, 13.6, 0.4, 39.6), "a poll of three messages": (0.3, 0.3, 39.4),
}  # fmt: skip


@pytest.mark.parametrize("steps", CADENCES.values(), ids=CADENCES)
def test_a_source_with_two_intervals_is_not_stale_at_its_start(steps: Sequence[float]) -> None:
    """The longer of its usual intervals is its cadence, and messages of one poll are none."""
    times = list(accumulate([0.0, *(list(steps) * 20)]))
    assert play([samples("p1-l0", t, {UP: {"d1": 1.0}}) for t in times]) == []


def test_a_single_switch_is_no_large_part_of_the_fabric() -> None:
    """As the whole inventory it is a WARNING when it is silent."""
    alone = Topology(Inventory(devices=(Device("s1", "switch", "T1"),)))
    messages = sorted([*_read("s1", range(0, 300, 10)), *_read("x", range(0, 900, 10))], key=lambda m: m.sampled_at_ns)
    (found,) = last(findings(play(messages, alone)))
    assert found.severity is Severity.WARNING


def _dead_collector(device: str, *, ended: bool) -> list[Message]:
    """A device whose collector stops at 300 s, with or without a last status, and a fabric that is read on."""
    fabric = list(SmallWorld().rounds(900))
    own = [replace(status(device, t), source=SNMP) for t in range(0, 300, 10)]
    last_status = [replace(own[-1], at_ns=at(300), reachable=False, error="ended", ended=True)] if ended else []
    return in_order([*fabric, *_read(device, range(0, 300, 10), SNMP), *own, *last_status])


def test_a_device_outside_the_inventory_never_pages() -> None:
    """Its dead collector is listed as a WARNING; one that ended in order is no finding."""
    (found,) = last(findings(play(_dead_collector("other", ended=False))))
    assert (found.severity, found.cause) == (Severity.WARNING, Cause.COLLECTOR)
    assert play(_dead_collector("other", ended=True)) == []


def test_a_collector_that_ended_in_order_is_not_dead() -> None:
    """A device of the inventory is stale without it, but that does not page as a dead collector."""
    (found,) = last(findings(play(_dead_collector("p1-l0", ended=True))))
    assert (found.severity, found.cause) == (Severity.WARNING, Cause.PATH)
    assert "ended" in found.evidence[0].statement


def test_a_finding_of_a_device_that_leaves_the_inventory_is_closed() -> None:
    """It is resolved then, with the reason, and what arrives of it later changes nothing."""
    own = begun(Attribute(DetectParams()))
    silence = Symptom("p1-l0", "", SourceSilence(False, "c", True), at(100), at(60), GNMI)
    (opened,) = _findings_of(own.process([silence]))
    assert opened.severity is Severity.CRITICAL
    whole = inventory()
    own.set_topology(topology(replace(whole, devices=tuple(d for d in whole.devices if d.name != "p1-l0"),
                                      links=())))  # fmt: skip
    (closed,) = _findings_of(own.advance_watermark(at(200)))
    assert (closed.id, closed.status, closed.final) == (opened.id, Status.RESOLVED, True)
    assert closed.evidence[-1].statement == "p1-l0 left the inventory"
    assert _findings_of(own.advance_watermark(at(900))) == []


def _findings_of(outputs: Sequence[Output]) -> list[Finding]:
    return [o.message for o in outputs if isinstance(o.message, Finding) and o.topic is FINDINGS]


def _silences(
    *silences: tuple[str, float, str], maintenance: Sequence[str] = ()
) -> tuple[Attribute, dict[str, Finding]]:
    """Return the stage and its telemetry/stale by device, at 200 s; a silence has a device, a begin and a collector."""
    until = "1970-01-12T15:00:00+00:00" if maintenance else ""
    own = begun(Attribute(DetectParams()), topology(inventory(maintenance=maintenance, until=until)))
    symptoms = [
        Symptom(device, "", SourceSilence(False, collector, bool(collector)), at(since + 30), at(since), GNMI)
        for device, since, collector in silences
    ]
    outputs = [*own.process(symptoms), *own.advance_watermark(at(200))]
    return own, {f.subject.id.removeprefix("device:"): f for f in last(_findings_of(outputs))}


PLANNED = {
    "of other collectors": [("p2-h1", 0, "h1"), ("p2-h2", 1, "h2"), ("p1-l0", 20, "c"), ("p1-l1", 21, "c")],
    "of the same collector": [("p2-h1", 0, "c"), ("p2-h2", 1, "c"), ("p1-l0", 20, "c"), ("p1-l1", 21, "c")],
}


@pytest.mark.parametrize("silences", PLANNED.values(), ids=PLANNED)
def test_planned_work_does_not_explain_a_dead_collector(silences: Sequence[tuple[str, float, str]]) -> None:
    """Hosts in maintenance are silent first; the collector's own root is among the devices that are not."""
    _, found = _silences(*silences, maintenance=["p2-h1", "p2-h2"])
    assert [found[device].shadow for device, *_ in silences] == [True, True, None, None]
    root = found["p1-l0"]
    assert (root.parent_id, root.severity, root.cause) == ("", Severity.CRITICAL, Cause.COLLECTOR)
    assert found["p1-l1"].parent_id == root.id
    assert {found["p2-h1"].parent_id, found["p2-h2"].parent_id}.isdisjoint({root.id, found["p1-l1"].id})


def test_planned_silence_makes_no_other_silence_critical() -> None:
    """Three devices in maintenance are a large part of the fabric, and a fourth alone is none."""
    for maintenance, severity in ((["p2-h1", "p2-h2", "p2-l0"], Severity.WARNING), ([], Severity.CRITICAL)):
        others = ((device, 0, "") for device in ("p2-h1", "p2-h2", "p2-l0"))
        _, found = _silences(*others, ("p1-l0", 70, ""), maintenance=maintenance)
        assert found["p1-l0"].severity is severity


def test_the_others_of_a_group_are_evaluated_when_an_outage_explains_its_root() -> None:
    """Three devices are silent; the first is down, which does not explain why a collector does not read the others."""
    own, found = _silences(("p2-h1", 0, "h1"), ("p1-l0", 20, "c"), ("p1-l1", 21, "c"))
    first, root = found["p2-h1"], found["p1-l0"]
    assert root.parent_id == first.id
    down = replace(first, id="down", condition=Condition.DEVICE_DOWN, detector="device/down", cause=Cause.UNKNOWN)
    outputs = [*own.process([Episode(down)]), *own.advance_watermark(at(201))]
    assert {f.id: f.parent_id for f in last(_findings_of(outputs))} == {"down": "", first.id: "down", root.id: ""}
    assert found["p1-l1"].parent_id == root.id


def test_a_restart_begins_after_the_newest_reading_of_any_source() -> None:
    """An agent that polls every three minutes had read the device long before."""
    by_nic, by_agent = Restart(at(160), at(400), 7), Restart(at(0), at(360), 7)
    other_boot = Restart(at(-900), at(-600), 6)
    for restarts in ((by_agent, by_nic, other_boot), (other_boot, by_nic, by_agent)):
        evidence = DeviceEvidence(Subject("device:p1-h1"), {}, list(restarts), [], 0)
        found = find_outages(DeviceDownParams(), GroupingParams(), evidence)
        assert [(one.begin_ns, one.end_ns) for one in found] == [(at(-900), at(-600)), (at(160), at(400))]
