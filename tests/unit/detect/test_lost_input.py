"""Tests what the stages conclude after records were deleted before they were read."""

from collections.abc import Sequence
from dataclasses import replace

import orjson

from streams.detect.attribute.stage import Attribute
from streams.detect.correlate.stage import Correlate
from streams.detect.params import DetectParams
from streams.wire.models import (
    Cause,
    Condition,
    Finding,
    InputLoss,
    PortState,
    PortStates,
    Severity,
    Source,
    Status,
    Symptom,
)
from streams.wire.topics import EVENTS, FINDINGS
from tests.worlds.observations import GNMI, HOST, LEAF, LINK, NIC, SNMP, at, down, episodes, off, up
from tests.worlds.small_fabric import begun, topology

TOPIC = EVENTS.name


def loss(first: int, count: int, t: float, partition: int = 3, *, again: bool = False) -> InputLoss:
    return InputLoss("measure", TOPIC, partition, first, count, at(t), is_recreated=again)


def findings(losses: Sequence[InputLoss], until: float) -> list[Finding]:
    """Return the revisions that `attribute` publishes of losses, which it receives twice, with a restore between."""
    stage = Attribute(DetectParams())
    stage.set_topology(topology())
    stage.advance_watermark(at(0))
    outputs = [*stage.process(losses), *stage.process(losses), *stage.advance_watermark(at(10))]
    successor = Attribute(DetectParams())
    successor.restore(stage.snapshot())
    assert orjson.loads(successor.snapshot()) == orjson.loads(stage.snapshot())
    successor.start_epoch(2)
    successor.set_topology(topology())
    outputs += successor.advance_watermark(at(until))
    return [o.message for o in outputs if o.topic is FINDINGS and isinstance(o.message, Finding)]


def test_a_loss_is_one_finding_with_its_number_of_records() -> None:
    """Of each partition the records count once, also if two report them; it resolves when no loss followed."""
    found = findings([loss(80, 70, 1), loss(100, 60, 2), loss(5, 3, 2, partition=0)], until=400)
    opened, *_, last = found
    assert (opened.status, last.status, {one.id for one in found}) == (Status.OPEN, Status.RESOLVED, {opened.id})
    assert (opened.condition, opened.cause, opened.severity) == (
        Condition.TELEMETRY_STALE, Cause.RETENTION, Severity.WARNING,
    )  # fmt: skip
    assert opened.subject.id == f"input:measure/{TOPIC}"
    assert opened.summary == f"measure lost 83 records of {TOPIC}: they were deleted before they were read"
    assert [evidence.observed for evidence in opened.evidence] == [3, 80]
    assert last.final
    assert last.resolved_at_ns == at(302)


def test_records_without_a_valid_mac_are_a_finding_beside_a_loss_of_the_same_input() -> None:
    """It has the last reason, and it is neither a loss to retention nor a page."""
    reason = "host/gpu-17 may not report on leaf1"
    refused = [replace(loss(first, 5, t), refused=reason) for first, t in ((10, 1), (90, 2))]
    found = findings([loss(80, 70, 1), *refused], until=400)
    last = {one.id: one for one in found if one.cause is Cause.UNKNOWN}
    assert len(last) == 1 and len({one.id for one in found}) == 2
    (one,) = last.values()
    assert (one.subject.id, one.status, one.severity) == (f"input:measure/{TOPIC}", Status.RESOLVED, Severity.WARNING)
    assert one.summary == f"measure received 10 records of {TOPIC} without a valid MAC, last: {reason}"
    assert one.evidence[0].statement == f"10 records of {TOPIC}/3 from offset 10 on have no valid MAC, last: {reason}"


def test_input_that_is_not_read_in_time_is_one_finding_with_its_age() -> None:
    """The newest report of each partition counts, and the partition that is furthest behind is named."""
    reports = [
        replace(loss(9, 0, t, partition), behind_ns=age * 10**9)
        for t, partition, age in ((1, 0, 70), (2, 1, 90), (61, 0, 95), (62, 1, 120))
    ]
    found = findings(reports, until=400)
    opened, last = found[0], found[-1]
    assert (opened.status, last.status, {one.id for one in found}) == (Status.OPEN, Status.RESOLVED, {opened.id})
    assert (last.subject.id, last.severity, last.cause) == (f"input:measure/{TOPIC}", Severity.WARNING, Cause.UNKNOWN)
    assert last.summary == f"measure is 120 s behind in {TOPIC}"
    assert [one.observed for one in last.evidence] == [120, 95]
    assert last.resolved_at_ns == at(362)


