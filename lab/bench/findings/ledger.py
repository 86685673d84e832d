"""Counts events that consumers of the topics observe: pages, conflicting decisions, findings without a decision.

An automation and repairing technicians are simulated: they accept each approved remediation once and report results.
"""

import heapq
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from streams.decide.life_cycle import TRANSITIONS
from streams.notify.notifier import Identity, Notifier
from streams.wire.models import Action, Finding, Outcome, Remediation, RemediationResult, Severity, Verdict
from streams.wire.models import RemediationState as State

_DECISION_NS = 120 * 10**9
"""A finding that is open and has no parent this long after its deadline must have a decision. Longer than a kill, its
restart, and the settling time."""

_ORDERS = (Action.RESTORE_LINK, Action.UNCORDON_HOST)
_OF_ORDERS = {
    (State.APPROVED, State.ACCEPTED), (State.APPROVED, State.CLOSED), (State.APPROVED, State.DENIED),
    (State.APPROVED, State.EXPIRED), (State.WAITING, State.APPROVED), (State.WAITING, State.DENIED),
    (State.WAITING, State.EXPIRED), (State.ACCEPTED, State.CLOSED), (State.ACCEPTED, State.FAILED),
    (State.ACCEPTED, State.NO_ANSWER),
}  # fmt: skip
_ALLOWED = {(before, after) for (before, _), after in TRANSITIONS.items()}


@dataclass(slots=True)
class _Known:
    record: Remediation
    is_order: bool
    seen: set[State]


@dataclass(slots=True)
class RemediationLedger:
    """Tracks all remediations; `differing` has those that were decided twice with different results."""

    known: dict[str, _Known] = field(default_factory=dict)
    differing: list[str] = field(default_factory=list)
    covered: set[str] = field(default_factory=set)
    """Findings with a remediation."""
    revisions: int = 0
    repeated: int = 0
    """The number of revisions that a successor published again."""

    def observe(self, record: Remediation) -> None:
        """Record one revision, in the order of the topic."""
        self.revisions += 1
        self.covered.update(record.finding_ids)
        known = self.known.get(record.id)
        if known is None:
            is_order = record.action in _ORDERS or record.reason.startswith("repairs the target of")
            self.known[record.id] = _Known(record, is_order, {record.state})
            return
        before = known.record
        is_successor = record.revision >> 32 > before.revision >> 32
        is_repeated = is_successor and record.state in known.seen
        self.repeated += is_repeated
        if not self._fits(known, record, is_repeated=is_repeated):
            self.differing.append(
                f"{record.id}: {before.state.name} {before.reason!r}, {record.state.name} {record.reason!r}"
            )
        known.record = record
        known.seen.add(record.state)

    @staticmethod
    def _fits(known: _Known, record: Remediation, *, is_repeated: bool) -> bool:
        before = known.record
        fields = [(one.action, one.target.id, one.finding_ids[0], one.attempt) for one in (before, record)]
        if fields[0] != fields[1] or record.revision <= before.revision:
            return False
        states = before.state, record.state
        if states == (State.APPROVED, State.DENIED) and record.verdict is not Verdict.REVOKED:
            return False
        return is_repeated or states[0] is states[1] or states in (_OF_ORDERS if known.is_order else _ALLOWED)

    def states(self) -> Counter[str]:
        """Return the number of remediations by their last state."""
        return Counter(one.record.state.name for one in self.known.values())


