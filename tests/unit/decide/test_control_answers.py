"""Every control is answered: taken, refused with the reason, or of an unknown subject, with the nearest ids."""

from dataclasses import replace

import pytest

from streams.decide.stage import Decide
from streams.wire.models import Control, ControlAnswer, ControlEffect, ControlKind, RemediationState
from streams.wire.signatures import load_private_key, new_private_key, public_text
from streams.wire.stage import Output
from streams.wire.topics import CONTROL_ANSWERS, CONTROLS
from tests.fixtures.decide_stage import TOP, carry_out, deciding, decisions, finding, open_states, remediations
from tests.worlds.observations import at

LINK = "link:p1-l0/u0--s1/p1-l0"
TRUSTED = [public_text(load_private_key(new_private_key(), "test"))]
MAINTENANCE, EXCLUDE, SWITCH = ControlKind.MAINTENANCE, ControlKind.EXCLUDE, ControlKind.KILL_SWITCH


def control(kind: ControlKind, subject: str = "", arrived: float = 5, **changes: object) -> Control:
    """Return a control as the reader of the topic returns it; it was sent when it arrived."""
    values = {
        "id": f"{kind.name}/{subject}", "at_ns": at(arrived), "until_ns": at(5000), "actor": "anna",
        "sent_at_ns": at(arrived), "arrived_at_ns": at(arrived), "offset": round(arrived * 10),
    }  # fmt: skip
    return Control(kind=kind, subject_id=subject, **(values | changes))  # type: ignore[arg-type]


def answers(outputs: list[Output]) -> list[ControlAnswer]:
    found = [output.message for output in outputs if output.topic is CONTROL_ANSWERS]
    return [message for message in found if isinstance(message, ControlAnswer)]


def answered(stage: Decide, *controls: Control) -> tuple[ControlEffect, str]:
    """Return the effect and the reason of the last control."""
    last = answers(stage.process(controls))[-1]
    return last.effect, last.reason


@pytest.mark.parametrize("kind", [MAINTENANCE, EXCLUDE])
@pytest.mark.parametrize(
    "subject",
    [
        LINK, "link:s1/p1-l0--p1-l0/u0", LINK.upper(), "port:p1-l0/u0", "port:S1/P1-L0", "device:P1-L0", "p1-l0",
        "pod:p1", "POD:P1",
    ],
)  # fmt: skip
def test_a_subject_in_any_form_holds(kind: ControlKind, subject: str) -> None:
    """Before, a port, exchanged ends and upper case were accepted and had no effect."""
    stage = deciding()
    assert answered(stage, control(kind, subject))[0] is ControlEffect.TAKEN
    (denied,) = decisions(stage, finding("p1-l0/u0"))
    assert denied.state is RemediationState.DENIED and denied.guard in (3, 4)


@pytest.mark.parametrize("subject", ["rail:0", "rail:p1-h1/0", "RAIL:P1-H1/0", "host:p1-h1", "plane:0"])
def test_a_rail_or_a_host_holds_for_its_links(subject: str) -> None:
    """A rail has no end of its own; its links have it as a column."""
    stage = deciding()
    host_link = next(
        link for link in TOP.links.values() if link.lower.device == "p1-h1" and (link.rail, link.plane) == (0, 0)
    )
    assert answered(stage, control(EXCLUDE, subject))[0] is ControlEffect.TAKEN
    (denied,) = decisions(stage, finding(f"{host_link.lower.device}/{host_link.lower.port}"))
    assert (denied.state, denied.guard) == (RemediationState.DENIED, 4)


@pytest.mark.parametrize(
    ("given", "effect", "reason"),
    [
        (control(EXCLUDE, "device:p1-l00"), ControlEffect.UNKNOWN_SUBJECT, "no device:p1-l00"),
        (control(EXCLUDE, ""), ControlEffect.REFUSED, "has no subject"),
        (control(MAINTENANCE, "pod:p1", until_ns=None), ControlEffect.REFUSED, "has no end; set until, or endless"),
        (control(EXCLUDE, LINK, until_ns=at(4), sent_at_ns=at(3)), ControlEffect.REFUSED, "had passed when it arrived"),
        (control(SWITCH, sent_at_ns=at(-7195)), ControlEffect.REFUSED, "sent 7200 s behind its arrival"),
        (control(SWITCH, sent_at_ns=at(605)), ControlEffect.REFUSED, "sent 600 s ahead of its arrival"),
        (control(ControlKind.REJECT, "none"), ControlEffect.REFUSED, "no remediation none is open"),
        (control(SWITCH, until_ns=None), ControlEffect.TAKEN, ""),
    ],
)  # fmt: skip
def test_a_refusal_has_a_reason(given: Control, effect: ControlEffect, reason: str) -> None:
    """The command prints it; before, it printed success."""
    found = answered(deciding(), given)
    assert found[0] is effect and reason in found[1]


@pytest.mark.parametrize(("behind_s", "state"), [(30, RemediationState.VERIFYING), (600, RemediationState.DRAINED)])
def test_a_repair_counts_from_its_arrival(behind_s: float, state: RemediationState) -> None:
    """By the clock of the person it was before the drain; one that is off by more than a minute is refused."""
    stage = deciding()
    (drain,) = decisions(stage, finding("p1-l0/u0"))
    carry_out(stage, drain)
    sent = at(12 - behind_s)
    one = control(ControlKind.REPAIRED, LINK, arrived=12, at_ns=sent, sent_at_ns=sent, until_ns=None)
    effect, reason = answered(stage, one)
    is_refused = state is RemediationState.DRAINED
    assert (effect is ControlEffect.REFUSED, "sent 600 s behind its arrival" in reason) == (is_refused, is_refused)
    assert open_states(stage) == {drain.id: state}


