"""The engine: chdb on one data folder, and connections to it, each with settings and temporary tables of its own.

One connection serves one statement at a time, and a connection costs 0.3 ms; so every request gets a new one, and a
session keeps one. Every call here blocks and belongs into a thread; chdb lets go of the interpreter while it works.
"""

import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from streams.embedded.clickhouse.data_dir import BOOT_DATABASE, write_configuration
from streams.embedded.clickhouse.errors import ClickHouseError, from_engine
from streams.embedded.clickhouse.params import Limits

# What clickhouse-local sets for a person at a terminal and a server does not.
_AS_A_SERVER = {"implicit_select": "0", "allow_introspection_functions": "0"}


@dataclass(frozen=True, slots=True)
class Result:
    """A whole answer, and what the engine counted."""

    data: bytes = b""
    rows: int = 0
    read_rows: int = 0
    read_bytes: int = 0
    written_rows: int = 0
    written_bytes: int = 0
    elapsed_s: float = 0.0


class Connection:
    """One connection. Errors leave it as ClickHouseError with the engine's code."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it, with its settings and temporary tables."""
        self._raw.close()

    def query(self, sql: str, output_format: str = "TabSeparated") -> Result:
        """Run one statement and return its whole answer."""
        try:
            got = self._raw._conn.query(_encoded(sql), output_format, params={})  # noqa: SLF001 — the wrapper adds only notebooks
        except RuntimeError as error:
            raise from_engine(str(error)) from None
        return Result(
            data=bytes(got.bytes()),
            rows=got.rows_read(),
            read_rows=got.storage_rows_read(),
            read_bytes=got.storage_bytes_read(),
            written_rows=got.rows_written(),
            written_bytes=got.bytes_written(),
            elapsed_s=got.elapsed(),
        )

    def blocks(self, sql: str, output_format: str) -> "Blocks":
        """Begin a SELECT whose result comes block by block, each encoded for itself."""
        mark = f"/* {uuid.uuid4()} */"
        try:
            return Blocks(self._raw.send_query(_encoded(f"{mark} {sql}"), output_format), mark)
        except RuntimeError as error:
            raise from_engine(str(error)) from None

    def insert(self, sql: str, input_format: str) -> "Insert":
        """Begin an INSERT whose data follows in pieces."""
        try:
            return Insert(self._raw.send_insert(_encoded(sql), input_format))
        except RuntimeError as error:
            raise from_engine(str(error)) from None

    def configure(self, settings: Mapping[str, str], database: str) -> None:
        """Set what the connection's next statements run under."""
        if settings:
            changes = ", ".join(f"{_setting_name(name)} = {quoted(value)}" for name, value in settings.items())
            self.query(f"SET {changes}")
        if database:
            self.query(f"USE {identifier(database)}")

    def value(self, expression: str) -> str:
        """Return the value of one constant expression."""
        return self.query(f"SELECT {expression}", "TabSeparatedRaw").data.decode().rstrip("\n")


class Blocks:
    """A result under way; `mark` stands in the text of its query and in no other's."""

    def __init__(self, stream: Any, mark: str) -> None:
        self._stream = stream
        self.mark = mark

    def next(self) -> bytes | None:
        """Return the next block, or None at the end."""
        try:
            got = self._stream.fetch()
        except RuntimeError as error:
            raise from_engine(str(error)) from None
        return None if got is None else bytes(got.bytes())

    def close(self) -> None:
        """Give up what is left of it."""
        try:
            self._stream.cancel()
        except RuntimeError as error:
            raise from_engine(str(error)) from None


class Insert:
    """An INSERT under way: nothing is promised before `finish` returned."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def append(self, data: bytes) -> None:
        """Give the engine the next piece of the data; an empty one is none."""
        if not data:
            return
        try:
            self._stream.append(data)
        except RuntimeError as error:
            raise from_engine(str(error)) from None

    def finish(self) -> Result:
        """Write what is left; what it acknowledges is on disk as far as the engine's own settings say."""
        try:
            done = self._stream.finish()
        except RuntimeError as error:
            raise from_engine(str(error)) from None
        return Result(written_rows=done.rows_written, written_bytes=done.bytes_written, elapsed_s=done.elapsed)

    def cancel(self) -> None:
        """Give it up; blocks that the engine wrote already stay, as they do on a server."""
        try:
            self._stream.cancel()
        except RuntimeError as error:
            raise from_engine(str(error)) from None


class Engine:
    """chdb opened on a folder. One process has one engine."""

    def __init__(self, data: Path, limits: Limits) -> None:
        """Open the folder; raise ClickHouseError if the engine refuses it."""
        config = write_configuration(data, limits)
        self._address = f"{data}?config-file={config}"
        # Kept open as long as the process lives: the engine ends with its last connection.
        self._keeper = self.connect({}, "")
        self._keeping = threading.Lock()
        with self._keeping:
            self._keeper.query(f"DROP DATABASE IF EXISTS {BOOT_DATABASE}")
        self.version = self._keeper.value("version()")
        self.timezone = self._keeper.value("timezone()")

    def connect(self, settings: Mapping[str, str], database: str) -> Connection:
        """Open a connection that behaves as one to a server does, under these settings, in this database."""
        import chdb

        try:
            connection = Connection(chdb.connect(self._address))  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise from_engine(str(error)) from None
        try:
            connection.configure({**_AS_A_SERVER, **settings}, "" if database == "default" else database)
        except BaseException:
            connection.close()
            raise
        return connection

    def kill(self, mark: str) -> None:
        """Ask running queries whose text contains `mark` to stop; return at once."""
        with self._keeping:
            self._keeper.query(
                f"KILL QUERY WHERE position(query, {quoted(mark)}) > 0 AND NOT startsWith(query, 'KILL QUERY') ASYNC"
            )

    def keep_default_database(self) -> None:
        """Make the database `default` again if a client dropped it: without it no connection can be opened."""
        with self._keeping:
            self._keeper.query("CREATE DATABASE IF NOT EXISTS default")

    def close(self) -> None:
        """Close the last connection."""
        self._keeper.close()


def _encoded(sql: str) -> bytes:
    return sql.encode(errors="surrogateescape")


def quoted(text: str) -> str:
    """Return `text` as a string of ClickHouse's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def identifier(name: str) -> str:
    """Return `name` as an identifier of ClickHouse's SQL."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _setting_name(name: str) -> str:
    # A name out of the URL goes into SQL: what no setting is called is refused in the engine's words.
    if not name.isidentifier() or not name.isascii():
        raise ClickHouseError(115, "UNKNOWN_SETTING", f"Unknown setting {quoted(name)}")
    return name
