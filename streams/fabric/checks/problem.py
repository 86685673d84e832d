"""A problem of an inventory: the table, the rows, the rule and a message."""

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
    "no-devices",
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
"""The rules; docs/inventory.md documents each."""

_MOST_ROWS = 12
"""The maximum of row numbers in a line of text; JSON has all of them."""


class Problem(NamedTuple):
    """One problem; `rows` count from 1 and do not count the header of a CSV file."""

    table: str
    rows: tuple[int, ...]
    rule: Rule
    message: str
    is_error: bool = False
    """True if a pipeline cannot run with it."""
    column: str = ""
    """The column, where one value of one row is wrong."""

    def __str__(self) -> str:
        if not self.table:
            return self.message
        if not self.rows:
            return f"{self.table}: {self.message}"
        rows = f"{'row' if len(self.rows) == 1 else 'rows'} {join_names(self.rows, _MOST_ROWS)}"
        return f"{self.table} {rows}{self.column and ', ' + self.column}: {self.message}"


def join_names(values: Sequence[object], most: int = 4) -> str:
    """Join the first `most` values, with the number of the others."""
    names = ", ".join(map(str, values[:most]))
    return names if len(values) <= most else f"{names} and {len(values) - most} more"
