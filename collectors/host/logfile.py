"""Follows a file of kernel lines through rotation and truncation. I/O only.

Only complete lines are read; data after the last newline waits for the rest, up to a limit.
"""

import hashlib
import os
import stat
from pathlib import Path

from collectors.host.lines import MOST_BYTES
from collectors.host.logs import Chunk, LogSource, Place

_BLOCK = 1 << 16
_MARK_BYTES = 64


class LogFile(LogSource):
    """Follows one path. Without a position it starts at the end of the file."""

    def __init__(self, path: Path, place: Place | None) -> None:
        self._path = path
        self._file = -1
        self._inode = 0
        self._offset = 0
        """Offset after the last returned line."""
        self._mark = ""
        self._pending = b""
        self._skips = False
        """True inside a line beyond the maximum size."""
        self.has_resumed = False
        if place is not None and place.inode:
            self.has_resumed = self._resume(path, place) or self._resume(path.with_name(path.name + ".1"), place)
            if not self.has_resumed:
                self._open()  # another file now: all of it is new
        elif self._open():
            self._seek(os.fstat(self._file).st_size)

    def _resume(self, path: Path, place: Place) -> bool:
        if not self._open(path):
            return False
        if self._inode == place.inode and os.fstat(self._file).st_size >= place.offset:
            self._seek(place.offset)
            if self._mark == place.mark:
                return True
        self.close()
        return False

    def _open(self, path: Path | None = None) -> bool:
        try:
            self._file = os.open(path or self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            self._file = -1
            return False
        there = os.fstat(self._file)
        if not stat.S_ISREG(there.st_mode):
            self.close()
            return False
        self._inode = there.st_ino
        self._offset, self._mark, self._pending, self._skips = 0, "", b"", False
        return True

    def _seek(self, offset: int) -> None:
        before = os.pread(self._file, min(_MARK_BYTES, offset), max(0, offset - _MARK_BYTES))
        self._offset, self._mark = offset, _mark(before)

    def read(self, most: int) -> Chunk:
        if self._file < 0 and not self._open():
            return Chunk([], True)
        lines: list[bytes] = []
        refused = 0
        try:
            while len(lines) < most:
                data = os.pread(self._file, _BLOCK, self._offset + len(self._pending))
                if not data:
                    drained = not self._is_rotated()
                    return Chunk(lines, drained, 0, refused)
                refused += self._take(self._pending + data, lines, most)
        except OSError:  # the file system is gone
            self.close()
            return Chunk(lines, True, 0, refused)
        return Chunk(lines, False, 0, refused)

    def _take(self, data: bytes, lines: list[bytes], most: int) -> int:
        """Split complete lines; return the number of oversized ones."""
        refused = start = 0
        while len(lines) < most and (end := data.find(b"\n", start)) >= 0:
            if self._skips:
                self._skips = False
            elif end - start > MOST_BYTES:
                refused += 1
            elif end > start:
                lines.append(data[start:end])
            start = end + 1
        self._pending = data[start:]
        taken = data[:start]
        if len(self._pending) > MOST_BYTES and b"\n" not in self._pending:
            refused += not self._skips
            self._skips = True
            taken, self._pending = data, b""
        if taken:
            self._offset += len(taken)
            self._mark = _mark(self._tail(taken))
        self._pending = self._pending if b"\n" not in self._pending else b""
        return refused

    def _tail(self, taken: bytes) -> bytes:
        if len(taken) >= _MARK_BYTES:
            return taken[-_MARK_BYTES:]
        return os.pread(self._file, min(_MARK_BYTES, self._offset), max(0, self._offset - _MARK_BYTES))

    def _is_rotated(self) -> bool:
        """Check, at the end of the file, whether the path is another file now, or was truncated."""
        try:
            there = self._path.stat()
        except (OSError, ValueError):
            return False
        if there.st_ino != self._inode:
            os.close(self._file)
            return self._open()
        if there.st_size < self._offset:
            self._offset, self._mark, self._pending, self._skips = 0, "", b"", False
            return True
        return False

    def place(self) -> Place:
        return Place(inode=self._inode, offset=self._offset, mark=self._mark)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _mark(before: bytes) -> str:
    return hashlib.blake2b(before, digest_size=8).hexdigest()
