"""Defines the life cycle of a remediation: its states, the events that end each state, and the timeouts.

One table has every transition. An event without a transition changes nothing, so repeated or forged answers have no
effect. The table of docs/remediation.md is made from it. `remedies.py` publishes each transition.
"""

from collections.abc import Mapping
from enum import StrEnum

from streams.wire.models import Action
from streams.wire.models import RemediationState as State


class Event(StrEnum):
    """The causes of transitions."""

    APPROVE = "the guards approve"
    ASK = "a guard asks for approval"
    DENY = "a guard denies"
    SHADOW = "the guards approve in shadow mode"
    CHANGE = "evaluated again: the next attempt takes over"
    WITHDRAW = "the finding ends, is retracted, gets a parent or joins another remediation"
    REVOKE = "a guard revokes, or the inventory gives the name to another target"
    REJECT = "a person rejects"
    ACCEPT = "automation accepts"
    ACCEPT_LATE = "automation accepts what the guards deny now, or what is revoked or expired"
    ISOLATED = "the isolation is done"
    REPAIRED = "a repair is reported"
    DONE = "an action that isolates nothing is done"
    FAIL = "the action failed and changed nothing"
    QUALIFY = "the target qualifies while it is out of service"
    DISQUALIFY = "the target does not qualify any more"
    EXHAUST = "the last step of the repair did not help, or its orders failed too often"
    REMOVED = "the inventory does not have the target any more"
    HAND_OVER = "another remediation has taken the target out of service too, and restores it"
    RESTORED = "the restore is done"
    RETURNED = "a person, the automation or a job on the host shows that the target is in service again"
    OVERRIDDEN = "another party returns the target to service, and the policy escalates that"
    CLOSE = "a person closes it"
    RELAPSE = "the fault is back: the next attempt drains"
    LAST_RELAPSE = "the fault is back for the last time"
    TAKE_OVER = "a person rejects an escalation whose target is in service, or which the inventory does not have"
    TIMEOUT = "timeout"