@dataclass(slots=True)
class FindingLedger:
    """Tracks all findings; `due` has the findings that must have a decision."""

    settle_ns: int
    ids: set[str] = field(default_factory=set)
    due: set[str] = field(default_factory=set)
    revisions: int = 0
    _first_ns: list[int] = field(default_factory=list)
    """The first publication times of findings, ascending."""
    _since_ns: dict[str, int] = field(default_factory=dict)
    """Open findings that the policy decides, with the time from which a decision is due."""

    def observe(self, finding: Finding, at_ns: int) -> None:
        """Record one revision."""
        self.revisions += 1
        if finding.id not in self.ids:
            self.ids.add(finding.id)
            self._first_ns.append(at_ns)
        is_decided = finding.severity is not Severity.INFO and not (finding.parent_id or finding.shadow)
        if is_decided and not finding.is_closed:
            start_ns = max(finding.started_at_ns, finding.detected_at_ns or 0)
            self._since_ns.setdefault(finding.id, max(at_ns, start_ns + self.settle_ns))
        else:
            self._end(finding.id, at_ns)

    def count_since(self, after_ns: int) -> int:
        """Return the number of findings that were first published after a time."""
        return len(self._first_ns) - bisect_right(self._first_ns, after_ns)

    def end(self, at_ns: int) -> None:
        """End the period."""
        for identity in list(self._since_ns):
            self._end(identity, at_ns)

    def _end(self, identity: str, at_ns: int) -> None:
        since_ns = self._since_ns.pop(identity, None)
        if since_ns is not None and at_ns - since_ns >= _DECISION_NS:
            self.due.add(identity)


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its time, and its finding or remediation."""

    at_ns: int
    name: str
    subject_id: str
    about: str


@dataclass(slots=True)
class Pager:
    """The page logic of `notify`, polled as its service polls it."""

    notifier: Notifier
    interval_ns: int
    pages: list[Page] = field(default_factory=list)
    _active: dict[Identity, int] = field(default_factory=dict)
    """Firing pages, with the end of each."""
    _next_ns: int = 0

    def advance(self, now_ns: int) -> None:
        """Post due alerts; an alert that starts to fire is a page."""
        if now_ns < self._next_ns:
            return
        self._next_ns = now_ns + self.interval_ns
        due = self.notifier.due(now_ns)
        for alert in due:
            if alert.labels.get("page") != "true":
                continue
            if alert.ends_at_ns <= now_ns:
                self._active.pop(alert.identity, None)
            else:
                if self._active.get(alert.identity, 0) <= now_ns:
                    about = alert.labels.get("finding_id") or alert.labels.get("remediation_id", "")
                    self.pages.append(Page(now_ns, alert.labels["alertname"], alert.labels.get("subject", ""), about))
                self._active[alert.identity] = alert.ends_at_ns
        self.notifier.posted(due, now_ns)


ACTOR = "bench"
_S = 10**9
_FAILS = 0.05
"""The share of the actions that fail (choice)."""
_ACCEPT_S, _ACT_S, _REPAIR_S = (0.5, 3.0), (2.0, 30.0), (600.0, 3600.0)


@dataclass(slots=True)
class SimulatedAutomation:
    """Answers remediations as the reference automation does: once per id."""

    seed: int
    acted: int = 0
    _accepted: set[str] = field(default_factory=set)
    _begun: set[str] = field(default_factory=set)
    _answers: list[tuple[int, int, RemediationResult]] = field(default_factory=list)
    _chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)  # noqa: S311 — no secret

    def observe(self, remediation: Remediation, now_ns: int) -> None:
        """Record one revision of a remediation."""
        identity, state = remediation.id, remediation.state
        if remediation.action is Action.OBSERVE:
            return
        if state is State.APPROVED and identity not in self._accepted:
            self._accepted.add(identity)
            self._answer(identity, Outcome.ACCEPTED, now_ns, _ACCEPT_S)
        elif state is State.ACCEPTED and remediation.actor == ACTOR and identity not in self._begun:
            self._begun.add(identity)
            self.acted += 1
            is_repair = remediation.action is Action.REPAIR_LINK
            outcome = Outcome.FAILED if self._chance.random() < _FAILS else Outcome.DONE
            self._answer(identity, outcome, now_ns, _REPAIR_S if is_repair else _ACT_S)

    def due(self, now_ns: int) -> Iterator[RemediationResult]:
        """Yield the answers that are due by a time."""
        while self._answers and self._answers[0][0] <= now_ns:
            yield heapq.heappop(self._answers)[2]

    def _answer(self, identity: str, outcome: Outcome, now_ns: int, within_s: tuple[float, float]) -> None:
        at_ns = now_ns + round(self._chance.uniform(*within_s) * _S)
        result = RemediationResult(identity, outcome, at_ns, ACTOR)
        heapq.heappush(self._answers, (at_ns, len(self._accepted) + len(self._begun), result))
