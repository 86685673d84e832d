"""Tests the queries in runbooks."""

import re
from pathlib import Path

import pytest

from tests.integration.dashboards.fabric import Board

PAGES = sorted((Path(__file__).parents[3] / "docs/runbooks").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_query_of_a_runbook_runs(board: Board, page: Path) -> None:
    """With an id and a device inserted, ClickHouse accepts each query on our tables."""
    found = re.findall(r"```sql\n(.*?)```", page.read_text(), re.DOTALL)
    assert found
    for sql in found:
        board.run(sql, id="critical", device="leaf-1")


def test_a_runbook_shows_findings_that_began_at_the_same_time(board: Board) -> None:
    """The page of link/down finds the child that began ten seconds later."""
    page = next(page for page in PAGES if page.stem == "link-down").read_text()
    sql = next(sql for sql in re.findall(r"```sql\n(.*?)```", page, re.DOTALL) if "dateDiff" in sql)
    assert "link:child" in [row["subject_id"] for row in board.run(sql, id="critical")]
