"""The explanation of a finding: its time line, its runbook and the first step of it."""

from dataclasses import replace

import pytest

from streams.instrument.shipped import shipped
from streams.report.explanation import Explanation, time_line
from streams.store.queries.finding_queries import EventRow
from streams.wire.models import (
    Action,
    Cause,
    Finding,
    Remediation,
    RemediationState,
    Severity,
    Status,
    Subject,
    Verdict,
)
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
        "leaf1/e1  link down  carrier",
        "finding   OPEN      WARNING  leaf1/e1 -- spine1/e1 is down",
        "child     link/down link:leaf1/e1--spine1/e1 begins",
        "finding   OPEN      CRITICAL  severity CRITICAL",
        "decision  DRAIN_LINK DENIED  capacity",
        "child     link/down link:leaf1/e1--spine1/e1 is over",
        "finding   RESOLVED  CRITICAL, final",
    ]
    assert lines[-1] == "    and 1 revision without a visible change"


OWN = finding(runbook_url="docs/runbooks/link-down.md", cause=Cause.MODULE_REMOVED)


def _lines(of: Finding) -> list[str]:
    return list(Explanation(of, (of,), (), ()).lines())


def test_an_open_finding_has_the_first_step_of_its_runbook() -> None:
    """It is that of the page; a finding that is over needs none. The cause is in words."""
    own = replace(OWN, subject=replace(OWN.subject, role="fabric-link"))
    (step,) = (line for line in _lines(own) if line.startswith("  first step "))
    assert step.startswith("  first step   A switch has too few paths. Drain nothing more there")
    assert "  cause        module removed" in _lines(own)
    over = replace(own, status=Status.RESOLVED, resolved_at_ns=160 * NS)
    assert not any(line.startswith("  first step ") for line in _lines(over))


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("docs/runbooks/link-down.md", str(shipped("docs/runbooks/link-down.md"))),
        ("docs/runbooks/link-flap.md", "docs/runbooks/link-flap.md"),
        ("https://wiki.example/link-down", "https://wiki.example/link-down"),
    ],
)
def test_the_runbook_of_the_condition_is_its_installed_file(given: str, shown: str) -> None:
    """A wheel has no repository beside it; what another producer names stays."""
    assert f"  runbook      {shown}" in _lines(replace(OWN, runbook_url=given))
