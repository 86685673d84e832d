"""Tables of the commands: columns, width, colors; and the findings that options select."""

import re
from dataclasses import replace

import pytest
import typer

from streams.cli.printing import Cell, table_lines
from streams.report.open_findings import FindingFilter, acknowledgements, is_planned
from streams.report.render import revision_lines
from streams.wire.models import BlastRadius, Control, ControlKind, Severity, Status
from tests.fixtures.findings import NS, finding

ROWS = [[Cell("leaf1"), Cell("CRITICAL", typer.colors.RED), Cell("the link is down " * 9)]]
HEADER = ["DEVICE", "SEVERITY", "SUMMARY"]


def test_a_table_fits_the_terminal() -> None:
    """The last column is cut with an ellipsis; without a width nothing is cut."""
    lines = list(table_lines(HEADER, ROWS, 80, colored=False))
    assert [len(line) <= 80 for line in lines] == [True, True]
    assert lines[0] == "DEVICE  SEVERITY  SUMMARY"
    assert lines[1].endswith("…")
    assert list(table_lines(HEADER, ROWS, None, colored=False))[1].endswith("is down")


def test_colors_change_no_column() -> None:
    """Without colors the same text is at the same place."""
    colored = list(table_lines(HEADER, ROWS, 80, colored=True))
    assert [re.sub(r"\x1b\[\d+m", "", line) for line in colored] == list(table_lines(HEADER, ROWS, 80, colored=False))
    assert "\x1b[" in colored[1]


@pytest.mark.parametrize(
    ("wanted", "selected"),
    [
        (FindingFilter(), True),
        (FindingFilter(severity=Severity.CRITICAL), False),
        (FindingFilter(condition="link/*", device="leaf*"), True),
        (FindingFilter(condition="rail/*"), False),
        (FindingFilter(device="spine9"), False),
        (FindingFilter(device="host7", job="job*"), True),
        (FindingFilter(job="other"), False),
        (FindingFilter(roots=True), True),
        (FindingFilter(unacknowledged=True), False),
    ],
)
def test_options_select_findings(wanted: FindingFilter, selected: bool) -> None:
    """By severity, condition, device, affected host and job, root, acknowledgement; this one is acknowledged."""
    assert wanted.selects(finding(blast_radius=BlastRadius(("host7",), ("job1",))), acknowledged=True) is selected


def test_an_acknowledgement_counts_until_its_end() -> None:
    """Other controls are none."""
    acks = [Control(str(i), ControlKind.ACKNOWLEDGE, f"f{i}", NS, until_ns=end) for i, end in enumerate((None, 5 * NS))]
    assert acknowledgements([*acks, Control("m", ControlKind.MAINTENANCE, "f3", NS)], 9 * NS) == {"f0": acks[0]}


@pytest.mark.parametrize(
    ("started_s", "ended_s", "expected"),
    [(100, None, False), (100, 250, False), (210, 250, True), (210, 350, False), (390, 395, False), (390, None, False)],
    ids=["before, open", "before", "during", "outlived it", "after", "after, open"],
)
def test_what_is_over_is_planned_if_a_maintenance_covered_all_of_it(
    started_s: int, ended_s: int | None, expected: bool
) -> None:
    """The maintenance lasted from 200 to 300 s, and it is 400 s now."""
    resolved_ns = None if ended_s is None else ended_s * NS
    own = finding(started_at_ns=started_s * NS, resolved_at_ns=resolved_ns)
    night = Control("m", ControlKind.MAINTENANCE, "leaf1", 200 * NS, 300 * NS, "ada")
    assert is_planned(own, [night], 400 * NS) is expected
    assert not is_planned(own, [replace(night, kind=ControlKind.ACKNOWLEDGE)], 250 * NS)


def test_revisions_without_a_visible_change_are_counted() -> None:
    """An update with the same summary, severity and evidence is no line."""
    revisions = [finding(revision=i, status=Status.OPEN if i == 1 else Status.UPDATED) for i in (1, 2, 3)]
    lines = list(revision_lines(revisions))
    assert len(lines) == 2
    assert lines[-1] == "    and 2 revisions without a visible change"
