"""Compares two policies over the same findings: the actions of each, and the lowest remaining capacity.

An automation in memory carries out every approved action at once, so that isolated targets count against the capacity
and the caps, as in the live pipeline. The fabric does not change, because a recording contains no repair.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streams.wire.models import Action, Outcome, Remediation, RemediationResult, RemediationState, Verdict

ACTOR = "backtest"

_STRENGTH = (Verdict.DENIED, Verdict.SHADOW, Verdict.NEEDS_APPROVAL, Verdict.APPROVED)
"""Verdicts in order of strength; the strongest of a decision's attempts counts."""

Intent = tuple[str, Action, str]
"""The identity of a decision: finding, action, target."""


@dataclass(slots=True)
class PolicyRun:
    """The decisions of one policy."""

    decisions: dict[Intent, Remediation] = field(default_factory=dict)
    lowest: Remediation | None = None
    """The approved action with the lowest remaining share of a group's capacity."""
    _answered: set[str] = field(default_factory=set)

    def record(self, remediation: Remediation) -> None:
        """Record a revision."""
        if remediation.verdict not in _STRENGTH:
            return
        intent = remediation.finding_ids[0], remediation.action, remediation.target.id
        known = self.decisions.get(intent)
        if known is None or _STRENGTH.index(remediation.verdict) > _STRENGTH.index(known.verdict):
            self.decisions[intent] = remediation
        ratio = remediation.surviving_capacity_ratio
        if remediation.verdict is Verdict.APPROVED and ratio is not None:
            least = None if self.lowest is None else self.lowest.surviving_capacity_ratio
            if least is None or ratio < least:
                self.lowest = remediation

    def answers(self, remediations: Iterable[Remediation]) -> list[RemediationResult]:
        """Return the results of carrying out each approved action at once."""
        results = []
        for remediation in remediations:
            is_order = remediation.state in (RemediationState.APPROVED, RemediationState.STATE_UNSPECIFIED)
            if not is_order or remediation.verdict is not Verdict.APPROVED or remediation.id in self._answered:
                continue
            self._answered.add(remediation.id)
            results += [
                RemediationResult(remediation.id, outcome, remediation.decided_at_ns, ACTOR)
                for outcome in (Outcome.ACCEPTED, Outcome.DONE)
            ]
        return results

    def counts(self) -> Mapping[tuple[Action, Verdict], int]:
        """Return the number of decisions by action and verdict."""
        return Counter((one.action, one.verdict) for one in self.decisions.values())

    def as_dict(self) -> dict[str, Any]:
        """Return the counts and the lowest capacity as JSON values."""
        return {
            "decisions": {f"{action.name} {verdict.name}": n for (action, verdict), n in sorted(self.counts().items())},
            "lowest_capacity": None if self.lowest is None else self.lowest.surviving_capacity_ratio,
        }


@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """The runs of two policies, or of one."""

    first: PolicyRun
    second: PolicyRun | None = None

    def differences(self) -> list[tuple[Remediation | None, Remediation | None]]:
        """Return the pairs of decisions (by finding and target) that differ in action or verdict, in order of time."""
        if self.second is None:
            return []
        pairs = [
            (self.first.decisions.get(intent), self.second.decisions.get(intent))
            for intent in {*self.first.decisions, *self.second.decisions}
        ]
        changed = [(a, b) for a, b in pairs if (a and a.verdict) != (b and b.verdict)]
        return sorted(changed, key=lambda pair: _order(pair[0] or pair[1]))

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        other = {} if self.second is None else {"against": self.second.as_dict()}
        return {"policy": self.first.as_dict(), "differences": len(self.differences())} | other


def _order(remediation: Remediation | None) -> tuple[int, int, str, tuple[str, ...]]:
    assert remediation is not None
    return remediation.decided_at_ns or 0, remediation.action, remediation.target.id, remediation.finding_ids
