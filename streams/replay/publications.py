"""Counts how often one fault was published: the revisions of each finding, and findings that repeat another.

A finding is a twin if another of its condition, subject and part was open at the same time. Its revisions are a flood
if there are more than a reader needs: the first, doublings, changes of severity and extent, the end, and one an hour.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from streams.wire.models import Condition, Endpoint, Finding, Source, Status

MOST_REVISIONS = 20
"""A count that doubles ten times, from 3 to 3,000, with as many changes of severity, extent, parent and state."""

_HOUR_NS = 3600 * 10**9


@dataclass(frozen=True, slots=True)
class Publication:
    """One finding as published: its revisions, and whether it repeats another."""

    condition: Condition
    subject_id: str
    start_ns: int
    revisions: int
    is_twin: bool
    is_flood: bool


def publications(revisions: Iterable[Finding]) -> tuple[Publication, ...]:
    """Return the published findings by start, without those that were retracted."""
    counts: Counter[str] = Counter()
    last: dict[str, Finding] = {}
    for finding in sorted(revisions, key=lambda one: one.revision):
        last[finding.id] = finding
        counts[finding.id] += 1
    until_ns: dict[tuple[object, ...], int | None] = defaultdict(int)
    found = []
    for finding in sorted(last.values(), key=lambda one: (one.started_at_ns, one.id)):
        if finding.status is Status.RETRACTED:
            continue
        key, end_ns = _key(finding), finding.resolved_at_ns
        known_ns = until_ns[key]
        until_ns[key] = None if known_ns is None or end_ns is None else max(known_ns, end_ns)
        hours = ((end_ns or finding.observed_at_ns) - finding.started_at_ns) / _HOUR_NS
        found.append(
            Publication(
                finding.condition, finding.subject.id, finding.started_at_ns, counts[finding.id],
                known_ns is None or finding.started_at_ns < known_ns, counts[finding.id] > MOST_REVISIONS + hours,
            )
        )  # fmt: skip
    return tuple(found)


def _key(finding: Finding) -> tuple[Condition, str, Endpoint | None, Source]:
    """Return the condition, the subject and its part: the source that is silent, or the end that pauses the other."""
    evidence = finding.evidence[0] if finding.evidence else None
    is_storm = finding.condition is Condition.CONGESTION_PFC_STORM
    at = evidence.at if evidence is not None and is_storm else None
    return finding.condition, finding.subject.id, at, evidence.source if evidence else Source.SOURCE_UNSPECIFIED
