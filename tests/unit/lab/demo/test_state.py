"""The state of a demo after messages."""

from lab.demo.state import DemoState, duplicate_episodes
from streams.runtime.stage_progress import StageProgress
from streams.wire.models import (
    IDLE_NS,
    Action,
    Condition,
    Endpoint,
    Progress,
    Remediation,
    Severity,
    Status,
    Subject,
    Verdict,
)
from tests.fixtures.findings import NS, finding


def test_the_highest_revision_holds_whatever_came_last() -> None:
    """A revision that comes late changes nothing."""
    board = DemoState(0.0)
    board.update(finding(revision=2, status=Status.RESOLVED, resolved_at_ns=140 * NS), 1.0)
    board.update(finding(revision=1), 2.0)
    assert board.view.open_findings == []
    assert [f.revision for f in board.revisions] == [2, 1]


def test_the_first_finding_is_timed_from_the_start() -> None:
    """The state has the time from the start of the command to the first finding."""
    board = DemoState(10.0)
    board.update(finding(), 14.5)
    board.update(finding("b"), 20.0)
    assert board.first_finding_s == 4.5


def test_only_changes_are_listed() -> None:
    """A revision that neither opens, closes nor worsens it is no line of its own."""
    board = DemoState(0.0)
    for number, status in enumerate((Status.OPEN, Status.UPDATED, Status.UPDATED, Status.RESOLVED), 1):
        board.update(finding(revision=number, status=status), float(number))
    assert [change.status for change in board.view.changes] == [Status.OPEN, Status.UPDATED, Status.RESOLVED]


def test_causes_come_before_what_they_explain() -> None:
    """The open findings are listed with the cause first, then by severity."""
    board = DemoState(0.0)
    board.update(finding("child", severity=Severity.CRITICAL, parent_id="cause"), 1.0)
    board.update(finding("cause", severity=Severity.WARNING), 1.0)
    board.update(finding("worse", severity=Severity.CRITICAL), 1.0)
    assert [found.id for found in board.view.open_findings] == ["worse", "cause", "child"]


def test_a_device_has_the_colour_of_its_worst_finding() -> None:
    """Both ends of a link that is down show it; a device that is gone shows that."""
    board = DemoState(0.0)
    board.update(finding("link", severity=Severity.CRITICAL), 1.0)
    gone = Subject("device:leaf1", Endpoint("leaf1"))
    board.update(finding("gone", condition=Condition.DEVICE_DOWN, severity=Severity.CRITICAL, subject=gone), 1.0)
    worst = board.view.worst_by_device()
    assert {name: found.id for name, found in worst.items()} == {"leaf1": "gone", "spine1": "link"}


def test_two_ids_of_one_episode_are_noticed() -> None:
    """One detector, one subject, overlapping times and two ids are one episode published twice."""
    (duplicates,) = duplicate_episodes([finding("a"), finding("b", started_at_ns=120 * NS)])
    assert "link/down" in duplicates
    assert "a and b" in duplicates


def test_an_episode_after_another_is_no_double() -> None:
    """A resolved episode may be followed by another; a retracted one does not count."""
    over = finding("a", status=Status.RESOLVED, resolved_at_ns=110 * NS)
    never = finding("c", status=Status.RETRACTED)
    assert duplicate_episodes([over, finding("b", started_at_ns=120 * NS), never]) == []


def test_remediations_have_their_highest_revision_and_the_file_has_all() -> None:
    """A decision that was revoked is one remediation with two revisions."""
    board = DemoState(0.0)
    for revision, verdict in ((1, Verdict.SHADOW), (2, Verdict.REVOKED)):
        board.update(Remediation("r", revision, ("a",), Action.DRAIN_LINK, verdict, Subject("link:x")), 1.0)
    assert board.view.remediations["r"].verdict is Verdict.REVOKED
    assert len(board.decisions) == 2


def test_a_stage_has_come_as_far_as_its_slowest_partition() -> None:
    """A time is reached when the watermark of the last live partition passes it."""
    view = StageProgress()
    view.update(Progress("measure", 0, 1, 50 * NS), 1.0)
    view.update(Progress("measure", 1, 1, 40 * NS), 1.0)
    view.update(Progress("measure", 2, 1, IDLE_NS), 1.0)
    assert view.watermark_ns == 40 * NS
    assert view.has_reached(40 * NS)
    assert not view.has_reached(41 * NS)


def test_an_idle_stage_has_reached_nothing() -> None:
    """Before anything is live, there is no watermark."""
    view = StageProgress()
    view.update(Progress("decide", 0, 1, IDLE_NS), 1.0)
    assert not view.has_reached(1)


def test_a_new_owner_counts_on() -> None:
    """After a take-over the owner counts from nothing; the stage's total does not fall, and a late word of the old
    owner is ignored.
    """
    view = StageProgress()
    view.update(Progress("measure", 0, 1, 5 * NS, records=100), 1.0)
    view.update(Progress("measure", 0, 2, 6 * NS, records=10), 2.0)
    view.update(Progress("measure", 0, 1, 5 * NS, records=200), 2.0)
    assert view.total == 110


def test_the_rate_is_that_of_the_last_seconds() -> None:
    """Ten records per second, reported each second."""
    view = StageProgress()
    for second in range(8):
        view.update(Progress("measure", 0, 1, second * NS, records=10 * second), float(second))
    assert view.rate(7.0) == 10
    assert view.rate(60.0) == 0
