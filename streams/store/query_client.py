"""What the queries of this room need of ClickHouse: an answer, so that tests may give one."""

from collections.abc import Sequence
from typing import Any, Protocol


class QueryClient(Protocol):
    """Answers a query with its rows; raises Retry while ClickHouse is away."""

    def query(self, sql: str, parameters: dict[str, Any] | None = None) -> Sequence[Sequence[Any]]: ...
