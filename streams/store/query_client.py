"""Declares what this room needs of a ClickHouse client, as protocols that tests can implement."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from streams.store.rows.native_format import NativeBlock

if TYPE_CHECKING:
    import pyarrow as pa

QueryRows = Sequence[Sequence[Any]]


class QueryClient(Protocol):
    """Runs queries; blocks, and raises Retry while ClickHouse is unavailable."""

    def query(self, sql: str, parameters: dict[str, Any] | None = None) -> QueryRows:
        """Return the rows of a query."""
        ...


class TableClient(QueryClient, Protocol):
    """Also returns results as Arrow tables."""

    def table(self, sql: str, parameters: dict[str, Any] | None = None) -> "pa.Table":
        """Return the result of a query as columns."""
        ...


class InsertClient(QueryClient, Protocol):
    """Also inserts blocks."""

    def insert(self, table: str, columns: Sequence[str], block: NativeBlock, token: str) -> None:
        """Insert one block; the server skips a token that the table has recorded."""
        ...


class CommandClient(QueryClient, Protocol):
    """Also runs statements."""

    def command(self, sql: str) -> None:
        """Run a statement that returns nothing."""
        ...


class MigrationClient(CommandClient, Protocol):
    """Also creates the database."""

    def has_database(self) -> bool:
        """Return whether the database exists."""
        ...

    def ensure_database(self) -> None:
        """Create the database if it does not exist."""
        ...
