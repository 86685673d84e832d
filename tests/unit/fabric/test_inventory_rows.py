"""Columns converted by distinct value equal rows converted one by one, or fall back to them."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from streams.fabric.inventory_rows import ROW_OF, from_columns, from_rows

_VALUES: st.SearchStrategy[Any] = st.sampled_from(
    ["", "a", "b", "0", "7", " 7", "1.0", "1e3", "switch", "host", "host-link", "fabric-link", "x\0", None, 0, 1, 1.0,
     True, False, 2.5, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00", [], {}]
)  # fmt: skip


@st.composite
def _columns(draw: st.DrawFn) -> tuple[str, dict[str, list[Any]]]:
    """Draw a table with some of its columns, mostly valid for required ones, and any values elsewhere."""
    table = draw(st.sampled_from(sorted(ROW_OF)))
    right = {"kind": "host", "role": "host-link", "start": "2026-01-01T00:00:00Z"}
    length = draw(st.integers(0, 4))
    columns: dict[str, list[Any]] = {}
    for name in ROW_OF[table]._fields:
        if draw(st.integers(0, 9)):
            usual = st.just(right.get(name, "7"))
            values = usual if draw(st.integers(0, 9)) else _VALUES
            columns[name] = draw(st.lists(values, min_size=length, max_size=length))
    return table, columns


def _one_by_one(table: str, columns: dict[str, list[Any]], *, none_is_absent: bool) -> tuple[Any, ...] | None:
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    try:
        return from_rows(table, ({k: v for k, v in row.items() if not (none_is_absent and v is None)} for row in rows))
    except ValidationError:
        return None


@example(
    ("jobs", {"job": ["7"] * 2, "device": ["7"] * 2, "start": ["2026-01-01T00:00:00Z"] * 2, "end": [0, False]}), False
)
@given(_columns(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_columns_are_converted_as_their_rows_are(own: tuple[str, dict[str, list[Any]]], none_is_absent: bool) -> None:
    """The fast path accepts only what the slow path accepts, with the same values of the same types."""
    table, columns = own
    quick = from_columns(table, columns, none_is_absent=none_is_absent)
    if quick is not None:
        slow = _one_by_one(table, columns, none_is_absent=none_is_absent)
        assert repr(tuple(quick)) == repr(slow)
        assert quick == slow
