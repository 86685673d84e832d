"""History is read in windows that hold about as many rows each, whatever the load was when."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from streams.store.queries import history

S = 1_000_000_000
BEGIN = 1_760_000_000 * S


class _Counted:
    """A ClickHouse that knows how many rows each second has, and is asked for messages of which it has none."""

    def __init__(self, rows_of: dict[int, int]) -> None:
        self._rows_of = rows_of
        self.asked: list[tuple[int, int]] = []

    def query(self, sql: str, parameters: dict[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        assert parameters is not None
        since, until = parameters["since"], parameters["until"]
        if "sum(rows)" in sql:
            return [(s, rows) for s, rows in sorted(self._rows_of.items()) if since <= s * S < until]
        if "countIf" in sql:
            return [[0] * sql.count("countIf")]
        return []

    def table(self, sql: str, parameters: dict[str, Any] | None = None) -> pa.Table:
        assert parameters is not None and "sample_messages" in sql
        self.asked.append((parameters["since"], parameters["until"]))
        names = ("kafka_partition", "kafka_offset", "rows")
        return pa.table({name: pa.array([], pa.int64()) for name in names})


@pytest.mark.parametrize("rows", [78_600, 393_000, 1_500_000, 10])
def test_a_window_has_no_more_rows_than_memory_is_meant_for(rows: int) -> None:
    """A second that has more is a window by itself; the stretch is covered once, in no more windows than it takes."""
    seconds = 1500
    asks = _Counted({BEGIN // S + s: rows for s in range(seconds)})
    assert list(history.messages(asks, BEGIN, BEGIN + seconds * S)) == []
    assert (asks.asked[0][0], asks.asked[-1][1]) == (BEGIN, BEGIN + seconds * S)
    assert all(one[1] == other[0] for one, other in zip(asks.asked, asks.asked[1:], strict=False))
    most = max((until - since) // S * rows for since, until in asks.asked)
    assert most <= max(history.WINDOW_ROWS, rows)
    assert len(asks.asked) <= 3 + 2 * seconds * rows / history.WINDOW_ROWS
