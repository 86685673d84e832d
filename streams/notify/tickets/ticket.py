"""Builds the ticket of a remediation: what a person reads, as plain values without markup.

All values come from the revision, none from a clock, so that the same record always makes the same ticket.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from streams.notify.alert import rfc3339, without_markup
from streams.notify.links import allowed_link
from streams.notify.params import NotifyParams
from streams.wire.bounds import clean
from streams.wire.errors import Reject
from streams.wire.models import Action, Cause, Endpoint, Remediation, RemediationState, RepairStep

_MAX_FINDINGS = 20
_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


class TicketStatus(StrEnum):
    """The status of a ticket."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Ticket:
    """One ticket. Absent values are empty; `findings` are ids, at most 20."""

    id: str
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
    step: str
    hint: str
    cause: str
    part_number: str
    reason: str
    attempt: int
    findings: tuple[str, ...]
    runbook_url: str
    commands: tuple[str, ...]
    opened_at: str
    updated_at: str
    revision: int

    def is_same_work(self, other: "Ticket") -> bool:
        """Return whether a person reads the same in both, but for the number and the time of the revision."""
        return replace(self, revision=0, updated_at="") == replace(other, revision=0, updated_at="")

    def to_json(self) -> dict[str, object]:
        """Return the body of the webhook, in the spelling of the topics and without empty values."""
        values = {
            "id": self.id,
            "revision": self.revision,
            "status": self.status.value,
            "title": self.title,
            "cluster": self.cluster,
            "action": self.action,
            "state": self.state,
            "target": self.target,
            "ends": list(self.ends),
            "site": self.site,
            "pod": self.pod,
            "team": self.team,
            "repairStep": self.step,
            "repairHint": self.hint,
            "cause": self.cause,
            "partNumber": self.part_number,
            "reason": self.reason,
            "attempt": self.attempt,
            "findingIds": list(self.findings),
            "runbookUrl": self.runbook_url,
            "commands": list(self.commands),
            "openedAt": self.opened_at,
            "updatedAt": self.updated_at,
        }
        return {name: value for name, value in values.items() if value not in ("", 0, []) or name == "revision"}


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
        step="" if remediation.repair_step is RepairStep.STEP_UNSPECIFIED else remediation.repair_step.name,
        hint=_text(remediation.repair_hint),
        cause="" if remediation.cause is Cause.CAUSE_UNSPECIFIED else remediation.cause.label,
        part_number=_text(remediation.part_number),
        reason=_text(remediation.reason),
        attempt=remediation.attempt,
        findings=tuple(_text(one) for one in remediation.finding_ids[:_MAX_FINDINGS]),
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
    # Only an escalation can be closed without a repair, where the target is in service.
    return (*commands, f"railsight reject {identity}") if remediation.state is RemediationState.ESCALATED else commands


def _text(text: str) -> str:
    """Return a text of a device on one line, in which a ticket system finds no link, no mention and no tag."""
    return without_markup(clean(text))
