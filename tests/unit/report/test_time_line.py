"""The time line of a finding."""

from dataclasses import replace

from streams.report.explanation import time_line
from streams.store.queries.finding_queries import EventRow
from streams.wire.models import Action, Remediation, RemediationState, Severity, Status, Subject, Verdict
from tests.fixtures.findings import NS, finding


def test_events_revisions_children_and_decisions_are_in_one_order() -> None:
    """The cause comes first: an event before the revision that reports it, the end of a child before its parent."""
    first = finding(observed_at_ns=130 * NS)
    worse = replace(first, revision=2, severity=Severity.CRITICAL, observed_at_ns=150 * NS)
    same = replace(worse, revision=3, observed_at_ns=155 * NS)
    over = replace(worse, revision=4, status=Status.RESOLVED, observed_at_ns=200 * NS, final=True)
    child = finding("c", started_at_ns=140 * NS, resolved_at_ns=190 * NS, parent_id=first.id)
    decision = Remediation(
        "r", 1, ("a",), Action.DRAIN_LINK, Verdict.DENIED, Subject("x"), constraint="capacity", decided_at_ns=151 * NS,
        state=RemediationState.DENIED,
    )  # fmt: skip
    down = EventRow(100 * NS, "link_down", "host", 0, "carrier")
    lines = list(time_line([first, worse, same, over], [child], [decision], [("leaf1/e1", [down])]))
    assert [line.split("Z  ", 1)[1] for line in lines[:-1]] == [
        "leaf1/e1  link_down  carrier",
        "finding   OPEN      WARNING  leaf1/e1 -- spine1/e1 is down",
        "child     link/down link:leaf1/e1--spine1/e1 begins",
        "finding   OPEN      CRITICAL  severity CRITICAL",
        "decision  DRAIN_LINK DENIED  capacity",
        "child     link/down link:leaf1/e1--spine1/e1 is over",
        "finding   RESOLVED  CRITICAL, final",
    ]
    assert lines[-1] == "    and 1 revision without a visible change"