def test_losses_far_apart_are_two_findings_and_a_new_topic_is_named() -> None:
    """The evidence of a topic that was deleted states that what was unread of it is not counted."""
    found = findings([loss(80, 70, 1), loss(0, 0, 400, again=True)], until=405)
    assert len({one.id for one in found}) == 2
    statement = max(found, key=lambda one: one.started_at_ns).evidence[0].statement
    assert statement.startswith(f"0 records of {TOPIC}/3 from offset 0 on were deleted")
    assert statement.endswith("what was unread of the former one is not counted")


def states(port: str, state: PortState, since: float, source: Source = GNMI, silent: float = 0) -> PortStates:
    device, name = port.split("/")
    return PortStates(
        device, source, 0, at(since), at(silent) if silent else 0, at(0), (name,), bytes([state]), (0,), (at(since),)
    )


def correlate(symptoms: Sequence[Symptom], present: Sequence[PortStates], *, owned: bool = True) -> list[Finding]:
    """Return the last revision of each link/down after the present states were compared at second 100."""
    stage = begun(Correlate(DetectParams()))
    outputs = stage.process(symptoms) + stage.advance_watermark(at(100))
    outputs += stage.reconcile(present, lambda _: owned)
    assert stage.reconcile(present, lambda _: owned) == []
    outputs += stage.advance_watermark(at(400))
    last = {one.id: one for one in episodes(outputs) if one.condition is Condition.LINK_DOWN}
    return list(last.values())


BOTH_DOWN = [down(LEAF, 10, since=0), down(HOST, 10, since=0, source=NIC)]
BOTH_UP = [states(LEAF, PortState.UP, 50), states(HOST, PortState.UP, 51, NIC)]


def test_a_link_resolves_by_the_state_of_its_ports_if_its_up_was_lost() -> None:
    """Without the states it is open for ever, as the up is not reported again."""
    (still_open,) = correlate(BOTH_DOWN, [])
    assert still_open.status in (Status.OPEN, Status.UPDATED)
    (resolved,) = correlate(BOTH_DOWN, BOTH_UP)
    assert (resolved.status, resolved.resolved_at_ns, resolved.id) == (Status.RESOLVED, at(50), still_open.id)


def test_only_a_later_state_that_is_read_is_evidence() -> None:
    """A silent source, a port that is not observed, and a state from before the last change change nothing."""
    for present in (
        [states(LEAF, PortState.UP, 50, silent=60), states(HOST, PortState.UP, 51, NIC)],
        [states(LEAF, PortState.NOT_OBSERVED, 50), states(HOST, PortState.UP, 51, NIC)],
        [states(LEAF, PortState.UP, 5, SNMP), states(HOST, PortState.UP, 51, NIC)],
    ):
        (found,) = correlate(BOTH_DOWN, present)
        assert found.resolved_at_ns is None, present


def test_a_down_that_was_lost_is_found_by_the_owner_of_its_pod() -> None:
    """A link of which nothing is known yet; an administrative down is none."""
    present = [states(LEAF, PortState.DOWN, 50)]
    (found,) = correlate([], present)
    assert (found.subject.id, found.started_at_ns, found.resolved_at_ns) == (LINK, at(50), None)
    assert correlate([], present, owned=False) == []
    assert correlate([], [states(LEAF, PortState.ADMIN_DOWN, 50)]) == []
    assert correlate([], BOTH_UP) == []


def test_an_enabled_port_is_no_longer_excused() -> None:
    """Its port went down when it was disabled; it is enabled now, and still down."""
    history = [off(LEAF, 10, since=0), down(LEAF, 10, since=0)]
    assert correlate(history, []) == []
    (found,) = correlate(history, [states(LEAF, PortState.DOWN, 50)])
    assert (found.started_at_ns, found.resolved_at_ns) == (at(50), None)


def test_a_symptom_that_arrives_after_all_supersedes_the_state() -> None:
    """It was behind the deleted ones: the same change, dated by the reading before it as well."""
    stage = begun(Correlate(DetectParams()))
    stage.process(BOTH_DOWN)
    stage.reconcile(BOTH_UP, lambda _: True)
    stage.process([up(LEAF, 50, since=45)])
    (history,) = orjson.loads(stage.snapshot())["evidence"]["links"].values()
    ups = [one for one in history["symptoms"] if one["at_ns"] == at(50)]
    assert [one["since_ns"] for one in ups] == [at(45)]
