"""Provides the ClickHouse client: queries and inserts over HTTP, with driver errors mapped to Retry and Misconfigured.

An unavailable, busy or temporarily refusing server raises Retry; wrong credentials or a wrong address raise
Misconfigured. Methods block; asyncio callers run them in a thread. Threads may share one instance.
"""

import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from streams.store.params import StoreParams
from streams.store.rows.native_format import NativeBlock
from streams.store.users import CONDITION_CACHE
from streams.wire.errors import Misconfigured, Retry
from streams.wire.tls_files import FileContext, TlsFiles

if TYPE_CHECKING:
    import pyarrow as pa
    from clickhouse_connect.driver.client import Client

QueryRows = Sequence[Sequence[Any]]


class QueryClient(Protocol):
    """Runs queries; blocks, and raises Retry while ClickHouse is unavailable."""

    def query(self, sql: str, parameters: dict[str, Any] | None = None) -> QueryRows:
        """Return the rows of a query."""
        ...


_MAX_CAUSES = 8
_ACCESS_ERRORS = ("AUTHENTICATION_FAILED", "REQUIRED_PASSWORD", "UNKNOWN_USER", "ACCESS_DENIED")


class ClickHouse:
    """A client of one server; it connects at the first call."""

    def __init__(self, params: StoreParams) -> None:
        self.params = params
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._password = ""
        # With replicas, an acknowledged insert is on a majority of them, and a query reads all acknowledged rows; with
        # shards, the shards acknowledge it, not the host that divides it (docs/scaling.md).
        self._reads: dict[str, Any] = {"select_sequential_consistency": 1} if params.cluster else {}
        self._writes: dict[str, Any] = {"insert_quorum": "auto", "insert_quorum_parallel": 0} if params.cluster else {}
        if params.sharded:
            self._reads["distributed_product_mode"] = "global"
            self._writes["distributed_foreground_insert"] = 1

    def query(self, sql: str, parameters: dict[str, Any] | None = None) -> QueryRows:
        """Return the rows of a query."""
        with self._mapped_errors():
            rows: QueryRows = self._connected().query(sql, parameters=parameters, settings=self._reads).result_rows
            return rows

    def table(self, sql: str, parameters: dict[str, Any] | None = None) -> "pa.Table":
        """Return the result of a query as columns; LowCardinality strings are dictionaries."""
        settings = {"output_format_arrow_low_cardinality_as_dictionary": 1, "output_format_arrow_string_as_string": 1}
        with self._mapped_errors():
            return self._connected().query_arrow(sql, parameters=parameters, settings=settings, use_strings=True)

    def command(self, sql: str) -> None:
        """Run a statement that returns nothing."""
        with self._mapped_errors():
            self._connected().command(sql)

    def insert(self, table: str, columns: Sequence[str], block: NativeBlock, token: str) -> None:
        """Insert one Native block; the server skips a token that the table has recorded."""
        settings = self._writes | {
            "insert_deduplicate": 1,
            "insert_deduplication_token": token,
            # A block makes one part for each day of arrival; any number of days by Kafka's clock is accepted.
            "max_partitions_per_insert_block": 0,
            # An acknowledged insert must be stored.
            "async_insert": 0,
            # Our columns have no default expressions; the search for them in the 46 columns that a block of samples
            # omits took 4 of the 12 ms of fixed cost per insert (chdb 26.9).
            "input_format_defaults_for_omitted_fields": 0,
        }
        with self._mapped_errors():
            self._connected().raw_insert(
                f"`{self.params.database}`.`{table}`",
                columns,
                # With pieces, the driver puts the statement into the URL instead of before a copy of the body.
                block.pieces,  # type: ignore[arg-type]
                settings=settings,
                fmt="Native",
                # With a known length, the body is sent without a frame around each piece.
                transport_settings={"Content-Length": str(block.size)},
            )

    def has_database(self) -> bool:
        """Return whether the database exists."""
        with self._mapped_errors(), closing(self._connect("default")) as client:
            return self.params.database in str(client.command("SHOW DATABASES")).split()

    def ensure_database(self) -> None:
        """Create the database if it does not exist."""
        with self._mapped_errors(), closing(self._connect("default")) as client:
            on = f" ON CLUSTER `{self.params.cluster}`" if self.params.cluster else ""
            client.command(f"CREATE DATABASE IF NOT EXISTS `{self.params.database}`{on}")

    def close(self) -> None:
        """Close the connections."""
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

        url = urlsplit(self.params.url)
        password = self._password = self.params.secret()
        client = clickhouse_connect.get_client(
            host=url.hostname,
            port=url.port or (8443 if url.scheme == "https" else 8123),
            secure=url.scheme == "https",
            username=self.params.user,
            password=password,
            database=database,
            # Threads share the client, and a session would permit only one query at a time.
            autogenerate_session_id=False,
            compress=False,
            send_receive_timeout=self.params.timeout_s,
            connect_timeout=min(10.0, self.params.timeout_s),
            query_retries=0,
            pool_mgr=httputil.get_pool_manager(maxsize=16, **self._tls(url.scheme)),
        )
        cache = client.server_settings.get(CONDITION_CACHE)
        if cache is not None and not cache.readonly:
            client.set_client_setting(CONDITION_CACHE, 0)
        return client

    def _tls(self, scheme: str) -> dict[str, Any]:
        """Return the arguments of a connection pool; raises Misconfigured if a file is unusable."""
        if scheme != "https":
            return {}
        files = TlsFiles(self.params.ca_file, self.params.cert_file, self.params.key_file)
        try:
            return {"ssl_context": FileContext(files)}
        except OSError as error:
            raise Misconfigured(
                f"store: cannot load the TLS files {', '.join(map(str, files.present()))} ({error}); check ca_file,"
                " cert_file and key_file"
            ) from error

    def _has_new_password(self) -> bool:
        """Return whether the password file has changed; the next call connects with the new password."""
        if self.params.password_file is None or self.params.secret() == self._password:
            return False
        self.close()
        return True

    @contextmanager
    def _mapped_errors(self) -> Iterator[None]:
        """Raise the driver's errors as Retry or Misconfigured."""
        from clickhouse_connect.driver.exceptions import ClickHouseError
        from urllib3.exceptions import HTTPError

        try:
            yield
        except (ClickHouseError, HTTPError, OSError) as error:
            message = " ".join(str(error).split())[:500]
            if any(code in message for code in _ACCESS_ERRORS):
                if self._has_new_password():
                    raise Retry(
                        f"ClickHouse at {self.params.url}: the password was changed, connecting again"
                    ) from error
                raise Misconfigured(
                    f"ClickHouse at {self.params.url} refuses user {self.params.user!r}"
                    f" (check store.user and store.password): {message}"
                ) from error
            raise Retry(f"ClickHouse at {self.params.url}: {_cause(error) or message}") from error


def _cause(error: BaseException) -> str:
    """Return the reason of a failed connection with the next step; empty for an answer of the server.

    The driver and its HTTP library repeat the URL and their class names around the error of the socket.
    """
    seen: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        match seen:
            case None:
                break
            case ConnectionRefusedError():
                return "connection refused; start it with `railsight clickhouse`, or correct store.url"
            case socket.gaierror():
                return f"the name cannot be resolved ({seen.strerror}); correct store.url"
            case ssl.SSLError():
                return f"no TLS connection ({seen.reason or seen}); check store.url and store.ca_file"
            case TimeoutError():
                return "no answer in time; check store.url and the firewall"
        reason = getattr(seen, "reason", None)
        seen = seen.__cause__ or (reason if isinstance(reason, BaseException) else None) or seen.__context__
    return ""
