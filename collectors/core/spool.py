"""Stores records on disk, in order, bounded in bytes; records are durable once `append` has returned.

The spool is one SQLite file. Its write-ahead log has a checksum per frame, so that a torn tail ends at the last
complete commit. A commit of many records is one fsync. A failed read or write raises OSError with its reason and
changes nothing. The calls block: run them in a thread.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import orjson

from streams.wire.errors import Misconfigured
from streams.wire.topics import BY_NAME, PartitionScheme, Record, Topic

_TABLE = """CREATE TABLE IF NOT EXISTS records (
    id INTEGER PRIMARY KEY AUTOINCREMENT, size INTEGER NOT NULL, rows INTEGER NOT NULL, topic TEXT NOT NULL,
    spread TEXT NOT NULL, route TEXT NOT NULL, headers BLOB NOT NULL, key BLOB NOT NULL, value BLOB)"""
_INSERT = "INSERT INTO records (size, rows, topic, spread, route, headers, key, value) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_SELECT = "SELECT id, size, rows, topic, spread, route, headers, key, value FROM records ORDER BY id LIMIT ?"
_LOCK_S = 5.0
"""The time that the previous owner of the file may take to close it."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_READ_BYTES = 8 << 20
_RECORD_OVERHEAD = 200
"""Python's overhead for a Record in a deque, measured with sys.getsizeof on its parts."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class BufferedRecord:
    """One record in the buffer; `rows` is the number of rows of samples in it."""

    record: Record
    rows: int = 0

    @property
    def size(self) -> int:
        """The record's size in memory, in bytes."""
        return len(self.record.value or b"") + len(self.record.key) + _RECORD_OVERHEAD


class Damaged(OSError):
    """Raised if the file's content differs from what was written; `Spool.set_aside` creates a new file."""


class Spool:
    """One spool file, used by one process at a time."""

    def __init__(self, path: Path, limit_bytes: int, lock_s: float = _LOCK_S) -> None:
        self._lock_s = lock_s
        self._path = path
        self._limit = limit_bytes
        self._file: sqlite3.Connection | None = None
        self.size_bytes = 0
        self.count = 0

    def open(self) -> None:
        """Open the file and count its records; raises Misconfigured if that fails, Damaged if it is damaged."""
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
        self.count, self.size_bytes = file.execute("SELECT count(*), coalesce(sum(size), 0) FROM records").fetchone()

    def append(self, records: Sequence[BufferedRecord]) -> int:
        """Write the first records that fit, fsynced, and return how many."""
        fitting, size = 0, self.size_bytes
        for record in records:
            if (size := size + record.size) > self._limit:
                break
            fitting += 1
        if fitting:
            self._try(lambda: self._append(records[:fitting]))
        return fitting

    def _append(self, records: Sequence[BufferedRecord]) -> None:
        file = self._opened()
        file.execute("PRAGMA synchronous = FULL")
        file.execute("BEGIN IMMEDIATE")
        file.executemany(_INSERT, map(_row, records))
        file.execute("COMMIT")
        self.count += len(records)
        self.size_bytes += sum(record.size for record in records)

    def oldest(self, limit: int) -> list[BufferedRecord]:
        """Return the oldest records, at most `limit`, and no more bytes than fit in memory beside new records."""
        return self._try(lambda: self._oldest(limit))

    def _oldest(self, limit: int) -> list[BufferedRecord]:
        found: list[BufferedRecord] = []
        room = _READ_BYTES
        rows = self._opened().execute(_SELECT, (limit,))
        for _, size, samples_rows, topic, spread, route, headers, key, value in rows:
            known = BY_NAME.get(topic) or Topic(topic, None, PartitionScheme(spread))
            decoded = tuple((name, bytes.fromhex(data)) for name, data in orjson.loads(headers))
            found.append(BufferedRecord(Record(known, key, value, decoded, route), samples_rows))
            room -= size
            if room <= 0:
                break
        rows.close()
        return found

    def drop(self, count: int) -> None:
        """Remove the oldest records without fsync: records that reappear after a machine crash are sent twice."""
        if count:
            self._try(lambda: self._drop(count))

    def _drop(self, count: int) -> None:
        file = self._opened()
        file.execute("PRAGMA synchronous = NORMAL")
        file.execute("BEGIN IMMEDIATE")
        last, size = file.execute(
            "SELECT max(id), sum(size) FROM (SELECT id, size FROM records ORDER BY id LIMIT ?)", (count,)
        ).fetchone()
        file.execute("DELETE FROM records WHERE id <= ?", (last,))
        file.execute("COMMIT")
        self.count -= count
        self.size_bytes -= size
        if not self.count:
            with contextlib.suppress(sqlite3.Error):  # returning the disk space is optional
                file.execute("VACUUM")
                file.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def set_aside(self) -> Path:
        """Rename a damaged file, for inspection, and create a new one."""
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
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _opened(self) -> sqlite3.Connection:
        assert self._file is not None, "the spool is not open"
        return self._file

    def _try(self, action: Callable[[], Result]) -> Result:
        """Run an action completely or not at all; raises OSError or Damaged."""
        try:
            return action()
        except sqlite3.Error as error:
            if self._file is not None and self._file.in_transaction:
                self._file.rollback()
            kind = Damaged if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED else OSError
            raise kind(str(error)) from error
        except ValueError as error:  # a row that this version cannot read
            raise Damaged(str(error)) from error


def _row(buffered: BufferedRecord) -> tuple[object, ...]:
    record = buffered.record
    headers = orjson.dumps([(name, data.hex()) for name, data in record.headers])
    return (
        buffered.size, buffered.rows, record.topic.name, record.topic.scheme.value, record.route, headers, record.key,
        record.value,
    )  # fmt: skip