TRANSITIONS: Mapping[tuple[State, Event], State] = {
    (State.PROPOSED, Event.APPROVE): State.APPROVED,
    (State.PROPOSED, Event.ASK): State.WAITING,
    (State.PROPOSED, Event.DENY): State.DENIED,
    (State.PROPOSED, Event.SHADOW): State.SHADOW,
    (State.PROPOSED, Event.WITHDRAW): State.CLOSED,
    (State.PROPOSED, Event.REJECT): State.DENIED,
    (State.PROPOSED, Event.CLOSE): State.CLOSED,
    (State.PROPOSED, Event.TIMEOUT): State.DENIED,
    (State.WAITING, Event.APPROVE): State.APPROVED,
    (State.WAITING, Event.DENY): State.DENIED,
    (State.WAITING, Event.CHANGE): State.CLOSED,
    (State.WAITING, Event.WITHDRAW): State.CLOSED,
    (State.WAITING, Event.REJECT): State.DENIED,
    (State.WAITING, Event.CLOSE): State.CLOSED,
    (State.WAITING, Event.TIMEOUT): State.EXPIRED,
    (State.DENIED, Event.CHANGE): State.CLOSED,
    (State.DENIED, Event.WITHDRAW): State.CLOSED,
    (State.DENIED, Event.ACCEPT_LATE): State.NO_ANSWER,
    (State.DENIED, Event.REJECT): State.DENIED,
    (State.DENIED, Event.ISOLATED): State.DRAINED,
    (State.DENIED, Event.REPAIRED): State.VERIFYING,
    (State.DENIED, Event.CLOSE): State.CLOSED,
    (State.DENIED, Event.TIMEOUT): State.CLOSED,
    (State.EXPIRED, Event.CHANGE): State.CLOSED,
    (State.EXPIRED, Event.WITHDRAW): State.CLOSED,
    (State.EXPIRED, Event.ACCEPT_LATE): State.NO_ANSWER,
    (State.EXPIRED, Event.REJECT): State.DENIED,
    (State.EXPIRED, Event.CLOSE): State.CLOSED,
    (State.EXPIRED, Event.TIMEOUT): State.CLOSED,
    (State.SHADOW, Event.CHANGE): State.CLOSED,
    (State.SHADOW, Event.WITHDRAW): State.CLOSED,
    (State.SHADOW, Event.REJECT): State.DENIED,
    (State.SHADOW, Event.CLOSE): State.CLOSED,
    (State.SHADOW, Event.TIMEOUT): State.CLOSED,
    (State.APPROVED, Event.ACCEPT): State.ACCEPTED,
    (State.APPROVED, Event.ACCEPT_LATE): State.NO_ANSWER,
    (State.APPROVED, Event.REVOKE): State.DENIED,
    (State.APPROVED, Event.CHANGE): State.CLOSED,
    (State.APPROVED, Event.WITHDRAW): State.CLOSED,
    (State.APPROVED, Event.REJECT): State.DENIED,
    (State.APPROVED, Event.CLOSE): State.CLOSED,
    (State.APPROVED, Event.TIMEOUT): State.EXPIRED,
    (State.ACCEPTED, Event.ISOLATED): State.DRAINED,
    (State.ACCEPTED, Event.REPAIRED): State.VERIFYING,
    (State.ACCEPTED, Event.DONE): State.PROBATION,
    (State.ACCEPTED, Event.FAIL): State.FAILED,
    (State.ACCEPTED, Event.RETURNED): State.PROBATION,
    (State.ACCEPTED, Event.CLOSE): State.CLOSED,
    (State.ACCEPTED, Event.TIMEOUT): State.NO_ANSWER,
    (State.NO_ANSWER, Event.ISOLATED): State.DRAINED,
    (State.NO_ANSWER, Event.REPAIRED): State.VERIFYING,
    (State.NO_ANSWER, Event.DONE): State.PROBATION,
    (State.NO_ANSWER, Event.FAIL): State.FAILED,
    (State.NO_ANSWER, Event.REMOVED): State.ESCALATED,
    (State.NO_ANSWER, Event.RETURNED): State.PROBATION,
    (State.NO_ANSWER, Event.OVERRIDDEN): State.ESCALATED,
    (State.NO_ANSWER, Event.CLOSE): State.CLOSED,
    (State.NO_ANSWER, Event.TIMEOUT): State.ESCALATED,
    (State.FAILED, Event.ISOLATED): State.DRAINED,
    (State.FAILED, Event.REPAIRED): State.VERIFYING,
    (State.FAILED, Event.CHANGE): State.CLOSED,
    (State.FAILED, Event.WITHDRAW): State.CLOSED,
    (State.FAILED, Event.REJECT): State.DENIED,
    (State.FAILED, Event.CLOSE): State.CLOSED,
    (State.FAILED, Event.TIMEOUT): State.ESCALATED,
    (State.DRAINED, Event.REPAIRED): State.VERIFYING,
    (State.DRAINED, Event.EXHAUST): State.ESCALATED,
    (State.DRAINED, Event.REMOVED): State.ESCALATED,
    (State.DRAINED, Event.RESTORED): State.PROBATION,
    (State.DRAINED, Event.RETURNED): State.PROBATION,
    (State.DRAINED, Event.OVERRIDDEN): State.ESCALATED,
    (State.DRAINED, Event.CLOSE): State.CLOSED,
    (State.DRAINED, Event.TIMEOUT): State.ESCALATED,
    (State.VERIFYING, Event.QUALIFY): State.RESTORING,
    (State.VERIFYING, Event.REPAIRED): State.VERIFYING,
    (State.VERIFYING, Event.HAND_OVER): State.CLOSED,
    (State.VERIFYING, Event.EXHAUST): State.ESCALATED,
    (State.VERIFYING, Event.REMOVED): State.ESCALATED,
    (State.VERIFYING, Event.RESTORED): State.PROBATION,
    (State.VERIFYING, Event.RETURNED): State.PROBATION,
    (State.VERIFYING, Event.OVERRIDDEN): State.ESCALATED,
    (State.VERIFYING, Event.CLOSE): State.CLOSED,
    (State.VERIFYING, Event.TIMEOUT): State.DRAINED,
    (State.RESTORING, Event.DISQUALIFY): State.VERIFYING,
    (State.RESTORING, Event.REPAIRED): State.VERIFYING,
    (State.RESTORING, Event.HAND_OVER): State.CLOSED,
    (State.RESTORING, Event.RESTORED): State.PROBATION,
    (State.RESTORING, Event.REMOVED): State.ESCALATED,
    (State.RESTORING, Event.EXHAUST): State.ESCALATED,
    (State.RESTORING, Event.REJECT): State.ESCALATED,
    (State.RESTORING, Event.RETURNED): State.PROBATION,
    (State.RESTORING, Event.OVERRIDDEN): State.ESCALATED,
    (State.RESTORING, Event.CLOSE): State.CLOSED,
    (State.RESTORING, Event.TIMEOUT): State.ESCALATED,
    (State.PROBATION, Event.HAND_OVER): State.CLOSED,
    (State.PROBATION, Event.RELAPSE): State.CLOSED,
    (State.PROBATION, Event.LAST_RELAPSE): State.ESCALATED,
    (State.PROBATION, Event.ISOLATED): State.DRAINED,
    (State.PROBATION, Event.REPAIRED): State.VERIFYING,
    (State.PROBATION, Event.CLOSE): State.CLOSED,
    (State.PROBATION, Event.TIMEOUT): State.CLOSED,
    (State.ESCALATED, Event.ISOLATED): State.DRAINED,
    (State.ESCALATED, Event.REPAIRED): State.VERIFYING,
    (State.ESCALATED, Event.DONE): State.PROBATION,
    (State.ESCALATED, Event.FAIL): State.FAILED,
    (State.ESCALATED, Event.HAND_OVER): State.CLOSED,
    (State.ESCALATED, Event.RESTORED): State.PROBATION,
    (State.ESCALATED, Event.CHANGE): State.CLOSED,
    (State.ESCALATED, Event.TAKE_OVER): State.CLOSED,
    (State.ESCALATED, Event.WITHDRAW): State.CLOSED,
    (State.ESCALATED, Event.RETURNED): State.PROBATION,
    (State.ESCALATED, Event.OVERRIDDEN): State.ESCALATED,
    (State.ESCALATED, Event.CLOSE): State.CLOSED,
    (State.ESCALATED, Event.TIMEOUT): State.ESCALATED,
    (State.CLOSED, Event.ACCEPT_LATE): State.NO_ANSWER,
    (State.CLOSED, Event.ISOLATED): State.DRAINED,
    (State.CLOSED, Event.REPAIRED): State.VERIFYING,
    (State.CLOSED, Event.DONE): State.PROBATION,
    (State.CLOSED, Event.FAIL): State.CLOSED,
    (State.CLOSED, Event.RESTORED): State.PROBATION,
    (State.CLOSED, Event.RETURNED): State.PROBATION,
}
"""(state, event) -> the next state."""

