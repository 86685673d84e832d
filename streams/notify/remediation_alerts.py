"""Decides which remediations need a person, and builds their alerts.

A remediation has at most one alert: it waits for an approval, was denied, failed, got no answer, or is escalated. The
state decides; without a state, the verdict, the expiry and the automation's results decide.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from streams.instrument.text import in_words
from streams.notify.alert import SOURCE, Alert, allowed_link, subject_labels
from streams.notify.params import NotifyParams
from streams.wire.models import Outcome, Remediation, RemediationResult, RemediationState, Verdict

_NS = 1_000_000_000
_MAX_RETAINED = 4096  # closed remediations and results without a remediation, to detect late revisions


class Problem(StrEnum):
    """The names of the alerts."""

    WAITING = "RemediationWaiting"
    DENIED = "RemediationDenied"
    FAILED = "RemediationFailed"
    UNANSWERED = "RemediationUnanswered"
    ESCALATED = "RemediationEscalated"


_PROBLEM_OF_STATE: Mapping[RemediationState, Problem] = {
    RemediationState.WAITING: Problem.WAITING,
    RemediationState.DENIED: Problem.DENIED,
    RemediationState.FAILED: Problem.FAILED,
    RemediationState.EXPIRED: Problem.UNANSWERED,
    RemediationState.NO_ANSWER: Problem.UNANSWERED,
    RemediationState.ESCALATED: Problem.ESCALATED,
}
_LASTS = (Problem.WAITING, Problem.ESCALATED)
"""Problems without a time limit, which only a person or the life cycle ends."""

_PLANNED_GUARDS = frozenset({3, 4})
"""The guards of maintenance and exclusion: their denials were planned, and need no person."""

_STATEMENT: Mapping[Problem, str] = {
    Problem.WAITING: "waits for an approval",
    Problem.DENIED: "is denied",
    Problem.FAILED: "failed",
    Problem.UNANSWERED: "got no answer",
    Problem.ESCALATED: "needs a person",
}


@dataclass(slots=True)
class _Entry:
    remediation: Remediation
    arrived_ns: int
    is_removed: bool = False


@dataclass(slots=True)
class RemediationAlerts:
    """The newest revision of each open remediation, and the results of remediations without a state."""

    params: NotifyParams
    _entries: dict[str, _Entry] = field(default_factory=dict)
    _closed: dict[str, int] = field(default_factory=dict)
    """Remediation id -> the last revision."""
    _results: dict[str, Outcome] = field(default_factory=dict)

    def process(self, remediation: Remediation, arrived_ns: int) -> bool:
        """Process a revision; return whether it is newer than the known one."""
        identity = remediation.id
        entry = self._entries.get(identity)
        known = entry.remediation.revision if entry is not None else self._closed.get(identity, -1)
        if remediation.revision <= known:
            return False
        is_revoked = remediation.verdict is Verdict.REVOKED and not _has_state(remediation)
        if remediation.state is RemediationState.CLOSED or is_revoked:
            self._close(identity, remediation.revision)
        else:
            self._closed.pop(identity, None)
            # Another revision with the same problem does not prolong its alert.
            same = entry is not None and _problem_at_rest(entry.remediation) is _problem_at_rest(remediation)
            self._entries[identity] = _Entry(remediation, entry.arrived_ns if same and entry else arrived_ns)
        return True

    def process_result(self, result: RemediationResult) -> None:
        """Record an outcome; ACCEPTED is not final."""
        if result.outcome is not Outcome.ACCEPTED:
            self._results[result.remediation_id] = result.outcome
            _limit(self._results)

    def remove(self, identity: str) -> bool:
        """Process the tombstone of remediations-open; return whether the remediation was known."""
        if (entry := self._entries.get(identity)) is None:
            return False
        if _has_state(entry.remediation) or identity in self._results:
            self._close(identity, entry.remediation.revision)
        else:
            entry.is_removed = True  # without a state, an expiry is only a tombstone
        return True

    def alert(self, identity: str, now_ns: int) -> Alert | None:
        """Return the alert of a remediation, which expires `expire_s` from now; None if it needs no person."""
        problem = self._problem(identity, now_ns)
        return None if problem is None else self._build(self._entries[identity], problem, now_ns)

    def next_change_ns(self, identity: str, now_ns: int) -> int | None:
        """Return the time at which the alert changes without a message."""
        if (entry := self._entries.get(identity)) is None:
            return None
        times = (entry.remediation.expires_at_ns or 0, self._limit_ns(entry))
        return min((at_ns for at_ns in times if at_ns > now_ns), default=None)

    def _problem(self, identity: str, now_ns: int) -> Problem | None:
        if (entry := self._entries.get(identity)) is None:
            return None
        problem = _problem_at_rest(entry.remediation)
        if not _has_state(entry.remediation):
            problem = self._problem_without_state(entry, now_ns)
        if problem is Problem.DENIED and entry.remediation.guard in _PLANNED_GUARDS:
            return None
        if problem is not None and problem not in _LASTS and now_ns >= self._limit_ns(entry):
            if not _has_state(entry.remediation):
                self._close(identity, entry.remediation.revision)
            return None
        return problem

    def _problem_without_state(self, entry: _Entry, now_ns: int) -> Problem | None:
        remediation = entry.remediation
        outcome = self._results.get(remediation.id)
        if outcome in (Outcome.FAILED, Outcome.REJECTED):
            return Problem.FAILED
        if outcome is Outcome.DONE:
            return None
        is_expired = entry.is_removed or (remediation.expires_at_ns or now_ns + 1) <= now_ns
        match remediation.verdict:
            case Verdict.DENIED:
                return Problem.DENIED
            case Verdict.NEEDS_APPROVAL:
                return Problem.UNANSWERED if is_expired else Problem.WAITING
            case Verdict.APPROVED:
                return Problem.UNANSWERED if is_expired else None
            case _:
                return None

    def _limit_ns(self, entry: _Entry) -> int:
        return entry.arrived_ns + round(self.params.remediation_s * _NS)

    def _close(self, identity: str, revision: int) -> None:
        self._entries.pop(identity, None)
        self._results.pop(identity, None)
        self._closed[identity] = revision
        _limit(self._closed)

    def _build(self, entry: _Entry, problem: Problem, now_ns: int) -> Alert:
        remediation = entry.remediation
        labels = {
            "alertname": problem.value,
            "kind": "remediation",
            "source": SOURCE,
            "cluster": self.params.cluster,
            "remediation_id": remediation.id,
            "finding_id": remediation.finding_ids[0] if remediation.finding_ids else "",
            "action": remediation.action.name.lower(),
            # An escalation pages, because only a person can continue.
            "page": "true" if problem is Problem.ESCALATED else "",
            **subject_labels(remediation.target),
        }
        return Alert(
            {label: value for label, value in labels.items() if value},
            self._annotations(remediation, problem),
            starts_at_ns=min(entry.arrived_ns, now_ns),
            ends_at_ns=now_ns + round(self.params.expire_s * _NS),
        )

    def _annotations(self, remediation: Remediation, problem: Problem) -> dict[str, str]:
        action = in_words(remediation.action.name)
        annotations = {
            "summary": f"{action} of {remediation.target.id} {_STATEMENT[problem]}",
            "reason": remediation.reason,
            "constraint": _constraint(remediation),
            "repair_hint": remediation.repair_hint,
            "attempt": str(remediation.attempt or ""),
            "approve": f"railsight approve {remediation.id}" if problem is Problem.WAITING else "",
            "runbook_url": allowed_link(remediation.runbook_url, self.params),
        }
        return {name: value for name, value in annotations.items() if value}


def _has_state(remediation: Remediation) -> bool:
    return remediation.state is not RemediationState.STATE_UNSPECIFIED


def _problem_at_rest(remediation: Remediation) -> Problem | None:
    """Return the problem of the remediation's state."""
    return _PROBLEM_OF_STATE.get(remediation.state)


def _constraint(remediation: Remediation) -> str:
    if not remediation.constraint:
        return ""
    number = f"guard {remediation.guard}, " if remediation.guard else ""
    values = "".join(
        f", {name} {value:g}"
        for name, value in (("limit", remediation.constraint_limit), ("observed", remediation.constraint_observed))
        if value is not None
    )
    return f"{number}{remediation.constraint}{values}"


def _limit(retained: dict[str, int] | dict[str, Outcome]) -> None:
    while len(retained) > _MAX_RETAINED:
        del retained[next(iter(retained))]
