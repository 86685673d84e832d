"""Tests which controls are accepted, what they apply to, and when they have no effect."""

from dataclasses import replace

import pytest

from streams.decide.controls import BEGIN_MARGIN_NS, ENDED_NS, PRUNE_NS, RETENTION_NS, Controls, refusal
from streams.wire.models import Control, ControlKind, Endpoint, Subject, Verdict
from streams.wire.signatures import load_private_key, new_private_key, public_text
from tests.fixtures.decide_stage import deciding, decisions, finding, remediations
from tests.worlds.observations import at

LINK = Subject(
    "link:h1/e0--l1/e0", Endpoint("h1", "e0"), Endpoint("l1", "e0"), pod="p1", plane=0, former_ids=("link:old",)
)
NOW = at(1000)


def control(kind: ControlKind, subject: str = "", **changes: object) -> Control:
    values = {"id": f"{kind.name}/{subject}", "at_ns": at(0), "until_ns": at(2000)} | changes
    return Control(kind=kind, subject_id=subject, **values)  # type: ignore[arg-type]


def controls(*given: Control, strict: bool = False) -> Controls:
    """Return controls that were read to their end."""
    made = Controls(strict=strict)
    for one in given:
        made.update(one)
    made.loaded = True
    return made


def test_before_the_topic_is_read_to_its_end_the_kill_switch_is_on() -> None:
    """An unread topic may contain a kill switch."""
    unread = Controls()
    active = unread.kill_switch(NOW)
    assert active is not None and "read" in active.reason
    unread.loaded = True
    assert unread.kill_switch(NOW) is None


def test_a_snapshot_has_the_controls_but_not_that_all_are_known() -> None:
    """Between the snapshot and the restart an operator may have turned the switch on."""
    live = controls(control(ControlKind.EXCLUDE, LINK.id))
    other = controls(control(ControlKind.EXCLUDE, "device:x"))
    other.load(live.dump(), {})
    assert other.dump() == live.dump()
    assert not other.loaded and other.kill_switch(NOW) is not None


@pytest.mark.parametrize("kind", [ControlKind.EXCLUDE, ControlKind.MAINTENANCE])
def test_a_successor_names_the_same_of_several_controls(kind: ControlKind) -> None:
    """Between the arrivals of two controls the first took effect; its successor reads both at once."""
    asked = {ControlKind.EXCLUDE: Controls.exclusion, ControlKind.MAINTENANCE: Controls.maintenance}[kind]
    live, other = controls(control(kind, LINK.id, id="b")), controls()
    assert asked(live, LINK, NOW) is not None
    live.update(control(kind, LINK.id, id="a"))
    other.load(live.dump(), {})
    assert asked(live, LINK, NOW) == asked(other, LINK, NOW) == control(kind, LINK.id, id="a")


@pytest.mark.parametrize("subject", ["", "pod:p1"])
def test_a_kill_switch_stops_everything_until_its_end(subject: str) -> None:
    """One that names a subject stops everything as well; without an end it applies until it is lifted."""
    on = control(ControlKind.KILL_SWITCH, subject)
    assert controls(on).kill_switch(NOW) == on
    assert controls(on).kill_switch(at(2000)) is None
    endless = control(ControlKind.KILL_SWITCH, subject, until_ns=None)
    assert controls(endless).kill_switch(at(1_000_000)) == endless


def test_a_kill_switch_applies_before_event_time_reaches_it() -> None:
    """Event time lags behind the clock of the operator, and stands still while no data arrive."""
    assert controls(control(ControlKind.KILL_SWITCH, at_ns=at(1500))).kill_switch(NOW) is not None


@pytest.mark.parametrize("kind", [ControlKind.KILL_SWITCH, ControlKind.MAINTENANCE, ControlKind.EXCLUDE])
def test_a_tombstone_or_an_end_lifts_a_control(kind: ControlKind) -> None:
    """The record without a kind removes the control with its id; an end in the past ends it."""
    on = control(kind, "" if kind is ControlKind.KILL_SWITCH else LINK.id)

    def is_active(state: Controls) -> bool:
        found = (state.kill_switch(NOW), state.maintenance(LINK, NOW), state.exclusion(LINK, NOW))
        return any(one is not None for one in found)

    assert is_active(controls(on))
    assert not is_active(controls(on, Control(on.id, ControlKind.KIND_UNSPECIFIED)))
    assert not is_active(controls(on, control(kind, on.subject_id, until_ns=at(999))))
    assert is_active(controls(on, Control("other", ControlKind.KIND_UNSPECIFIED)))


@pytest.mark.parametrize("name", [LINK.id, "link:old", "h1", "device:l1", "p1", "pod:p1", "plane:0"])
def test_a_target_is_addressed_by_its_id_devices_pod_or_plane(name: str) -> None:
    """The same names as those that silence its alerts."""
    assert controls(control(ControlKind.MAINTENANCE, name)).maintenance(LINK, NOW) is not None
    assert controls(control(ControlKind.EXCLUDE, name)).exclusion(LINK, NOW) is not None
    assert controls(control(ControlKind.EXCLUDE, name)).maintenance(LINK, NOW) is None


@pytest.mark.parametrize("name", ["link:h1/e0--l1/e1", "h2", "device:l2", "pod:p2", "plane:1"])
def test_other_targets_are_not_affected(name: str) -> None:
    """Maintenance and exclusion apply to their subject only."""
    state = controls(control(ControlKind.MAINTENANCE, name), control(ControlKind.EXCLUDE, name))
    assert state.maintenance(LINK, NOW) is state.exclusion(LINK, NOW) is None


