"""Findings as text."""

from dataclasses import replace

import pytest

from streams.instrument.text import format_duration, in_past
from streams.report import render
from streams.report.open_findings import acknowledgement
from streams.wire.models import (
    Action,
    BlastRadius,
    Cause,
    ControlKind,
    Coverage,
    Evidence,
    Remediation,
    Severity,
    Status,
    Subject,
    Verdict,
)
from tests.fixtures.findings import NS, finding


@pytest.mark.parametrize(
    ("seconds", "lines"), [(0, "0s"), (59.6, "1m00s"), (61, "1m01s"), (3661, "1h01m"), (90_061, "1d01h"), (-5, "0s")]
)
def test_a_duration_has_its_two_largest_units(seconds: float, lines: str) -> None:
    """Long ones are rough, short ones exact, none is negative."""
    assert format_duration(round(seconds * NS)) == lines


def test_what_is_over_is_in_the_past() -> None:
    """Each verb of a summary, the last one too; a name with the letters of a verb is none."""
    summary = "h1/e0 pauses is-1/p1 100% of the time, no traffic passes"
    assert in_past(summary) == "h1/e0 paused is-1/p1 100% of the time, no traffic passed"


def test_one_line_has_status_severity_condition_and_subject() -> None:
    """It contains the words that an operator searches for."""
    line = render.finding_line(finding("0123456789abcdef"))
    assert "OPEN  WARNING  link/down  link:leaf1/e1--spine1/e1" in line
    assert line.endswith("[0123456789ab]")


def test_the_whole_of_a_finding_has_its_evidence_and_what_follows() -> None:
    """Evidence with its numbers, what was not seen, who is hit, what it explains, and what was decided."""
    cause = finding(
        status=Status.RESOLVED,
        resolved_at_ns=160 * NS,
        cause=Cause.OPTIC,
        confidence=0.5,
        evidence=(Evidence("the port reports down", observed=3, expected=1),),
        coverage=Coverage(1, 2, ("spine1",)),
        blast_radius=BlastRadius(("host1",), ("job7",), 8, 0.25),
    )
    remediation = Remediation("r", 1, ("a",), Action.DRAIN_LINK, Verdict.DENIED, Subject("x"), constraint="capacity")
    cause = replace(cause, subject=replace(cause.subject, location="leaf1 in rack A12"))
    text = "\n".join(render.finding_report(cause, [finding("child")], [remediation], 3))
    for part in (
        "lasted 1m00s",
        "where        leaf1 in rack A12",
        "cause        optic",
        "the port reports down (observed 3, expected 1)",
        "1 of 2 sources (not: spine1)",
        "jobs         job7",
        "25.0% lost",
        "explains     link/down",
        "DRAIN_LINK DENIED: capacity",
        "revision 3",
    ):
        assert part in text, part


def test_evidence_has_its_window_and_its_peers() -> None:
    """Since when, for how long, and compared with how many."""
    item = Evidence(
        "slower", observed=1.4e11, expected=2e11, peers=31, window_start_ns=100 * NS, window_end_ns=220 * NS
    )
    text = "\n".join(render.finding_report(finding(evidence=(item,)), [], [], 1))
    assert "slower (observed 140G, expected 200G, peers 31)" in text
    assert "from 1970-01-01 00:01:40Z for 2m00s" in text


def test_a_guard_that_binds_is_shown_with_its_numbers() -> None:
    """The name of the guard, its observed value, its limit, and the runbook."""
    denied = Remediation(
        "r", 1, ("a",), Action.DRAIN_LINK, Verdict.DENIED, Subject("x"), "one plane is gone", "capacity", 0.75, 0.5,
        repair_hint="clean the optic at leaf1/e1",
    )  # fmt: skip
    text = "\n".join(render.finding_report(finding(runbook_url="https://r"), [], [denied], 1))
    assert "DRAIN_LINK DENIED: capacity (observed 0.5, limit 0.75); one plane is gone" in text
    shadow = replace(denied, verdict=Verdict.SHADOW, constraint="mode", guard=2, constraint_observed=None,
                     constraint_limit=None, reason="")  # fmt: skip
    text += "\n".join(render.finding_report(finding(), [], [shadow], 1))
    assert "DRAIN_LINK SHADOW: the mode is shadow (guard 2)\n" in text
    assert "repair       clean the optic at leaf1/e1" in text
    assert "runbook      https://r" in text


def test_the_history_of_a_finding_has_the_changes_of_each_revision() -> None:
    """The first has its summary, the others what is new in them."""
    first = finding()
    worse = replace(first, revision=2, severity=Severity.CRITICAL, evidence=(Evidence("more"),))
    over = replace(worse, revision=3, status=Status.RESOLVED, final=True, parent_id="p")
    lines = list(render.revision_lines([first, worse, over]))
    assert lines[0].endswith("OPEN      WARNING  leaf1/e1 -- spine1/e1 is down")
    assert lines[1].endswith("OPEN      CRITICAL  severity CRITICAL; evidence 0 -> 1")
    assert lines[2].endswith("RESOLVED  CRITICAL, final  parent p")


def test_unknown_fields_are_left_out() -> None:
    """A finding with nothing but its subject has no empty lines for the rest."""
    text = "\n".join(render.finding_report(finding(), [], [], 1))
    assert "confidence" not in text
    assert "seen by" not in text
    assert "over" not in text


def test_a_repeated_acknowledgement_is_one() -> None:
    """Its id follows from the finding's, so that the second replaces the first."""
    first = acknowledgement("f", 1, None, "me", "")
    second = acknowledgement("f", 2, 5, "you", "again")
    assert first.id == second.id
    assert second.kind is ControlKind.ACKNOWLEDGE
    assert second.subject_id == "f"
