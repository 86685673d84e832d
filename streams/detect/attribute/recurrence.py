"""Counts how often a condition occurred on a subject; a link with a high count deserves repair."""

from streams.detect.attribute.sides import fabric_side
from streams.detect.fabric_side import LINK_LOSS
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.wire.models import Evidence, Finding, Status

RETENTION_NS = ns(28 * 86_400)
"""Occurrences count over 28 days: Meta identified its lemon nodes over that time (reported)."""


def count_occurrences(occurrences: dict[str, dict[str, int]], finding: Finding) -> int:
    """Record the start of a finding; return how many started here within 28 days, this one included."""
    starts = occurrences.setdefault(f"{finding.condition}/{finding.subject.id}", {})
    since_ns = finding.started_at_ns - RETENTION_NS
    if finding.status is Status.RETRACTED:
        starts.pop(finding.id, None)
    elif starts.get(finding.id) != finding.started_at_ns:
        starts[finding.id] = finding.started_at_ns
        for identity in [identity for identity, start_ns in starts.items() if start_ns < since_ns]:
            del starts[identity]
    return sum(since_ns <= start_ns <= finding.started_at_ns for start_ns in starts.values())


def recurrence_evidence(params: DetectParams, finding: Finding, count: int) -> tuple[Evidence, ...]:
    """Return that a link is a repeat offender: it deserves repair where a single flap does not (DETECTION 3)."""
    minimum = params.link.repeats
    if fabric_side(finding).loss not in LINK_LOSS or count < minimum:
        return ()
    return (
        Evidence(
            f"a repeat offender: {finding.condition.slug} here {count} times in 28 days",
            "occurrences",
            finding.subject.a,
            float(count),
            float(minimum),
            "threshold",
            window_start_ns=finding.started_at_ns - RETENTION_NS,
            window_end_ns=finding.started_at_ns,
        ),
    )
