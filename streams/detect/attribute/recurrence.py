"""How often the same thing began at the same place, and that a link which keeps coming back deserves repair."""

from streams.detect.attribute.case_index import LINKS
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.wire.models import Evidence, Finding, Status

RETENTION_NS = ns(28 * 86_400)
"""Occurrences are counted over 28 days: Meta's lemon nodes were told apart over that time (reported)."""


def count_occurrences(occurred: dict[str, dict[str, int]], own: Finding) -> int:
    """How many times this began here within 28 days, this time included, which is noted in `occurred`."""
    starts = occurred.setdefault(f"{own.condition}/{own.subject.id}", {})
    since_ns = own.started_at_ns - RETENTION_NS
    if own.status is Status.RETRACTED:
        starts.pop(own.id, None)
    elif starts.get(own.id) != own.started_at_ns:
        starts[own.id] = own.started_at_ns
        for identity in [i for i, start in starts.items() if start < since_ns]:
            del starts[identity]
    return sum(since_ns <= start <= own.started_at_ns for start in starts.values())


def recurrence_evidence(params: DetectParams, own: Finding, times: int) -> tuple[Evidence, ...]:
    """That a link keeps coming back: it deserves repair where a single flap does not (DETECTION 3)."""
    most = params.flap.repeats
    if own.condition not in LINKS or times < most:
        return ()
    said = f"a repeat offender: {own.condition.slug} here {times} times in 28 days"
    return (
        Evidence(
            said, "occurrences", own.subject.a, float(times), float(most), "threshold",
            window_start_ns=own.started_at_ns - RETENTION_NS, window_end_ns=own.started_at_ns,
        ),
    )  # fmt: skip
