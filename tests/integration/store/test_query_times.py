"""Runs `railsight bench queries` on a small fabric: each query of a board finds rows in what the benchmark fills."""

import pytest

from lab.bench.query_times import measure, table_lines

pytestmark = pytest.mark.timeout(300)


def test_each_query_finds_rows_over_a_day_and_over_a_week() -> None:
    """A day of 256 GPUs by minute, a week of a thousandth of the largest fabric by hour."""
    found = measure(256, 0.001)
    assert (found.day_rows, found.week_rows) == (2 * 256 * 1440, 2 * 393 * 168)
    assert [(one.range, one.name) for one in found.times if not (one.rows and one.read_rows)] == []
    assert len(list(table_lines(found))) == 3 + len(found.times) == 15
