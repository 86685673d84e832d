"""Decides which remediations have an open ticket: a fold over the revisions of remediations, in their order.

A ticket opens when a remediation needs a person's hands, changes with what a person reads of it, and closes when the
remediation ends or another remediation has the work.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from streams.notify.params import NotifyParams
from streams.notify.tickets.ticket import Ticket, TicketStatus, build_ticket
from streams.wire.models import Action, Remediation
from streams.wire.models import RemediationState as State

_MAX_CLOSED = 4096  # ends retained against late revisions: more than a month of a fleet's repairs

_REPAIR_STATES = frozenset((State.APPROVED, State.ACCEPTED, State.NO_ANSWER))
_HOSTS = frozenset((Action.CORDON_HOST, Action.REBOOT_HOST))
_ENDS = frozenset((State.CLOSED, State.DENIED, State.EXPIRED, State.SHADOW, State.FAILED))
"""States after which there is nothing to do by hand: it is over, was not allowed, or failed and changed nothing."""


class ChangeKind(StrEnum):
    """The kinds of changes of a ticket."""

    OPENED = "opened"
    REOPENED = "reopened"
    UPDATED = "updated"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Change:
    """One change, with the whole ticket after it."""

    kind: ChangeKind
    ticket: Ticket


def needs_hands(remediation: Remediation) -> bool:
    """Return whether a person must work on the target.

    A repair of a link that was approved; a host that is out of service, because `decide` orders no repair of hosts
    (at most a restart by automation); and every escalation. WAITING, DENIED and EXPIRED need a decision, for which
    there are alerts, and nothing is carried out in SHADOW; a revision without a state is of a version without a life
    cycle.
    """
    state = remediation.state
    if state is State.ESCALATED:
        return True
    if remediation.action in _HOSTS:
        return state is State.DRAINED
    return remediation.action is Action.REPAIR_LINK and state in _REPAIR_STATES


def is_over(remediation: Remediation) -> bool:
    """Return whether an open ticket closes: the remediation ended, or a drained link has a repair order of its own."""
    is_link = remediation.action not in _HOSTS
    return remediation.state in _ENDS or (is_link and remediation.state is State.DRAINED)


@dataclass(slots=True)
class TicketBook:
    """The open tickets, and the last revisions of the closed ones."""

    params: NotifyParams
    _open: dict[str, Ticket] = field(default_factory=dict)
    _closed: dict[str, int] = field(default_factory=dict)

    @property
    def open_tickets(self) -> Mapping[str, Ticket]:
        """The open tickets by remediation id, the oldest first."""
        return self._open

    def process(self, remediation: Remediation) -> Change | None:
        """Process a revision; return the change of its ticket, None if a person reads the same as before.

        Raises Reject for a remediation that needs a ticket and has an unusable id.
        """
        identity = remediation.id
        before = self._open.get(identity)
        known = before.revision if before is not None else self._closed.get(identity, -1)
        if remediation.revision <= known:
            return None
        if before is not None and is_over(remediation):
            return self._close(remediation, before)
        if before is None and not needs_hands(remediation):
            return None
        opened_at = before.opened_at if before is not None else ""
        ticket = build_ticket(remediation, TicketStatus.OPEN, opened_at, self.params)
        self._open[identity] = ticket
        if before is None:
            is_known = self._closed.pop(identity, None) is not None
            return Change(ChangeKind.REOPENED if is_known else ChangeKind.OPENED, ticket)
        return None if ticket.is_same_work(before) else Change(ChangeKind.UPDATED, ticket)

    def _close(self, remediation: Remediation, before: Ticket) -> Change:
        del self._open[remediation.id]
        self._closed[remediation.id] = remediation.revision
        while len(self._closed) > _MAX_CLOSED:
            del self._closed[next(iter(self._closed))]
        return Change(ChangeKind.CLOSED, build_ticket(remediation, TicketStatus.CLOSED, before.opened_at, self.params))
