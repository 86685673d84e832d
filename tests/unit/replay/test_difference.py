"""Two configurations over one past: what appears, disappears and changes."""

from typing import Any

from streams.replay.difference import diff
from streams.report import render_differences
from streams.wire.models import Finding, Severity, Status, Subject
from tests.fixtures.findings import NS, finding


def _of(identity: str, link: str = "link:a", begin: float = 100, end: float | None = None, **more: Any) -> Finding:
    over = {} if end is None else {"status": Status.RESOLVED, "resolved_at_ns": round(end * NS)}
    return finding(identity, subject=Subject(link), started_at_ns=round(begin * NS), **over, **more)


def test_what_only_one_has_appears_or_disappears() -> None:
    """By subject and detector; what is the same is counted."""
    found = diff([_of("1"), _of("2", "link:b")], [_of("1"), _of("3", "link:c")])
    assert [f.subject.id for f in found.appeared] == ["link:c"]
    assert [f.subject.id for f in found.disappeared] == ["link:b"]
    assert (found.changed, found.same) == ((), 1)


def test_an_episode_that_begins_elsewhere_is_the_same_where_the_times_overlap() -> None:
    """Another threshold gives it another id; one that was over before is another episode."""
    found = diff([_of("1", begin=100, end=200)], [_of("2", begin=150, end=220)])
    assert (found.appeared, found.disappeared, len(found.changed) + found.same) == ((), (), 1)
    found = diff([_of("1", begin=100, end=200)], [_of("2", begin=201, end=220)])
    assert (len(found.appeared), len(found.disappeared), found.same) == (1, 1, 0)


def test_severity_and_time_to_detect_are_changes() -> None:
    """Each with what it was before and is after, as the command prints it."""
    before = _of("1", severity=Severity.WARNING, detected_at_ns=130 * NS)
    after = _of("1", severity=Severity.CRITICAL, detected_at_ns=110 * NS)
    found = diff([before], [after])
    (changed,) = found.changed
    assert changed.fields == {"severity": ("warning", "critical"), "detected after": ("30s", "10s")}
    said = list(render_differences.difference_lines(found))
    assert said[0] == "0 appear, 0 disappear, 1 change, 0 are the same"
    assert said[1].startswith("~ ") and "link:a" in said[1]
    assert said[2].strip() == "severity: warning -> critical; detected after: 30s -> 10s"
    assert found.as_dict()["changed"][0]["changed"]["severity"] == ["warning", "critical"]


def test_a_parent_of_another_id_that_is_the_same_finding_is_no_change() -> None:
    """Ids are of a run; what explains what is not."""
    before = [_of("p", "device:s"), _of("c", parent_id="p")]
    after = [_of("q", "device:s"), _of("d", parent_id="q")]
    assert diff(before, after).same == 2
    (changed,) = diff(before, [_of("q", "device:s"), _of("d")]).changed
    assert changed.fields == {"explained by": ("p", "nothing")}


def test_what_was_retracted_or_shadowed_was_not_found() -> None:
    """With one configuration it stands, with the other it was taken back."""
    gone = _of("1", status=Status.RETRACTED)
    assert len(diff([gone], [_of("1")]).appeared) == 1
    assert len(diff([_of("1")], [_of("1", shadow=True)]).disappeared) == 1
