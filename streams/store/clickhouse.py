"""The one door to ClickHouse: queries and inserts over HTTP, and what each failure asks of the caller.

A server that is away, busy or refuses for now is Retry; credentials or an address that cannot be right are
Misconfigured. Methods block; whoever has an event loop calls them in a thread. One instance serves many threads.
"""

import threading
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from streams.store.params import StoreParams
from streams.store.rows.native_format import NativeBlock
from streams.wire.errors import Misconfigured, Retry

if TYPE_CHECKING:
    import pyarrow as pa
    from clickhouse_connect.driver.client import Client

_REFUSED = ("AUTHENTICATION_FAILED", "REQUIRED_PASSWORD", "UNKNOWN_USER", "ACCESS_DENIED")


class ClickHouse:
    """One server. It is first asked when it is first needed."""

    def __init__(self, params: StoreParams) -> None:
        self.params = params
        self._lock = threading.Lock()
        self._client: Client | None = None

    def query(self, sql: str, parameters: dict[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        """The rows of a query."""
        with _told():
            rows: Sequence[Sequence[Any]] = self._connected().query(sql, parameters=parameters).result_rows
            return rows

    def table(self, sql: str, parameters: dict[str, Any] | None = None) -> "pa.Table":
        """The answer of a query as columns; texts that repeat (LowCardinality) are dictionaries."""
        settings = {"output_format_arrow_low_cardinality_as_dictionary": 1, "output_format_arrow_string_as_string": 1}
        with _told():
            return self._connected().query_arrow(sql, parameters=parameters, settings=settings, use_strings=True)

    def command(self, sql: str) -> None:
        """Run a statement that answers nothing."""
        with _told():
            self._connected().command(sql)

    def insert(self, table: str, columns: Sequence[str], block: NativeBlock, token: str) -> None:
        """Insert one Native block; the server passes over a token that the table has seen."""
        settings = {
            "insert_deduplicate": 1,
            "insert_deduplication_token": token,
            # A block is one part a day of arrival; it must go in whatever days Kafka's clock says.
            "max_partitions_per_insert_block": 0,
            # Acknowledged has to mean stored.
            "async_insert": 0,
            # No column of ours has a default of its own; to look for one in each of the 46 that a block of samples
            # leaves out took 4 of the 12 ms that its insert costs besides its rows (chdb 26.9).
            "input_format_defaults_for_omitted_fields": 0,
        }
        with _told():
            self._connected().raw_insert(
                f"`{self.params.database}`.`{table}`",
                columns,
                # Pieces, so that the driver puts the statement into the address instead of before a copy of the body.
                block.pieces,  # type: ignore[arg-type]
                settings=settings,
                fmt="Native",
                # With its length known, a body goes out as it is, without a frame around each piece.
                transport_settings={"Content-Length": str(block.size)},
            )

    def has_database(self) -> bool:
        """Whether the database is there."""
        with _told(), closing(self._connect("default")) as client:
            return self.params.database in str(client.command("SHOW DATABASES")).split()

    def ensure_database(self) -> None:
        """Create the database where it is not there."""
        with _told(), closing(self._connect("default")) as client:
            client.command(f"CREATE DATABASE IF NOT EXISTS `{self.params.database}`")

    def close(self) -> None:
        """Let go of the connections."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _connected(self) -> "Client":
        with self._lock:
            if self._client is None:
                self._client = self._connect(self.params.database)
            return self._client

    def _connect(self, database: str) -> "Client":
        import clickhouse_connect
        from clickhouse_connect.driver import httputil

        where = urlsplit(self.params.url)
        return clickhouse_connect.get_client(
            host=where.hostname,
            port=where.port or (8443 if where.scheme == "https" else 8123),
            secure=where.scheme == "https",
            username=self.params.user,
            password=self.params.password.get_secret_value(),
            database=database,
            # Threads share the client: a session would serve one query at a time.
            autogenerate_session_id=False,
            compress=False,
            send_receive_timeout=self.params.timeout_s,
            connect_timeout=min(10.0, self.params.timeout_s),
            query_retries=0,
            pool_mgr=httputil.get_pool_manager(maxsize=16),
        )


class _told:  # noqa: N801 — reads as a word in `with`
    """Turns the driver's errors into ours."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        from clickhouse_connect.driver.exceptions import ClickHouseError
        from urllib3.exceptions import HTTPError

        if isinstance(error, ClickHouseError | HTTPError | OSError):
            said = " ".join(str(error).split())[:500]
            if any(word in said for word in _REFUSED):
                raise Misconfigured(f"ClickHouse refuses the user: {said}") from error
            raise Retry(f"ClickHouse: {said}") from error
