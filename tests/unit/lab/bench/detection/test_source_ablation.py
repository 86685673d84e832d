"""Tests of the comparison of a simulated day with the same day without one source."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from lab.bench.detection.session import SOURCES, Outcome, TrialSpec, without_source
from lab.bench.detection.source_ablation import SourceAblation
from streams.fabric.ids import Port
from streams.replay.score import Score, ScoredFinding
from streams.wire.models import (
    Condition,
    Event,
    EventKind,
    Facts,
    Finding,
    Message,
    Severity,
    Source,
    Status,
    Subject,
)
from tests.fixtures.findings import finding

NIC = Event("host-1", "mlx5_0", EventKind.LINK_DOWN, 1, 1, Source.SOURCE_NIC)
KERNEL = Event("host-1", "mlx5_0", EventKind.LINK_DOWN, 1, 1, Source.SOURCE_HOST)
AGENT = Facts("host-1", 1, Source.SOURCE_HOST)
SWITCH = Facts("leaf-1", 1, Source.SOURCE_GNMI)
ALL: list[Message] = [NIC, KERNEL, AGENT, SWITCH]


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("", ALL), ("gnmi", [NIC, KERNEL, AGENT]), ("nic", [KERNEL, AGENT, SWITCH]), ("host", [NIC, SWITCH]),
        ("kernel", [NIC, AGENT, SWITCH]),
    ],
)  # fmt: skip
def test_a_removed_source_sends_nothing_from_then_on(name: str, left: list[Message]) -> None:
    """All others do, and it did until then."""
    assert list(without_source([(1, ALL), (2, ALL)], name, 1)) == [(1, ALL), (2, left)]
    assert not name or name in SOURCES


def finding_of(seen: ScoredFinding, **more: Any) -> Finding:
    return finding(
        f"{seen.condition.slug} {seen.subject_id}", condition=seen.condition, subject=Subject(seen.subject_id),
        started_at_ns=seen.start_ns, resolved_at_ns=seen.end_ns, **more,
    )  # fmt: skip


def outcome(*invented: ScoredFinding, findings: Iterable[Finding] = (), pages: Iterable[str] = ()) -> Outcome:
    """Return the outcome of a run with no other findings."""
    every = {one.id: one for one in (*map(finding_of, invented), *findings)}
    score = Score((), (), invented)
    return Outcome(TrialSpec(without="nic"), [], score, every, {}, dict.fromkeys(pages, 1), {}, Counter(), 1.0)


def seen(condition: Condition, subject: str, at_ns: int = 1) -> ScoredFinding:
    return ScoredFinding(
        condition, subject, frozenset({Port("host-1", "mlx5_0")}), at_ns, at_ns + 1, at_ns, excused=False
    )  # fmt: skip


DOWN, STALE = seen(Condition.LINK_DOWN, "link:a"), seen(Condition.TELEMETRY_STALE, "device:host-1")


def test_only_new_findings_except_staleness_are_false() -> None:
    """A finding that the complete day invents as well is not caused by the missing source."""
    ablation = SourceAblation(outcome(DOWN), outcome(DOWN, STALE))
    assert ablation.new_false_findings == []
    assert ablation.as_dict()["fine"]
    other = seen(Condition.DEVICE_DOWN, "device:host-1")
    ablation = SourceAblation(outcome(DOWN), outcome(DOWN, STALE, other))
    assert ablation.new_false_findings == [other]
    assert "new false finding: device/down device:host-1" in list(ablation.lines())
    assert not ablation.as_dict()["fine"]


def test_findings_at_other_times_and_false_pages_count() -> None:
    """INFO, retracted and earlier findings of the complete day are no excuse, and none excuses a false page."""
    for whole in (finding_of(DOWN, severity=Severity.INFO), finding_of(DOWN, status=Status.RETRACTED)):
        assert SourceAblation(outcome(findings=[whole]), outcome(DOWN)).new_false_findings == [DOWN]
    assert SourceAblation(outcome(seen(Condition.LINK_DOWN, "link:a", 9)), outcome(DOWN)).new_false_findings == [DOWN]
    assert SourceAblation(outcome(DOWN), outcome(DOWN, pages=[finding_of(DOWN).id])).new_false_findings == [DOWN]
