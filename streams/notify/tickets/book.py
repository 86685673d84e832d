"""Decides which remediations have an open ticket, and builds the ticket's text as plain values without markup.

Processes the revisions of remediations in their order. A ticket opens when a remediation needs manual work, changes
with its text, and closes when the remediation ends or another remediation has the work. All values come from the
revision, none from a clock, so that the same record always makes the same ticket.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum

from streams.instrument.text import clean
from streams.notify.alert import allowed_link, rfc3339, without_markup
from streams.notify.params import NotifyParams
from streams.wire.errors import Reject
from streams.wire.models import Action, Cause, Endpoint, Remediation, RemediationState, RepairStep
from streams.wire.models import RemediationState as State

_MAX_FINDINGS = 20
_CAMEL = re.compile(r"_([a-z])")
_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


class TicketStatus(StrEnum):
    """The status of a ticket."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Ticket:
    """One ticket, in the order of the webhook's body; absent values are empty, and `findings` has at most 20."""

    id: str
    revision: int
    status: TicketStatus
    title: str
    cluster: str
    action: str
    state: str
    target: str
    ends: tuple[str, ...]
    site: str
    pod: str
    team: str
    repair_step: str
    repair_hint: str
    cause: str
    part_number: str
    reason: str
    attempt: int
    finding_ids: tuple[str, ...]
    runbook_url: str
    commands: tuple[str, ...]
    opened_at: str
    updated_at: str

    def is_same_work(self, other: "Ticket") -> bool:
        """Return whether both tickets are equal except for the number and the time of the revision."""
        return replace(self, revision=0, updated_at="") == replace(other, revision=0, updated_at="")

    def to_json(self) -> dict[str, object]:
        """Return the body of the webhook, with the topics' field names and without empty values."""
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return {
            _CAMEL.sub(lambda found: found[1].upper(), name): value
            for name, value in values.items()
            if value not in ("", 0, []) or name == "revision"
        }


def build_ticket(remediation: Remediation, status: TicketStatus, opened_at: str, params: NotifyParams) -> Ticket:
    """Return the ticket of a revision; `opened_at` is empty if this revision opens it.

    Raises Reject for an id that cannot be a segment of a URL.
    """
    if not _PLAIN_ID.fullmatch(remediation.id):
        raise Reject(f"the id {clean(remediation.id[:40])!r} of a remediation is not letters, digits, '_' and '-'")
    decided_at = rfc3339(remediation.decided_at_ns) if remediation.decided_at_ns else ""
    target = remediation.target
    return Ticket(
        id=remediation.id,
        status=status,
        title=_text(_title(remediation)),
        cluster=params.cluster,
        action=remediation.action.name,
        state=remediation.state.name,
        target=_text(target.id),
        ends=tuple(_text(_end(end)) for end in (target.a, target.z) if end is not None),
        site=_text(target.site),
        pod=_text(target.pod),
        team=_text(target.team),
        repair_step="" if remediation.repair_step is RepairStep.STEP_UNSPECIFIED else remediation.repair_step.name,
        repair_hint=_text(remediation.repair_hint),
        cause="" if remediation.cause is Cause.CAUSE_UNSPECIFIED else remediation.cause.label,
        part_number=_text(remediation.part_number),
        reason=_text(remediation.reason),
        attempt=remediation.attempt,
        finding_ids=tuple(_text(one) for one in remediation.finding_ids[:_MAX_FINDINGS]),
        runbook_url=allowed_link(remediation.runbook_url, params),
        commands=_commands(remediation) if status is TicketStatus.OPEN else (),
        opened_at=opened_at or decided_at,
        updated_at=decided_at,
        revision=remediation.revision,
    )


def _title(remediation: Remediation) -> str:
    action, target = remediation.action.name, remediation.target.id
    if remediation.state is RemediationState.ESCALATED:
        return f"{action} of {target} needs a person"
    work = "Repair" if remediation.action is Action.REPAIR_LINK else "Repair the host"
    return f"{work}: {target}"


def _end(end: Endpoint) -> str:
    serial = f" ({end.serial})" if end.serial else ""
    return (f"{end.device} {end.port}" if end.port else end.device) + serial


def _commands(remediation: Remediation) -> tuple[str, ...]:
    identity = remediation.id
    commands = (f"railsight remediations explain {identity}", f"railsight repaired {identity}")
    # Only an escalation can be closed without a repair, because its target is in service.
    return (*commands, f"railsight reject {identity}") if remediation.state is RemediationState.ESCALATED else commands


def _text(text: str) -> str:
    """Return a device's text on one line, with links, mentions and tags disabled."""
    return without_markup(clean(text))


_MAX_CLOSED = 4096  # retained ends, to detect late revisions: more than a month of a fleet's repairs

_REPAIR_STATES = frozenset((State.APPROVED, State.ACCEPTED, State.NO_ANSWER))
_HOSTS = frozenset((Action.CORDON_HOST, Action.REBOOT_HOST))
_ENDS = frozenset((State.CLOSED, State.DENIED, State.EXPIRED, State.SHADOW, State.FAILED))
"""States without manual work: the remediation is over, was not permitted, or failed without a change."""


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

    True for an approved repair of a link, for every escalation, and for a host that is out of service, because `decide`
    orders no repair of hosts (at most a restart by automation). WAITING, DENIED and EXPIRED need a decision, for which
    there are alerts; SHADOW changes nothing; a revision without a state comes from a version without a life cycle.
    """
    state = remediation.state
    if state is State.ESCALATED:
        return True
    if remediation.action in _HOSTS:
        return state is State.DRAINED
    return remediation.action is Action.REPAIR_LINK and state in _REPAIR_STATES


def is_over(remediation: Remediation) -> bool:
    """Return whether an open ticket closes, because the remediation ended or a drained link has a repair order."""
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
        """Process a revision; return the change of its ticket, or None if the text stays the same.

        Raises Reject for a remediation that needs a ticket but has an unusable id.
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
