"""Columns as bytes: long columns of counters go out in as few as hold them."""

import numpy as np
import pytest

from streams.store.rows.native_format import NumericColumn
from streams.wire.models import ABSENT_COUNTER

LONG = 5000


def sent(values: list[int], absent: list[bool] | None = None) -> tuple[str, list[int]]:
    """A counters' column as it goes out: the name of its type, and its values."""
    mask = None if absent is None else np.array(absent)
    type_, *rest = NumericColumn("n", "UInt64", np.array(values, np.uint64), mask).parts()
    name = bytes(type_)[1:].decode()
    width = int(name.removeprefix("Nullable(").rstrip(")").removeprefix("UInt")) // 8
    return name, np.frombuffer(rest[-1], f"<u{width}").tolist()


@pytest.mark.parametrize(
    ("most", "type_"),
    [(255, "UInt8"), (256, "UInt16"), (65_535, "UInt16"), (65_536, "UInt32"), (2**32 - 1, "UInt32"), (2**32, "UInt64")],
)
def test_a_long_column_takes_the_width_of_its_largest_value(most: int, type_: str) -> None:
    """And holds the same numbers, at the edges of each width."""
    values = [*range(LONG // 20), most, 0]
    values += [most] * (LONG - len(values))
    assert sent(values) == (type_, values)


def test_an_absent_counter_keeps_its_column_wide() -> None:
    """What stands for none is the largest number: its column is not cut to fewer bytes."""
    values, absent = [7] * (LONG - 1) + [ABSENT_COUNTER], [False] * (LONG - 1) + [True]
    assert sent(values, absent) == ("Nullable(UInt64)", values)


def test_a_short_column_goes_out_as_it_is() -> None:
    """Of few rows the bytes are not worth a look at each."""
    assert sent([1, 2, 3]) == ("UInt64", [1, 2, 3])
