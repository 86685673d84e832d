"""docs/inventory.md describes every rule and the columns of every table."""

import re
from pathlib import Path
from typing import get_args

from streams.fabric.checks.tables import Rule
from streams.fabric.inventory_rows import ROW_OF

PAGE = (Path(__file__).parents[3] / "docs" / "inventory.md").read_text(encoding="utf-8")


def test_the_page_has_every_rule_and_no_other() -> None:
    """Every rule has a row in the table, and every row has a rule."""
    table = PAGE[PAGE.index("| rule |") : PAGE.index("## Derived information")]
    rows = [line for line in table.splitlines()[2:] if line.startswith("|")]
    named = [name for line in rows for name in re.findall(r"`([a-z-]+)`", line.split("|")[1])]
    assert sorted(named) == sorted(get_args(Rule))


def test_the_page_has_every_column() -> None:
    """Each table of the page has the columns of its rows."""
    for table, row in ROW_OF.items():
        (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{table}`")]
        assert set(re.findall(r"`([a-z_]+)`", line)) >= {table, *row._fields}
