"""Two configurations over one past: which findings appear with one, disappear, or change.

A finding is the same in both where its id is, else where detector and subject are and their times overlap: another
threshold may see the same episode begin elsewhere. What was retracted in the end, or is shadowed, was not found.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from streams.wire.models import Finding, Status


@dataclass(frozen=True, slots=True)
class ChangedFinding:
    """One finding that both have, with what differs: name -> (before, after)."""

    before: Finding
    after: Finding
    fields: dict[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Differences:
    """What follows from taking one configuration instead of another; each in the order of its beginning."""

    appeared: tuple[Finding, ...]
    disappeared: tuple[Finding, ...]
    changed: tuple[ChangedFinding, ...]
    same: int

    def as_dict(self) -> dict[str, Any]:
        """As JSON would have it."""
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
    """What is otherwise in the last revisions of `after`."""
    old, new = _found(before), _found(after)
    pairs = {id_: (old.pop(id_), new.pop(id_)) for id_ in list(old) if id_ in new}
    of: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in sorted(new.values(), key=_begun):
        of[finding.detector, finding.subject.id].append(finding)
    for finding in sorted(old.values(), key=_begun):
        own = of[finding.detector, finding.subject.id]
        if (met := next((other for other in own if _overlap(finding, other)), None)) is not None:
            own.remove(met)
            pairs[finding.id] = old.pop(finding.id), new.pop(met.id)
    parents = {old_one.id: new_one.id for old_one, new_one in pairs.values()}
    changed = [ChangedFinding(*pair, _changes(*pair, parents)) for pair in pairs.values()]
    return Differences(
        tuple(sorted(new.values(), key=_begun)),
        tuple(sorted(old.values(), key=_begun)),
        tuple(sorted((one for one in changed if one.fields), key=lambda one: _begun(one.after))),
        sum(not one.fields for one in changed),
    )


def _found(findings: Iterable[Finding]) -> dict[str, Finding]:
    return {f.id: f for f in findings if f.status is not Status.RETRACTED and not f.shadow}


def _begun(finding: Finding) -> tuple[int, str, str]:
    return finding.started_at_ns, finding.detector, finding.subject.id


def _overlap(one: Finding, other: Finding) -> bool:
    return all(
        last.resolved_at_ns is None or first.started_at_ns <= last.resolved_at_ns
        for first, last in ((one, other), (other, one))
    )


_COMPARED: dict[str, Callable[[Finding], Any]] = {
    "severity": lambda f: f.severity.name.lower(),
    "detected after": lambda f: f"{((f.detected_at_ns or f.started_at_ns) - f.started_at_ns) / 1e9:g}s",
    "status": lambda f: "over" if f.is_closed else "open",
    "cause": lambda f: f.cause.label,
    "occurrences": lambda f: f.occurrences or 0,
}
"""What matters to whoever is paged: names as they are printed."""


def _changes(before: Finding, after: Finding, parents: dict[str, str]) -> dict[str, tuple[str, str]]:
    found = {name: (str(of(before)), str(of(after))) for name, of in _COMPARED.items() if of(before) != of(after)}
    if parents.get(before.parent_id, before.parent_id) != after.parent_id:
        found["explained by"] = before.parent_id or "nothing", after.parent_id or "nothing"
    return found


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
