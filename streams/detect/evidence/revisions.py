"""Decides when a changed finding needs a revision: at once, once a minute, or once an hour.

Readers need the first revision, a doubling, a change of severity or extent, and the end. A number that only moves is
published once an hour.
"""

import re
from dataclasses import replace

from streams.detect.thresholds import ns
from streams.wire.models import UPLINKS, Evidence, Finding, Status

MINUTE_NS, _HOUR_NS = ns(60), ns(3600)
_NUMBER = re.compile(r"\d[\d.]*(?:e[+-]?\d+)?")
_COUNTS_OF_OTHERS = ("", "group", "capacity", "planes", UPLINKS)
"""Evidence without a measurement: its statement names other devices, links or hosts."""


def revision_due_ns(last: Finding, now: Finding, published_ns: int) -> int:
    """Return the watermark from which a reader needs `now` after `last`, which was published at `published_ns`."""
    if _key(last) != _key(now):
        return 0
    return published_ns + (_HOUR_NS if _has_same_extent(last, now) else MINUTE_NS)


def _key(finding: Finding) -> tuple[object, ...]:
    """Return the fields whose change needs a revision at once."""
    radius, coverage = finding.blast_radius, finding.coverage
    return (
        finding.status if finding.is_closed else Status.OPEN, finding.final, finding.severity, finding.cause,
        finding.subject, finding.started_at_ns, finding.detected_at_ns, finding.resolved_at_ns, finding.confidence,
        finding.parent_id, finding.shadow, finding.forecast is None, coverage and coverage.missing,
        radius and (radius.hosts, radius.jobs), [_place(one) for one in finding.evidence],
    )  # fmt: skip


def _place(evidence: Evidence) -> tuple[object, ...]:
    """Return what a line of evidence is about."""
    return evidence.metric, evidence.at, evidence.comparison, evidence.source, evidence.collector


def _has_same_extent(last: Finding, now: Finding) -> bool:
    """Return whether only measured numbers and their times moved, and none of them doubled."""
    pairs = zip(last.evidence, now.evidence, strict=True)
    evidence = tuple(one if _is_near(one, other) else other for one, other in pairs)
    same = replace(
        now, revision=last.revision, status=last.status, observed_at_ns=last.observed_at_ns, evidence=last.evidence,
        summary=last.summary if _NUMBER.sub("", last.summary) == _NUMBER.sub("", now.summary) else now.summary,
        coverage=last.coverage, forecast=last.forecast, settings_digest=last.settings_digest,
        detector_version=last.detector_version, inventory_digest=last.inventory_digest,
    )  # fmt: skip
    return evidence == last.evidence and same == last


def _is_near(last: Evidence, now: Evidence) -> bool:
    if now.metric in _COUNTS_OF_OTHERS:
        return replace(now, window_start_ns=last.window_start_ns, window_end_ns=last.window_end_ns) == last
    if last.observed is None or now.observed is None:
        return last.observed is now.observed
    small, large = sorted((abs(last.observed), abs(now.observed)))
    return last.observed == now.observed or large < 2 * small
