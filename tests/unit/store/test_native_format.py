"""Tests columns as bytes: long columns of counters are sent in the fewest bytes that fit."""

import numpy as np
import pytest

from streams.store.rows.native_format import NumericColumn
from streams.wire.models import ABSENT_COUNTER

LONG = 5000


def encoded(values: list[int], absent: list[bool] | None = None) -> tuple[str, list[int]]:
    """Return the type name and the values of an encoded column of counters."""
    mask = None if absent is None else np.array(absent)
    type_, *rest = NumericColumn("n", "UInt64", np.array(values, np.uint64), mask).parts()
    name = bytes(type_)[1:].decode()
    width = int(name.removeprefix("Nullable(").rstrip(")").removeprefix("UInt")) // 8
    return name, np.frombuffer(rest[-1], f"<u{width}").tolist()


@pytest.mark.parametrize(
    ("largest", "type_"),
    [(255, "UInt8"), (256, "UInt16"), (65_535, "UInt16"), (65_536, "UInt32"), (2**32 - 1, "UInt32"), (2**32, "UInt64")],
)
def test_a_long_column_takes_the_width_of_its_largest_value(largest: int, type_: str) -> None:
    """The numbers are the same, at the limits of each width."""
    values = [*range(LONG // 20), largest, 0]
    values += [largest] * (LONG - len(values))
    assert encoded(values) == (type_, values)


def test_an_absent_counter_keeps_its_column_wide() -> None:
    """The absent value is the largest number, so its column is not narrowed."""
    values, absent = [7] * (LONG - 1) + [ABSENT_COUNTER], [False] * (LONG - 1) + [True]
    assert encoded(values, absent) == ("Nullable(UInt64)", values)


def test_a_short_column_is_not_narrowed() -> None:
    """For few rows, the saved bytes are not worth the search."""
    assert encoded([1, 2, 3]) == ("UInt64", [1, 2, 3])
