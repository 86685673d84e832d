"""A simulated day without one of its sources: what does not come, and what of what is said then is new and false."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from streams.bench.detection.source_ablation import SourceAblation
from streams.bench.detection.sources import SOURCES, without_source
from streams.bench.detection.trial import Outcome, TrialSpec
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
def test_a_source_that_is_missing_brings_nothing_from_then_on(name: str, left: list[Message]) -> None:
    """All others do, and it did until then."""
    assert list(without_source([(1, ALL), (2, ALL)], name, 1)) == [(1, ALL), (2, left)]
    assert not name or name in SOURCES


def said(seen: ScoredFinding, **more: Any) -> Finding:
    """The finding that was counted so."""
    return finding(
        f"{seen.condition.slug} {seen.subject_id}", condition=seen.condition, subject=Subject(seen.subject_id),
        started_at_ns=seen.start_ns, resolved_at_ns=seen.end_ns, **more,
    )  # fmt: skip


def outcome(*invented: ScoredFinding, findings: Iterable[Finding] = (), pages: Iterable[str] = ()) -> Outcome:
    """Of a run that found nothing else."""
    every = {one.id: one for one in (*map(said, invented), *findings)}
    score = Score((), (), invented)
    return Outcome(TrialSpec(without="nic"), [], score, every, {}, dict.fromkeys(pages, 1), {}, Counter(), 1.0)


def seen(condition: Condition, subject: str, at_ns: int = 1) -> ScoredFinding:
    return ScoredFinding(
        condition, subject, frozenset({Port("host-1", "mlx5_0")}), at_ns, at_ns + 1, at_ns, excused=False
    )  # fmt: skip


DOWN, STALE = seen(Condition.LINK_DOWN, "link:a"), seen(Condition.TELEMETRY_STALE, "device:host-1")


def test_only_what_is_new_and_no_staleness_is_false() -> None:
    """What the whole day invents as well is not the lack's doing."""
    lack = SourceAblation(outcome(DOWN), outcome(DOWN, STALE))
    assert lack.new_false_findings == []
    assert lack.as_dict()["fine"]
    other = seen(Condition.DEVICE_DOWN, "device:host-1")
    lack = SourceAblation(outcome(DOWN), outcome(DOWN, STALE, other))
    assert lack.new_false_findings == [other]
    assert "new false finding: device/down device:host-1" in list(lack.lines())
    assert not lack.as_dict()["fine"]


def test_what_the_whole_day_did_not_invent_at_that_time_or_what_pages_counts() -> None:
    """Said for the record, at another time or taken back, it was no invention; and none excuses a page for nothing."""
    for whole in (said(DOWN, severity=Severity.INFO), said(DOWN, status=Status.RETRACTED)):
        assert SourceAblation(outcome(findings=[whole]), outcome(DOWN)).new_false_findings == [DOWN]
    assert SourceAblation(outcome(seen(Condition.LINK_DOWN, "link:a", 9)), outcome(DOWN)).new_false_findings == [DOWN]
    assert SourceAblation(outcome(DOWN), outcome(DOWN, pages=[said(DOWN).id])).new_false_findings == [DOWN]