def test_an_expired_control_has_no_effect() -> None:
    """The end is not included."""
    state = controls(
        control(ControlKind.MAINTENANCE, LINK.id),
        control(ControlKind.EXCLUDE, LINK.id),
    )
    assert state.maintained(at(1999)) == {LINK.id}
    assert state.maintenance(LINK, at(2000)) is state.exclusion(LINK, at(2000)) is None
    assert state.maintained(at(2000)) == frozenset()


def test_a_planned_maintenance_applies_from_shortly_before_its_begin() -> None:
    """No action is under way when the work begins."""
    begin = NOW + 2 * BEGIN_MARGIN_NS
    state = controls(control(ControlKind.MAINTENANCE, LINK.id, at_ns=begin, until_ns=None, endless=True))
    assert state.maintenance(LINK, NOW) is None
    assert state.maintenance(LINK, begin - BEGIN_MARGIN_NS) is not None


REFUSED = [
    (control(ControlKind.MAINTENANCE), "no subject"),
    (control(ControlKind.EXCLUDE), "no subject"),
    (control(ControlKind.APPROVE), "no subject"),
    (control(ControlKind.ACKNOWLEDGE), "no subject"),
    (control(ControlKind.MAINTENANCE, "p1", until_ns=None), "no end"),
    (control(ControlKind.EXCLUDE, "p1", until_ns=None), "no end"),
    (control(ControlKind.APPROVE, "r1", until_ns=None), "no end"),
    (Control("x", ControlKind.KIND_UNSPECIFIED, "p1"), "no kind"),
]


@pytest.mark.parametrize(("refused", "reason"), REFUSED)
def test_a_control_without_subject_or_end_is_refused(refused: Control, reason: str) -> None:
    """Only the kill switch has no subject; a control without an end must be marked endless."""
    assert reason in refusal(refused)


@pytest.mark.parametrize("kind", [ControlKind.MAINTENANCE, ControlKind.EXCLUDE, ControlKind.APPROVE])
def test_an_endless_control_states_that_it_is(kind: ControlKind) -> None:
    """Then it has no end on purpose."""
    assert refusal(control(kind, "p1", until_ns=None, endless=True)) == ""


def test_a_refused_control_replaces_nothing() -> None:
    """The control before it remains in effect."""
    valid = control(ControlKind.EXCLUDE, LINK.id)
    state = controls(valid)
    assert "no end" in state.update(control(ControlKind.EXCLUDE, LINK.id, until_ns=None))
    assert state.exclusion(LINK, NOW) == valid


def test_a_strict_state_refuses_replays() -> None:
    """With signatures a control replaces only an older one: an old record could be appended again by anyone."""
    on, off = control(ControlKind.KILL_SWITCH), control(ControlKind.KILL_SWITCH, at_ns=at(10), until_ns=at(10))
    state = controls(on, off, strict=True)
    assert "was sent later" in state.update(on)
    assert "was sent later" in state.update(off)
    assert state.kill_switch(NOW) is None
    assert "signature" in controls(on, strict=True).update(Control(on.id, ControlKind.KIND_UNSPECIFIED))
    lax = controls(on, off)
    assert lax.update(on) == ""


def test_ended_controls_and_old_answers_are_evicted_in_the_end() -> None:
    """The state does not grow with ended controls and answers; active controls remain."""
    endless = control(ControlKind.EXCLUDE, "b", until_ns=None, endless=True)
    ended, answer = control(ControlKind.EXCLUDE, "a", until_ns=at(0)), control(ControlKind.REJECT, "r", until_ns=None)
    state = controls(ended, endless, answer)
    assert state.prune(at(0) + ENDED_NS - 1) == []
    assert state.prune(at(0) + ENDED_NS) == [], "not again within the hour"
    assert state.prune(at(0) + ENDED_NS + PRUNE_NS) == [ended.id]
    assert state.prune(at(0) + RETENTION_NS + PRUNE_NS) == [answer.id]
    assert state.dump() == [endless]


def test_a_worker_with_trusted_keys_lifts_no_kill_switch_by_a_tombstone_or_a_replay() -> None:
    """Anyone who can write to the topic can append a tombstone, or the record that once ended the kill switch."""
    key = public_text(load_private_key(new_private_key(), "test"))
    stage = deciding(trusted_keys=[key])
    on = control(ControlKind.KILL_SWITCH, id="stop", at_ns=at(1), until_ns=None)
    off = control(ControlKind.KILL_SWITCH, id="stop", at_ns=at(0), until_ns=at(0))
    stage.process([off, on, off, Control("stop", ControlKind.KIND_UNSPECIFIED)])
    (decision,) = decisions(stage, finding("p1-l0/u0"))
    assert (decision.verdict, decision.constraint) == (Verdict.DENIED, "kill-switch")


def test_an_approval_without_an_end_changes_nothing() -> None:
    """The remediation still waits."""
    stage = deciding()
    (waiting,) = decisions(stage, finding("p1-l0/u0", confidence=0.6))
    approval = Control("a", ControlKind.APPROVE, waiting.id, at(11), actor="anna")
    assert remediations(stage.process([approval, replace(approval, id="b", until_ns=at(5))])) == []
    (approved,) = remediations(stage.process([replace(approval, id="c", until_ns=at(3600))]))
    assert (approved.verdict, approved.approved_by) == (Verdict.APPROVED, "anna")
