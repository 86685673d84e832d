"""Tests that docs/remediation.md has the guards in their order and the defaults of their settings."""

import re
from pathlib import Path

from streams.decide.guards import GUARDS
from streams.decide.params import DecideParams

PAGE = (Path(__file__).parents[3] / "docs" / "remediation.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if re.match(r"\| \d", line)]


def test_the_page_has_the_guards_in_their_order() -> None:
    """Numbers and names are those of the code."""
    expected = [(str(number), guard.__name__) for number, guard in enumerate(GUARDS, start=1)]
    assert [(number, name) for number, name, *_ in ROWS] == expected


def test_the_page_has_the_defaults() -> None:
    """Each setting of the table exists and has that default."""
    settings = [found for row in ROWS for found in re.findall(r"`(\w+)` ([\w.]+)", row[3])]
    assert len(settings) == 15
    for name, default in settings:
        assert str(getattr(DecideParams(), name)) == default
