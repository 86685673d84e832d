"""Tests that history is read in windows of about equal numbers of rows, whatever the load was."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from streams.store.clickhouse import ClickHouse
from streams.store.params import StoreParams
from streams.store.queries import history

S = 1_000_000_000
BEGIN = 1_760_000_000 * S


class _RowCounts(ClickHouse):
    """A ClickHouse with a number of rows for each second, and without any message."""

    def __init__(self, rows_of: dict[int, int]) -> None:
        super().__init__(StoreParams())
        self._rows_of = rows_of
        self.windows: list[tuple[int, int]] = []

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
        self.windows.append((parameters["since"], parameters["until"]))
        names = ("kafka_partition", "kafka_offset", "rows")
        return pa.table({name: pa.array([], pa.int64()) for name in names})


@pytest.mark.parametrize("rows", [78_600, 393_000, 1_500_000, 10])
def test_a_window_has_at_most_window_rows(rows: int) -> None:
    """A second with more rows is a window by itself; the period is covered once, in few windows."""
    seconds = 1500
    client = _RowCounts({BEGIN // S + s: rows for s in range(seconds)})
    assert list(history.messages(client, BEGIN, BEGIN + seconds * S)) == []
    assert (client.windows[0][0], client.windows[-1][1]) == (BEGIN, BEGIN + seconds * S)
    assert all(one[1] == other[0] for one, other in zip(client.windows, client.windows[1:], strict=False))
    largest = max((until - since) // S * rows for since, until in client.windows)
    assert largest <= max(history.WINDOW_ROWS, rows)
    assert len(client.windows) <= 3 + 2 * seconds * rows / history.WINDOW_ROWS
