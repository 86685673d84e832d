"""Records on disk, in order, within a bound of bytes; what `append` returned from is there after any crash.

One SQLite file: its write-ahead log has a checksum a frame, so that a torn tail ends at the last whole commit, and a
commit of many records is one fsync. What cannot be written or read is an OSError, named; nothing is half done then.
Blocking: for a thread.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import orjson

from collectors.core.buffer import BufferedRecord
from streams.wire.errors import Misconfigured
from streams.wire.topics import BY_NAME, PartitionScheme, Record, Topic

_TABLE = """CREATE TABLE IF NOT EXISTS held (
    id INTEGER PRIMARY KEY AUTOINCREMENT, size INTEGER NOT NULL, rows INTEGER NOT NULL, topic TEXT NOT NULL,
    spread TEXT NOT NULL, route TEXT NOT NULL, headers BLOB NOT NULL, key BLOB NOT NULL, value BLOB)"""
_INSERT = "INSERT INTO held (size, rows, topic, spread, route, headers, key, value) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_SELECT = "SELECT id, size, rows, topic, spread, route, headers, key, value FROM held ORDER BY id LIMIT ?"
_LOCK_S = 5.0
"""How long the last owner of the file may take to end."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_READ_BYTES = 8 << 20

Result = TypeVar("Result")


class Damaged(OSError):
    """The file is not what was written; `Spool.set_aside` begins a new one."""


class Spool:
    """One file, of one process at a time."""

    def __init__(self, path: Path, limit_bytes: int, lock_s: float = _LOCK_S) -> None:
        self._lock_s = lock_s
        self._path = path
        self._limit = limit_bytes
        self._file: sqlite3.Connection | None = None
        self.size_bytes = 0
        self.count = 0

    def open(self) -> None:
        """Take the file, with what is in it; raises Misconfigured where it cannot be had, Damaged where it is."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._try(self._open)
        except Damaged:
            raise
        except OSError as error:
            raise Misconfigured(f"spool {self._path}: {error.strerror or error}") from error

    def _open(self) -> None:
        self._file = file = sqlite3.connect(
            self._path, timeout=self._lock_s, isolation_level=None, check_same_thread=False
        )  # fmt: skip
        file.execute("PRAGMA locking_mode = EXCLUSIVE")
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("BEGIN EXCLUSIVE")
        file.execute(_TABLE)
        file.execute("COMMIT")
        self.count, self.size_bytes = file.execute("SELECT count(*), coalesce(sum(size), 0) FROM held").fetchone()

    def append(self, held: Sequence[BufferedRecord]) -> int:
        """Write the first of them that fit, fsynced; answers how many."""
        fitting, size = 0, self.size_bytes
        for one in held:
            if (size := size + one.size) > self._limit:
                break
            fitting += 1
        if fitting:
            self._try(lambda: self._append(held[:fitting]))
        return fitting

    def _append(self, held: Sequence[BufferedRecord]) -> None:
        file = self._opened()
        file.execute("PRAGMA synchronous = FULL")
        file.execute("BEGIN IMMEDIATE")
        file.executemany(_INSERT, map(_row, held))
        file.execute("COMMIT")
        self.count += len(held)
        self.size_bytes += sum(one.size for one in held)

    def oldest(self, limit: int) -> list[BufferedRecord]:
        """The oldest, at most so many, and so many bytes that they do not crowd out the memory."""
        return self._try(lambda: self._oldest(limit))

    def _oldest(self, limit: int) -> list[BufferedRecord]:
        found: list[BufferedRecord] = []
        room = _READ_BYTES
        rows = self._opened().execute(_SELECT, (limit,))
        for _, size, rows_in_it, topic, spread, route, headers, key, value in rows:
            known = BY_NAME.get(topic) or Topic(topic, None, PartitionScheme(spread))
            own = tuple((name, bytes.fromhex(data)) for name, data in orjson.loads(headers))
            found.append(BufferedRecord(Record(known, key, value, own, route), rows_in_it))
            room -= size
            if room <= 0:
                break
        rows.close()
        return found

    def drop(self, count: int) -> None:
        """Let the oldest go. It is not fsynced: what comes back after a crash of the machine is sent twice."""
        if count:
            self._try(lambda: self._drop(count))

    def _drop(self, count: int) -> None:
        file = self._opened()
        file.execute("PRAGMA synchronous = NORMAL")
        file.execute("BEGIN IMMEDIATE")
        last, size = file.execute(
            "SELECT max(id), sum(size) FROM (SELECT id, size FROM held ORDER BY id LIMIT ?)", (count,)
        ).fetchone()
        file.execute("DELETE FROM held WHERE id <= ?", (last,))
        file.execute("COMMIT")
        self.count -= count
        self.size_bytes -= size
        if not self.count:
            with contextlib.suppress(sqlite3.Error):  # to give the disk its room back is a courtesy
                file.execute("VACUUM")
                file.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def set_aside(self) -> Path:
        """Keep a damaged file for whoever wants to look, under another name, and begin a new one."""
        self.close()
        self.count = self.size_bytes = 0
        aside = self._path.with_suffix(".damaged")
        for suffix in ("", "-wal"):
            part = self._path.with_name(self._path.name + suffix)
            if part.exists():
                part.replace(aside.with_name(aside.name + suffix))
        self.open()
        return aside

    def close(self) -> None:
        """Let go of the file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _opened(self) -> sqlite3.Connection:
        assert self._file is not None, "the spool is not open"
        return self._file

    def _try(self, act: Callable[[], Result]) -> Result:
        """Do it wholly or not at all."""
        try:
            return act()
        except sqlite3.Error as error:
            if self._file is not None and self._file.in_transaction:
                self._file.rollback()
            kind = Damaged if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED else OSError
            raise kind(str(error)) from error
        except ValueError as error:  # a row that this version cannot read
            raise Damaged(str(error)) from error


def _row(held: BufferedRecord) -> tuple[object, ...]:
    record = held.record
    headers = orjson.dumps([(name, data.hex()) for name, data in record.headers])
    return (
        held.size, held.rows, record.topic.name, record.topic.scheme.value, record.route, headers, record.key,
        record.value,
    )  # fmt: skip