TIMEOUTS: Mapping[State, str] = {
    State.PROPOSED: "proposed_s",
    State.WAITING: "approval_s",
    State.DENIED: "retained_s",
    State.EXPIRED: "retained_s",
    State.SHADOW: "retained_s",
    State.APPROVED: "expires_s",
    State.ACCEPTED: "answer_s",
    State.NO_ANSWER: "no_answer_s",
    State.FAILED: "failed_s",
    State.DRAINED: "repair_s",
    State.VERIFYING: "verify_s",
    State.RESTORING: "restore_s",
    State.PROBATION: "probation_s",
    State.ESCALATED: "page_again_s",
}
"""State -> the setting of `[decide]` with its timeout; every state but CLOSED has one."""

NOT_BEGUN = frozenset((
    State.PROPOSED, State.WAITING, State.DENIED, State.EXPIRED, State.SHADOW, State.APPROVED, State.FAILED,
))  # fmt: skip
"""States in which nothing has been carried out; only these end with the finding."""

EVALUATED_AGAIN = frozenset((State.PROPOSED, State.WAITING, State.DENIED, State.FAILED))
"""States in which the guards are evaluated again, because controls, capacity or time may have changed the result."""

REPAIR_ACTIONS = (Action.REPAIR_LINK, Action.REBOOT_HOST)
"""Actions that are repairs themselves: after such an action the target must qualify."""

RESTORES = (Action.RESTORE_LINK, Action.UNCORDON_HOST)
"""Actions that return a target to service: always orders, after proof and not because of a condition."""


def next_state(state: State, event: Event) -> State | None:
    """Return the state after an event; None if the event has no effect in this state."""
    return TRANSITIONS.get((state, event))
