"""Compares two configurations over one history: findings that appear, disappear or change.

Findings match by id, else by detector, subject and overlapping times, because another threshold may move the begin of
an episode. Findings with a RETRACTED or shadow last revision are ignored.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from streams.detect.fabric_side import are_concurrent
from streams.wire.models import Finding, Status


@dataclass(frozen=True, slots=True)
class ChangedFinding:
    """A finding in both configurations, with the differing fields: name -> (before, after)."""

    before: Finding
    after: Finding
    fields: dict[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Differences:
    """The differences between the findings of two configurations, in the order of their start."""

    appeared: tuple[Finding, ...]
    disappeared: tuple[Finding, ...]
    changed: tuple[ChangedFinding, ...]
    same: int

    def as_dict(self) -> dict[str, Any]:
        """Return the differences as JSON values."""
        return {
            "appeared": [_brief(finding) for finding in self.appeared],
            "disappeared": [_brief(finding) for finding in self.disappeared],
            "changed": [
                _brief(one.after) | {"changed": {name: list(both) for name, both in one.fields.items()}}
                for one in self.changed
            ],
            "same": self.same,
        }


def diff(before: Iterable[Finding], after: Iterable[Finding]) -> Differences:
    """Return the differences between the last revisions in `before` and `after`."""
    old, new = _valid(before), _valid(after)
    pairs = {id_: (old.pop(id_), new.pop(id_)) for id_ in list(old) if id_ in new}
    unmatched: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in sorted(new.values(), key=_start_order):
        unmatched[finding.detector, finding.subject.id].append(finding)
    for finding in sorted(old.values(), key=_start_order):
        candidates = unmatched[finding.detector, finding.subject.id]
        if (match := next((other for other in candidates if are_concurrent(finding, other)), None)) is not None:
            candidates.remove(match)
            pairs[finding.id] = old.pop(finding.id), new.pop(match.id)
    parents = {old_one.id: new_one.id for old_one, new_one in pairs.values()}
    changed = [ChangedFinding(*pair, _changes(*pair, parents)) for pair in pairs.values()]
    return Differences(
        tuple(sorted(new.values(), key=_start_order)),
        tuple(sorted(old.values(), key=_start_order)),
        tuple(sorted((one for one in changed if one.fields), key=lambda one: _start_order(one.after))),
        sum(not one.fields for one in changed),
    )


def _valid(findings: Iterable[Finding]) -> dict[str, Finding]:
    return {f.id: f for f in findings if f.status is not Status.RETRACTED and not f.shadow}


def _start_order(finding: Finding) -> tuple[int, str, str]:
    return finding.started_at_ns, finding.detector, finding.subject.id


_COMPARED: dict[str, Callable[[Finding], Any]] = {
    "severity": lambda f: f.severity.name.lower(),
    "detected after": lambda f: f"{((f.detected_at_ns or f.started_at_ns) - f.started_at_ns) / 1e9:g}s",
    "status": lambda f: "closed" if f.is_closed else "open",
    "cause": lambda f: f.cause.label,
    "occurrences": lambda f: f.occurrences or 0,
}
"""The fields that matter to on-call, by their printed names."""


def _changes(before: Finding, after: Finding, parents: dict[str, str]) -> dict[str, tuple[str, str]]:
    changes = {name: (str(of(before)), str(of(after))) for name, of in _COMPARED.items() if of(before) != of(after)}
    if parents.get(before.parent_id, before.parent_id) != after.parent_id:
        changes["parent"] = before.parent_id or "none", after.parent_id or "none"
    return changes


def _brief(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "detector": finding.detector,
        "subject": finding.subject.id,
        "severity": finding.severity.name.lower(),
        "started_at_ns": finding.started_at_ns,
        "resolved_at_ns": finding.resolved_at_ns,
        "summary": finding.summary,
    }
