"""The queries that runbooks give to a person at night."""

import re
from pathlib import Path

import pytest

from tests.integration.dashboards.fabric import Board

PAGES = sorted((Path(__file__).parents[3] / "docs/runbooks").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_query_of_a_runbook_runs_as_it_stands(board: Board, page: Path) -> None:
    """With an id and a device put in, each is one that ClickHouse answers on our tables."""
    found = re.findall(r"```sql\n(.*?)```", page.read_text(), re.DOTALL)
    assert found
    for sql in found:
        board.run(sql, id="critical", device="leaf-1")


def test_a_runbook_shows_what_began_at_the_same_time(board: Board) -> None:
    """The page of link/down finds the child that began ten seconds later."""
    page = next(page for page in PAGES if page.stem == "link-down").read_text()
    sql = next(sql for sql in re.findall(r"```sql\n(.*?)```", page, re.DOTALL) if "dateDiff" in sql)
    assert "link:child" in [row["subject_id"] for row in board.run(sql, id="critical")]