def test_an_unknown_subject_has_the_nearest_ids() -> None:
    """A typing error is corrected in seconds instead of found after the outage."""
    (unknown,) = answers(deciding().process([control(EXCLUDE, "device:p1-l00")]))
    assert "device:p1-l0" in unknown.nearest


def test_with_signatures_the_order_of_arrival_counts() -> None:
    """A planned maintenance does not hide the urgent one, and a clock that was ahead no later kill switch."""
    stage = deciding(trusted_keys=TRUSTED)
    planned = control(MAINTENANCE, "pod:p1", arrived=1, id="m", at_ns=at(9000), until_ns=at(9900))
    urgent = control(MAINTENANCE, "pod:p1", arrived=5, id="m")
    assert answered(stage, planned, urgent)[0] is ControlEffect.TAKEN
    off = control(SWITCH, arrived=6, id="k", at_ns=at(3600), until_ns=at(6))
    on = control(SWITCH, arrived=7, id="k", until_ns=None)
    assert answered(stage, off, on)[0] is ControlEffect.TAKEN
    (denied,) = decisions(stage, finding("p1-l0/u0"))
    assert denied.guard == 1
    effect, reason = answered(stage, replace(off, arrived_at_ns=at(8), offset=80))
    assert effect is ControlEffect.REFUSED and "was sent later" in reason


def test_an_answer_to_a_remediation_has_its_effect() -> None:
    """The state after it, or the state in which it has no effect; a record that is read again has no answer."""
    stage = deciding()
    (waiting,) = decisions(stage, finding("p1-l0/u0", confidence=0.6))
    reject = control(ControlKind.REJECT, waiting.id, arrived=11, until_ns=None, reason="job ends tomorrow")
    effect, reason = answered(stage, reject)
    assert effect is ControlEffect.TAKEN and f"DRAIN_LINK {LINK} is DENIED: rejected: job ends tomorrow" in reason
    assert answers(stage.process([reject])) == []
    effect, reason = answered(stage, control(ControlKind.REPAIRED, waiting.id, arrived=12, until_ns=None))
    assert effect is ControlEffect.REFUSED and "is DENIED" in reason


def test_the_answer_of_a_lifted_control_is_removed() -> None:
    """The topic of answers has the controls in effect, so that a status is what `decide` has."""
    stage = deciding()
    on = control(SWITCH, id="stop", until_ns=None)
    stage.process([on])
    (removed,) = [
        o for o in stage.process([Control("stop", ControlKind.KIND_UNSPECIFIED)]) if o.topic is CONTROL_ANSWERS
    ]
    assert (removed.key, removed.message) == ("stop", None)


def test_a_control_ends_what_an_open_approval_permits() -> None:
    """All controls of a batch are applied before the approvals are evaluated again, once."""
    stage = deciding()
    (approved,) = decisions(stage, finding("p1-l0/u0"))
    others = [control(EXCLUDE, "pod:p2", id=f"e{number}", offset=number) for number in range(1000)]
    (revoked,) = remediations(stage.process([*others, control(EXCLUDE, "port:p1-l0/u0")]))
    assert (revoked.id, revoked.state) == (approved.id, RemediationState.DENIED)


@pytest.mark.parametrize("kind", [SWITCH, EXCLUDE, MAINTENANCE])
def test_a_control_leaves_the_topics_a_day_after_its_end(kind: ControlKind) -> None:
    """Both topics had it for ever, and each successor read it again; one without an end stays."""
    stage, subject = deciding(), "" if kind is SWITCH else "pod:p1"
    stage.process(
        [
            control(kind, subject, id="ends", until_ns=at(60)),
            control(EXCLUDE, LINK, id="stays", until_ns=None, endless=True),
        ]
    )
    removed = [
        {(one.topic.name, one.key) for one in stage.advance_watermark(at(t)) if one.message is None}
        for t in (3700, 60 + 86_400 + 3600, 60 + 40 * 86_400)
    ]
    assert removed == [set(), {(CONTROLS.name, "ends"), (CONTROL_ANSWERS.name, "ends")}, set()]


@pytest.mark.parametrize("trusted", [[], TRUSTED], ids=["unsigned", "keys newly enabled"])
def test_a_kill_switch_outlives_the_snapshot(trusted: list[str]) -> None:
    """The topic of controls is read again, but with trusted keys its unsigned records are rejected."""
    on = control(SWITCH, id="stop", until_ns=None)
    former = deciding()
    published = answers(former.process([on, control(EXCLUDE, "device:p1-l00"), control(ControlKind.REJECT, "none")]))
    off = answers(former.process([control(MAINTENANCE, "pod:p1", arrived=6, id="m", until_ns=at(6))]))
    stage = deciding(loaded=False, trusted_keys=trusted)
    stage.recover([*published, *off])
    (denied,) = decisions(stage, finding("p1-l0/u0"))
    assert (denied.guard, denied.constraint) == (1, "kill-switch")
    assert answers(stage.process([on])) == []
