"""Wraps the engine: chdb on one data folder, and connections, each with its own settings and temporary tables.

A connection serves one statement at a time and costs 0.3 ms, so every request gets a new one; a session retains its
own. Every call here blocks, so call it in a thread; chdb releases the interpreter's lock meanwhile.
"""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streams.embedded.clickhouse.data_dir import BOOT_DATABASE, READER_PROFILE, READER_SETTINGS, engine_folder
from streams.embedded.clickhouse.errors import ClickHouseError, EngineError, from_engine

# Turns off settings that clickhouse-local enables for interactive use.
_AS_A_SERVER = "&implicit_select=0&allow_introspection_functions=0"
_AS_A_READER = "".join(f"&{name}={value}" for name, value in READER_SETTINGS.items())

_NOT_STREAMED = "Code: 36. DB::Exception: Streaming query is not supported for query"
"""The begin of the engine's error for one complete statement that is no SELECT; a text is quoted only after it."""


@dataclass(frozen=True, slots=True)
class Result:
    """A complete result with the engine's counts."""

    data: bytes = b""
    rows: int = 0
    read_rows: int = 0
    read_bytes: int = 0
    written_rows: int = 0
    written_bytes: int = 0
    elapsed_s: float = 0.0

    def plus(self, block: "Result") -> "Result":
        """Return the counts of this result and of its next block, without the data."""
        return Result(
            b"",
            self.rows + block.rows,
            self.read_rows + block.read_rows,
            self.read_bytes + block.read_bytes,
            elapsed_s=self.elapsed_s + block.elapsed_s,
        )


class Connection:
    """One connection; raises the engine's errors as ClickHouseError with the engine's code."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, with its settings and temporary tables."""
        self._raw.close()

    def query(self, sql: str | bytes, output_format: str = "TabSeparated", max_bytes: int = 1 << 30) -> Result:
        """Run a text of the server and return its complete result; the engine would run several statements."""
        with _engine_errors():
            got = self._raw._conn.query(_encoded(sql), output_format, params={})  # noqa: SLF001 — the wrapper adds only notebooks
        if got.size() > max_bytes:
            raise ClickHouseError(
                396,
                "TOO_MANY_ROWS_OR_BYTES",
                f"The result has {got.size()} bytes; in format {output_format} it may have {max_bytes}, "
                "and any number in a format of rows, such as JSONEachRow or Native",
            )
        return _result(got)

    def statement(self, text: bytes, output_format: str) -> Result:
        """Run a text of a client, not a SELECT, after the engine's parser has read it as one statement."""
        self._require_one(text)
        return self.query(text, output_format)

    def document(self, text: bytes, output_format: str, max_bytes: int) -> Result:
        """Run a SELECT and return its result as one document, whose memory in the engine counts for the query.

        Raises ClickHouseError, before the result is copied, if it is longer than `max_bytes`.
        """
        # Checked by EXPLAIN, because a SELECT would run.
        self._require_one(b"EXPLAIN AST " + text)
        return self.query(text, output_format, max_bytes)

    def _require_one(self, text: bytes) -> None:
        if (blocks := self.blocks(text, "Null")) is not None:
            blocks.close()
            raise ClickHouseError(62, "SYNTAX_ERROR", "Syntax error: a SELECT begins with SELECT, WITH, FROM or (")

    def blocks(self, text: bytes, output_format: str) -> "Blocks | None":
        """Start a SELECT whose result is returned in separately encoded blocks; None if it is another statement."""
        try:
            with _engine_errors():
                return Blocks(self._raw.send_query(text, output_format))
        except EngineError as error:
            if error.raw.startswith(_NOT_STREAMED):
                return None
            raise

    def insert(self, sql: str | bytes, input_format: str) -> "Insert":
        """Start an INSERT whose data follows in pieces."""
        with _engine_errors():
            return Insert(self._raw.send_insert(_encoded(sql), input_format))

    def configure(self, settings: Mapping[str, str], database: str) -> None:
        """Set the settings and database of the next statements; request.py has checked the names."""
        if settings:
            changes = ", ".join(f"{name} = {quoted(value)}" for name, value in settings.items())
            self.query(f"SET {changes}")
        if database:
            self.query(f"USE {identifier(database)}")

    def value(self, expression: str) -> str:
        """Return the value of one constant expression."""
        return self.query(f"SELECT {expression}", "TabSeparatedRaw").data.decode().rstrip("\n")


