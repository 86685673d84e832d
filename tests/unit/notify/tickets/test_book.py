"""Tests which remediations have a ticket: opened once, changed with the work, closed at the end."""

from typing import Any

import pytest

from streams.notify.tickets.book import ChangeKind, TicketBook, TicketStatus
from streams.wire.errors import Reject
from streams.wire.models import Action, Cause, RepairStep
from streams.wire.models import RemediationState as State
from tests.fixtures.notify_examples import T0, S, params, remediation

ORDER: dict[str, Any] = {"action": Action.REPAIR_LINK, "state": State.APPROVED, "decided_at_ns": T0}


def changes_of(*revisions: dict[str, Any]) -> list[tuple[ChangeKind, str]]:
    """Return the kind of each change and the state of its ticket, of successive revisions of one remediation."""
    book = TicketBook(params())
    made = [book.process(remediation(**one, revision=number)) for number, one in enumerate(revisions)]
    return [(change.kind, change.ticket.state) for change in made if change is not None]


def states_of(action: Action, *states: State) -> list[tuple[ChangeKind, str]]:
    return changes_of(*({"action": action, "state": state} for state in states))


def test_a_repair_order_has_one_ticket_from_its_issue_to_its_end() -> None:
    """It opens with APPROVED, changes with the acceptance, closes when the repair is done."""
    assert states_of(Action.REPAIR_LINK, State.APPROVED, State.ACCEPTED, State.CLOSED) == [
        (ChangeKind.OPENED, "APPROVED"),
        (ChangeKind.UPDATED, "ACCEPTED"),
        (ChangeKind.CLOSED, "CLOSED"),
    ]


@pytest.mark.parametrize("end", [State.DENIED, State.EXPIRED, State.FAILED, State.CLOSED])
def test_a_repair_that_must_not_be_done_any_more_has_no_open_ticket(end: State) -> None:
    """A kill switch, an expiry, or a failure that changed nothing ends the work."""
    assert states_of(Action.REPAIR_LINK, State.APPROVED, end)[-1] == (ChangeKind.CLOSED, end.name)


@pytest.mark.parametrize("action", [Action.DRAIN_LINK, Action.RESET_NIC, Action.RESTORE_LINK, Action.UPGRADE_FIRMWARE])
def test_an_action_of_automation_has_a_ticket_only_if_it_is_escalated(action: Action) -> None:
    """No state but ESCALATED opens one."""
    others = [state for state in State if state is not State.ESCALATED]
    assert states_of(action, *others) == []
    assert states_of(action, State.ACCEPTED, State.ESCALATED, State.VERIFYING, State.PROBATION, State.CLOSED) == [
        (ChangeKind.OPENED, "ESCALATED"),
        (ChangeKind.UPDATED, "VERIFYING"),
        (ChangeKind.UPDATED, "PROBATION"),
        (ChangeKind.CLOSED, "CLOSED"),
    ]


@pytest.mark.parametrize("state", [State.PROPOSED, State.WAITING, State.DENIED, State.EXPIRED, State.SHADOW])
@pytest.mark.parametrize("action", [Action.REPAIR_LINK, Action.CORDON_HOST, Action.REBOOT_HOST])
def test_what_is_not_approved_has_no_ticket(action: Action, state: State) -> None:
    """A decision is the subject of alerts, and in shadow mode nothing is carried out."""
    assert states_of(action, state) == []


def test_a_revision_without_a_state_has_no_ticket() -> None:
    """It is of a version without a life cycle."""
    assert changes_of({"action": Action.REPAIR_LINK}) == []


def test_a_host_out_of_service_has_a_ticket_until_it_is_in_service() -> None:
    """`decide` orders no repair of hosts, so the remediation itself is the work."""
    states = (State.APPROVED, State.ACCEPTED, State.DRAINED, State.VERIFYING, State.DRAINED, State.CLOSED)
    assert [kind.value for kind, _ in states_of(Action.CORDON_HOST, *states)] == [
        "opened", "updated", "updated", "closed",
    ]  # fmt: skip


def test_a_drained_link_leaves_the_work_to_its_repair_order() -> None:
    """After an escalation that a person answered without success, the order's ticket is the only one."""
    states = (State.ESCALATED, State.VERIFYING, State.DRAINED)
    assert [kind.value for kind, _ in states_of(Action.DRAIN_LINK, *states)] == ["opened", "updated", "closed"]


