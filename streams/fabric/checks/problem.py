"""A contradiction: in which rows of which table it stands, which rule it breaks, and what the rows say."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

Rule = Literal[
    "alias-of-an-alias",
    "alias-of-two-ports",
    "asymmetric-plane",
    "device-id-twice",
    "device-listed-twice",
    "device-serial-twice",
    "job-ends-before-it-starts",
    "job-on-a-switch",
    "job-twice-on-a-host",
    "kind-against-tier",
    "link-between-hosts",
    "link-id-twice",
    "link-within-a-device",
    "overlapping-maintenance",
    "plane-against-switch",
    "port-in-two-links",
    "rail-used-twice",
    "role-against-ends",
    "switch-with-gpus",
    "unknown-device",
    "unreadable",
    "unreadable-row",
    "wrong-columns",
]
"""What may be wrong; docs/inventory.md says what each means."""

_MOST_ROWS = 12
"""Row numbers that a line of text holds; JSON has all of them."""


class Problem(NamedTuple):
    """One thing that is wrong; `rows` count from 1 and do not count a CSV's header."""

    table: str
    rows: tuple[int, ...]
    rule: Rule
    message: str
    is_error: bool = False
    """Whether no pipeline can run with it."""
    column: str = ""
    """Where one value of one row is wrong."""

    def __str__(self) -> str:
        if not self.table:
            return self.message
        if not self.rows:
            return f"{self.table}: {self.message}"
        rows = f"{'row' if len(self.rows) == 1 else 'rows'} {join_names(self.rows, _MOST_ROWS)}"
        return f"{self.table} {rows}{self.column and ', ' + self.column}: {self.message}"


def join_names(values: Sequence[object], most: int = 4) -> str:
    """A few of them, and how many more there are."""
    said = ", ".join(map(str, values[:most]))
    return said if len(values) <= most else f"{said} and {len(values) - most} more"