class Blocks:
    """The result of a running query."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def next(self) -> Result | None:
        """Return the next block, or None at the end."""
        with _engine_errors():
            got = self._stream.fetch()
        return None if got is None else _result(got)

    def close(self) -> None:
        """Discard the rest of the result."""
        with _engine_errors():
            self._stream.cancel()


class Insert:
    """A running INSERT; its data is acknowledged when `finish` returns."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def append(self, data: bytes) -> None:
        """Pass the next piece of the data to the engine; an empty piece is ignored."""
        if data:
            with _engine_errors():
                self._stream.append(data)

    def finish(self) -> Result:
        """Write the rest; acknowledged data is on disk as far as the engine's settings require."""
        with _engine_errors():
            done = self._stream.finish()
        return Result(written_rows=done.rows_written, written_bytes=done.bytes_written, elapsed_s=done.elapsed)

    def cancel(self) -> None:
        """Cancel the INSERT; blocks that the engine has written stay, as on a server."""
        with _engine_errors():
            self._stream.cancel()


RESERVE_BYTES = 64 << 20
"""Free space of the disk below which no INSERT is acknowledged.

chdb 26.9 acknowledges an INSERT even if it could not write the part: on a full disk it acknowledged five INSERTs of
1,000 rows and stored none.
"""
_PARTS_FACTOR = 4
"""Required space as a multiple of an INSERT's data: its parts, and concurrent merges and INSERTs."""


class Engine:
    """The chdb engine of a folder; a process can have one engine only."""

    def __init__(self, data: Path, config: Path) -> None:
        """Open the folder of `write_configuration`; raise ClickHouseError if the engine refuses it."""
        self._folder = engine_folder(data)
        self._address = f"{engine_folder(data)}?config-file={config}{_AS_A_SERVER}"
        # Stays open until the process ends, because the engine ends with its last connection.
        self._keeper = self.connect({}, "")
        self._keeping = threading.Lock()
        with self._keeping:
            self._keeper.query(f"DROP DATABASE IF EXISTS {BOOT_DATABASE}")
        self.version = self._keeper.value("version()")
        self.timezone = self._keeper.value("timezone()")

    def has_room(self) -> bool:
        """Return whether the free space of the disk is at least the reserve."""
        return self._free_bytes() >= RESERVE_BYTES

    def require_space(self, data_bytes: int) -> None:
        """Raise ClickHouseError if the disk may not have room for the parts of this many bytes of data."""
        free, needed = self._free_bytes(), RESERVE_BYTES + _PARTS_FACTOR * data_bytes
        if free < needed:
            raise ClickHouseError(
                243,
                "NOT_ENOUGH_SPACE",
                f"The disk of {self._folder} has {free} free bytes, and an INSERT of {data_bytes} needs {needed}",
            )

    def _free_bytes(self) -> int:
        disk = os.statvfs(self._folder)
        return disk.f_bavail * disk.f_frsize

    def connect(
        self, settings: Mapping[str, str], database: str, *, read_only: bool = False, is_reader: bool = False
    ) -> Connection:
        """Open a connection that behaves like one to a server, with these settings and this database.

        `read_only` sets `readonly = 2` before the first statement, `is_reader` adds the limits of readers; neither can
        be reverted.
        """
        import chdb

        address = self._address + ("&readonly=2" if read_only else "") + (_AS_A_READER if is_reader else "")
        with _engine_errors():
            connection = Connection(chdb.connect(address))
        try:
            if is_reader:
                connection.query(f"SET profile = {quoted(READER_PROFILE)}")
            connection.configure(settings, "" if database == "default" else database)
        except BaseException:
            connection.close()
            raise
        return connection

    def kill(self, mark: str) -> None:
        """Cancel the running queries whose text contains `mark`, without waiting for their end."""
        with self._keeping:
            self._keeper.query(
                f"KILL QUERY WHERE position(query, {quoted(mark)}) > 0 AND NOT startsWith(query, 'KILL QUERY') ASYNC"
            )

    def keep_default_database(self) -> None:
        """Recreate the database `default` if a client dropped it, because connections need it."""
        with self._keeping:
            self._keeper.query("CREATE DATABASE IF NOT EXISTS default")


@contextmanager
def _engine_errors() -> Iterator[None]:
    """Raise the library's errors as ClickHouseError, with the engine's message.

    The library cannot decode a message that quotes bytes of a statement which are not UTF-8, and wraps that failure.
    """
    try:
        yield
    except (RuntimeError, UnicodeDecodeError) as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, UnicodeDecodeError):
            cause = cause.__cause__ or cause.__context__
        raise from_engine(str(error) if cause is None else bytes(cause.object).decode(errors="replace")) from None


def _encoded(sql: str | bytes) -> bytes:
    return sql if isinstance(sql, bytes) else sql.encode(errors="surrogateescape")


def _result(got: Any) -> Result:
    return Result(
        data=bytes(got.bytes()),
        rows=got.rows_read(),
        read_rows=got.storage_rows_read(),
        read_bytes=got.storage_bytes_read(),
        written_rows=got.rows_written(),
        written_bytes=got.bytes_written(),
        elapsed_s=got.elapsed(),
    )


def quoted(text: str) -> str:
    """Return `text` as a string of ClickHouse's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def identifier(name: str) -> str:
    """Return `name` as an identifier of ClickHouse's SQL."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