def test_a_closed_ticket_is_opened_again_and_not_twice() -> None:
    """A late acceptance leads from CLOSED to an escalation."""
    states = (State.ESCALATED, State.CLOSED, State.NO_ANSWER, State.ESCALATED)
    assert [kind.value for kind, _ in states_of(Action.DRAIN_LINK, *states)] == ["opened", "closed", "reopened"]


def test_another_step_changes_the_ticket_and_a_repetition_does_not() -> None:
    """A daily page of an escalation has the same work; another hint, step or finding has not."""
    first: dict[str, Any] = {**ORDER, "state": State.ESCALATED, "repair_step": RepairStep.CLEAN_RESEAT}
    later: dict[str, Any] = {**first, "decided_at_ns": T0 + S}
    step: dict[str, Any] = {**later, "repair_step": RepairStep.REPLACE_CABLE, "repair_hint": "replace the cable"}
    kinds = [kind.value for kind, _ in changes_of(first, later, step, step)]
    assert kinds == ["opened", "updated"]


def test_a_repeated_or_older_revision_has_no_effect() -> None:
    """A stage that was restarted emits revisions again, also of a closed remediation."""
    book = TicketBook(params())
    opened = remediation(**ORDER, revision=3)
    closed = remediation(action=Action.REPAIR_LINK, state=State.CLOSED, revision=5)
    assert book.process(opened) is not None
    assert book.process(opened) is None
    assert book.process(closed) is not None
    assert book.process(opened) is None and book.process(closed) is None
    assert dict(book.open_tickets) == {}


def test_the_ticket_has_what_a_technician_needs() -> None:
    """Step, part and counts' hint, both ends, and the command that reports the repair; times from the record."""
    book = TicketBook(params(cluster="ams", runbooks_url="https://wiki.example.net/runbooks"))
    change = book.process(
        remediation(
            **ORDER, repair_step=RepairStep.REPLACE_TRANSCEIVER, part_number="PN1", cause=Cause.OPTIC, attempt=2,
            runbook_url="https://wiki.example.net/runbooks/link-flap.md",
        )
    )  # fmt: skip
    assert change is not None
    body = change.ticket.to_json()
    assert body["status"] == "open" and body["title"] == "Repair: link:host-1/eth4--leaf-2/Ethernet1/1"
    assert (body["repairStep"], body["partNumber"], body["cause"]) == ("REPLACE_TRANSCEIVER", "PN1", "optic")
    assert body["ends"] == ["host-1 eth4", "leaf-2 Ethernet1/1"]
    assert body["commands"] == ["railsight remediations explain r1", "railsight repaired r1"]
    assert body["openedAt"] == body["updatedAt"] == "2027-01-15T08:00:00.000Z"
    assert body["runbookUrl"] == "https://wiki.example.net/runbooks/link-flap.md"
    assert body["cluster"] == "ams"
    closed = book.process(remediation(action=Action.REPAIR_LINK, state=State.CLOSED, revision=2, decided_at_ns=T0 + S))
    assert closed is not None and closed.ticket.status is TicketStatus.CLOSED
    body = closed.ticket.to_json()
    assert (body["openedAt"], body["updatedAt"]) == ("2027-01-15T08:00:00.000Z", "2027-01-15T08:00:01.000Z")
    assert "commands" not in body


def test_a_text_of_a_device_has_no_markup_and_no_control_characters() -> None:
    """A link, a mention, a tag, a line break and an escape sequence; a link outside of the allowed ones is left out."""
    book = TicketBook(params())
    hint = "see https://evil.example/\n<script>x</script> @channel [a](b) \x1b[31m"
    change = book.process(remediation(**ORDER, repair_hint=hint, runbook_url="https://evil.example/"))
    assert change is not None
    text = str(change.ticket.to_json()["repairHint"])
    assert "://" not in text and "<s" not in text and "@channel" not in text and "](" not in text
    assert text.isprintable()
    assert "runbookUrl" not in change.ticket.to_json()


@pytest.mark.parametrize("identity", ["", ".", "..", "a/b", 'x" OR project = "HR', "a b", "x" * 200, "ä"])
def test_an_id_that_is_no_segment_of_a_url_is_rejected(identity: str) -> None:
    """It would address another resource, or change the query of a search."""
    with pytest.raises(Reject, match="is not letters"):
        TicketBook(params()).process(remediation(**ORDER, id=identity))
