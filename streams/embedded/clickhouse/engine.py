"""Wraps the engine: chdb on one data folder, and connections, each with its own settings and temporary tables.

A connection serves one statement at a time and costs 0.3 ms, so every request gets a new one; a session retains its
own. Every call here blocks, so call it in a thread; chdb releases the interpreter's lock meanwhile.
"""

import os
import re
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from streams.embedded.clickhouse.data_dir import BOOT_DATABASE, READER_PROFILE, engine_folder
from streams.embedded.clickhouse.errors import ClickHouseError, from_engine
from streams.embedded.clickhouse.params import READER_LIMITS

# Turns off settings that clickhouse-local enables for interactive use.
_AS_A_SERVER = {"implicit_select": "0", "allow_introspection_functions": "0"}

READER_SETTINGS = {name: str(value) for name, (value, _) in READER_LIMITS.items()}
"""The settings of a reader's connection, unless the request overrides them."""

_CALLED = "SELECT lower(name) FROM system.functions UNION ALL SELECT lower(name) FROM system.table_functions"
"""The query for the names of the engine's functions."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
"""An unquoted identifier of ClickHouse; the names of parameters may contain a dollar sign."""


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


class Connection:
    """One connection; raises the engine's errors as ClickHouseError with the engine's code."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, with its settings and temporary tables."""
        self._raw.close()

    def query(self, sql: str, output_format: str = "TabSeparated") -> Result:
        """Run one statement and return its complete result."""
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
        """Start a SELECT whose result is returned in separately encoded blocks."""
        mark = f"/* {uuid.uuid4()} */"
        try:
            return Blocks(self._raw.send_query(_encoded(f"{mark} {sql}"), output_format), mark)
        except RuntimeError as error:
            raise from_engine(str(error)) from None

    def insert(self, sql: str, input_format: str) -> "Insert":
        """Start an INSERT whose data follows in pieces."""
        try:
            return Insert(self._raw.send_insert(_encoded(sql), input_format))
        except RuntimeError as error:
            raise from_engine(str(error)) from None

    def configure(self, settings: Mapping[str, str], database: str) -> None:
        """Set the settings and database of the next statements."""
        if settings:
            changes = ", ".join(f"{_setting_name(name)} = {quoted(value)}" for name, value in settings.items())
            self.query(f"SET {changes}")
        if database:
            self.query(f"USE {identifier(database)}")

    def value(self, expression: str) -> str:
        """Return the value of one constant expression."""
        return self.query(f"SELECT {expression}", "TabSeparatedRaw").data.decode().rstrip("\n")


class Blocks:
    """The result of a running query; `mark` is a text that only this query contains."""

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
        """Discard the rest of the result."""
        try:
            self._stream.cancel()
        except RuntimeError as error:
            raise from_engine(str(error)) from None


class Insert:
    """A running INSERT; its data is acknowledged when `finish` returns."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def append(self, data: bytes) -> None:
        """Pass the next piece of the data to the engine; an empty piece is ignored."""
        if not data:
            return
        try:
            self._stream.append(data)
        except RuntimeError as error:
            raise from_engine(str(error)) from None

    def finish(self) -> Result:
        """Write the rest; acknowledged data is on disk as far as the engine's settings require."""
        try:
            done = self._stream.finish()
        except RuntimeError as error:
            raise from_engine(str(error)) from None
        return Result(written_rows=done.rows_written, written_bytes=done.bytes_written, elapsed_s=done.elapsed)

    def cancel(self) -> None:
        """Cancel the INSERT; blocks that the engine has written stay, as on a server."""
        try:
            self._stream.cancel()
        except RuntimeError as error:
            raise from_engine(str(error)) from None


RESERVE_BYTES = 64 << 20
"""Free space of the disk below which no INSERT is acknowledged.

chdb 4.4 acknowledges an INSERT even if it could not write the part: on a full disk it acknowledged five INSERTs of
1,000 rows and stored none.
"""
_PARTS_FACTOR = 4
"""Required space as a multiple of an INSERT's data: its parts, and concurrent merges and INSERTs."""


class Engine:
    """The chdb engine of a folder; a process can have one engine only."""

    def __init__(self, data: Path, config: Path) -> None:
        """Open the folder of `write_configuration`; raise ClickHouseError if the engine refuses it."""
        self._folder = engine_folder(data)
        self._address = f"{engine_folder(data)}?config-file={config}"
        # Stays open until the process ends, because the engine ends with its last connection.
        self._keeper = self.connect({}, "")
        self._keeping = threading.Lock()
        with self._keeping:
            self._keeper.query(f"DROP DATABASE IF EXISTS {BOOT_DATABASE}")
        self.version = self._keeper.value("version()")
        self.timezone = self._keeper.value("timezone()")
        names = self._keeper.query(_CALLED, "TabSeparatedRaw").data.decode()
        self._functions = frozenset(names.splitlines())

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

        try:
            address = f"{self._address}&readonly=2" if read_only else self._address
            connection = Connection(chdb.connect(address))  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise from_engine(str(error)) from None
        try:
            if is_reader:
                connection.query(f"SET profile = {quoted(READER_PROFILE)}")
                connection.configure(READER_SETTINGS, "")
            connection.configure({**_AS_A_SERVER, **settings}, "" if database == "default" else database)
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

    def is_view(self, name: str) -> bool:
        """Return whether a name is a view and not a function, because a statement may call a view with parameters."""
        if name.lower() in self._functions:
            return False
        count = f"SELECT count() FROM system.tables WHERE name = {quoted(name)} AND engine = 'View'"  # noqa: S608 — quoted
        with self._keeping:
            return self._keeper.query(count).data.strip() != b"0"

    def keep_default_database(self) -> None:
        """Recreate the database `default` if a client dropped it, because connections need it."""
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
    # A name from the URL becomes part of SQL, so an invalid name of a setting is refused with the engine's message.
    if not _NAME.fullmatch(name):
        raise ClickHouseError(115, "UNKNOWN_SETTING", f"Unknown setting {quoted(name)}")
    return name
