"""Tests the comparison of two configurations: findings that appear, disappear and change."""

from typing import Any

from streams.replay.difference import diff
from streams.report import render_backtest
from streams.wire.models import Finding, Severity, Status, Subject
from tests.fixtures.findings import NS, finding


def _of(identity: str, link: str = "link:a", begin: float = 100, end: float | None = None, **fields: Any) -> Finding:
    resolved = {} if end is None else {"status": Status.RESOLVED, "resolved_at_ns": round(end * NS)}
    return finding(identity, subject=Subject(link), started_at_ns=round(begin * NS), **resolved, **fields)


def test_unmatched_findings_appear_or_disappear() -> None:
    """Findings match by subject and detector; unchanged ones are counted."""
    found = diff([_of("1"), _of("2", "link:b")], [_of("1"), _of("3", "link:c")])
    assert [f.subject.id for f in found.appeared] == ["link:c"]
    assert [f.subject.id for f in found.disappeared] == ["link:b"]
    assert (found.changed, found.same) == ((), 1)


def test_episodes_with_other_starts_match_where_their_times_overlap() -> None:
    """Another threshold gives an episode another id; one that ended before is another episode."""
    found = diff([_of("1", begin=100, end=200)], [_of("2", begin=150, end=220)])
    assert (found.appeared, found.disappeared, len(found.changed) + found.same) == ((), (), 1)
    found = diff([_of("1", begin=100, end=200)], [_of("2", begin=201, end=220)])
    assert (len(found.appeared), len(found.disappeared), found.same) == (1, 1, 0)


def test_severity_and_time_to_detect_are_changes() -> None:
    """Each change has the values before and after, as the command prints them."""
    before = _of("1", severity=Severity.WARNING, detected_at_ns=130 * NS)
    after = _of("1", severity=Severity.CRITICAL, detected_at_ns=110 * NS)
    found = diff([before], [after])
    (changed,) = found.changed
    assert changed.fields == {"severity": ("warning", "critical"), "detected after": ("30s", "10s")}
    lines = list(render_backtest.difference_lines(found))
    assert lines[0] == "0 appear, 0 disappear, 1 change, 0 are the same"
    assert lines[1].startswith("~ ") and "link:a" in lines[1]
    assert lines[2].strip() == "severity: warning -> critical; detected after: 30s -> 10s"
    assert found.as_dict()["changed"][0]["changed"]["severity"] == ["warning", "critical"]


def test_a_matching_parent_with_another_id_is_no_change() -> None:
    """Ids may differ between runs; the relation of child and parent is compared."""
    before = [_of("p", "device:s"), _of("c", parent_id="p")]
    after = [_of("q", "device:s"), _of("d", parent_id="q")]
    assert diff(before, after).same == 2
    (changed,) = diff(before, [_of("q", "device:s"), _of("d")]).changed
    assert changed.fields == {"parent": ("p", "none")}


def test_retracted_and_shadow_findings_are_ignored() -> None:
    """A finding that is retracted or shadow in one configuration counts as missing there."""
    retracted = _of("1", status=Status.RETRACTED)
    assert len(diff([retracted], [_of("1")]).appeared) == 1
    assert len(diff([_of("1")], [_of("1", shadow=True)]).disappeared) == 1
