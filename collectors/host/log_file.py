"""Follows a file of kernel lines through rotation by renaming (`create`, `dateext`) and by `copytruncate`. I/O only.

A rotated file is read to its end before the next one. The old file counts as complete once the new one has content,
because a writer continues with the old file until it is signalled. Where the unread rest of a file was removed,
compressed or overwritten, the gap is counted.
"""

import hashlib
import os
import re
import stat
from pathlib import Path

from collectors.host.lines import MOST_BYTES
from collectors.host.log_sources import Chunk, Place

_BLOCK = 1 << 16
_MARK_BYTES = 64
_ROTATED = re.compile(r"[.-](\d[\d._-]{0,40})", re.ASCII)
"""The suffix of logrotate: `.1`, `-20261128`, `-20261128.1`; a compressed file is not read."""
_MOST_FILES = 64


class LogFile:
    """Follows the file at one path, from its end if there is no position.

    `problem` is the reason why the path is not read now, empty while it is. `has_resumed` is True after a start at the
    position of an earlier process.
    """

    def __init__(self, path: Path, place: Place | None) -> None:
        self._path = path
        self._file = -1
        self._inode = 0
        self._offset = 0
        """The offset after the last returned line."""
        self._mark = ""
        self._before = 0
        """The inode of the file that was read before this one, or of the newest rotated one; 0 without one."""
        self._pending = b""
        self._skips = False
        """True inside a line beyond the maximum size."""
        self._gaps = 0
        self.problem = ""
        self.has_resumed = False
        is_first_start = place is None or place.sequence >= 0
        self._begins_at_end = is_first_start and os.path.lexists(path)
        """True if the file is older than the first start, so that the age of its content is unknown."""
        self._waiting: Place | None = None
        """The position at which to continue once the file may be read."""
        if place is not None and place.inode and not is_first_start:
            self.has_resumed = self._resume(place)
        else:
            self._open(path)

    def _resume(self, place: Place) -> bool:
        """Continue at a position, in the file that now has its content; else read the whole file at the path."""
        self._waiting, files = None, [self._path, *reversed(_rotated(self._path))]
        for path in sorted(files, key=lambda path: _inode(path) != place.inode):
            if not self._open(path):
                continue
            if not place.offset and self._inode == place.inode:
                if path == self._path and place.mark.isdecimal():
                    self._open(self._after(int(place.mark)))  # the file may have been copied and truncated since
                return True
            if place.offset and self._is_at(place.offset, place.mark):
                self._offset, self._mark = place.offset, place.mark
                return True
        if not self._open(self._path) and os.path.lexists(self._path):
            self._waiting = place
        else:
            self._gaps += 1
        return False

    def _open(self, path: Path) -> bool:
        """Open a file at its beginning, or at its end at a first start."""
        self.close()
        try:
            # The kind is read first: to open and close a pipe is an error of its writer.
            if not stat.S_ISREG(path.stat().st_mode):
                self.problem = f"{path}: not a regular file"
                return False
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            self.problem = f"{path}: {getattr(error, 'strerror', None) or error}"
            return False
        there = os.fstat(file)
        self._file, self._inode, self.problem = file, there.st_ino, ""
        self._restart()
        if path == self._path:
            self._before = next((_inode(one) for one in reversed(_rotated(path))), 0)
        if self._begins_at_end:
            self._offset, self._mark = there.st_size, self._mark_at(there.st_size)
            self._begins_at_end = False
        return True

    def _restart(self) -> None:
        """Set the position to the beginning; a line without its end is a gap."""
        self._gaps += bool(self._pending)
        self._offset, self._mark, self._pending, self._skips = 0, "", b"", False

    def read(self, most: int) -> Chunk:
        """Return at most `most` new lines; never blocks, never raises for any content."""
        lines: list[bytes] = []
        refused, drained = 0, True
        try:
            if self._file >= 0 and self._is_overwritten():
                self._continue_in_copy()
            if self._waiting is not None:
                self._resume(self._waiting)
            if self._file >= 0 or (self._waiting is None and self._open(self._path)):
                drained = False
                while len(lines) < most and not drained:
                    if data := os.pread(self._file, _BLOCK, self._offset + len(self._pending)):
                        refused += self._take(self._pending + data, lines, most)
                    else:
                        drained = not self._advance()
        except OSError as error:  # the file system was removed
            self.close()
            self.problem, drained = f"{self._path}: {error.strerror}", True
        gaps, self._gaps = self._gaps, 0
        return Chunk(lines, drained, 0, refused, gaps)

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
            self._mark = _mark(taken[-_MARK_BYTES:]) if len(taken) >= _MARK_BYTES else self._mark_at(self._offset)
        self._pending = self._pending if b"\n" not in self._pending else b""
        return refused

    def _advance(self) -> bool:
        """Return True if, at the end of the file, there is more to read: in it, or in the next one."""
        try:
            there = self._path.stat()
        except (OSError, ValueError):
            return False  # the writer creates it with its next line
        if there.st_ino == self._inode:
            return False
        fresh, own = self._after(self._inode), self._inode
        if fresh == self._path and (not there.st_size or not stat.S_ISREG(there.st_mode)):
            return False
        if os.pread(self._file, 1, self._offset + len(self._pending)):
            return True
        if not self._open(fresh):
            self._gaps += 1
            self._open(self._path)
        self._before = own
        return self._file >= 0

    def _after(self, inode: int) -> Path:
        """Return the rotated file after one, or the first after 0; the file at the path if there is none."""
        rotated = _rotated(self._path)
        inodes = [0, *map(_inode, rotated)]
        place = inodes.index(inode) if inode in inodes else len(rotated)
        return [*rotated, self._path][place]

    def _is_overwritten(self) -> bool:
        """Return True if the file was truncated, also if it has grown beyond the position since."""
        size = os.fstat(self._file).st_size
        if self._pending and os.pread(self._file, len(self._pending), self._offset) != self._pending:
            return True
        return size < self._offset or (size > self._offset and not self._is_at(self._offset, self._mark))

    def _continue_in_copy(self) -> None:
        """After a truncation, read on in the copy that `copytruncate` made, then the file from its beginning."""
        offset, mark, self._pending = self._offset, self._mark, b""
        copies = reversed(_rotated(self._path)) if offset else [self._after(self._before)]
        for path in copies:
            if path != self._path and self._open(path) and self._is_at(offset, mark):
                self._offset, self._mark = offset, mark
                return
        self._gaps += 1
        self._open(self._path)

    def _is_at(self, offset: int, mark: str) -> bool:
        return os.fstat(self._file).st_size >= offset and (not offset or self._mark_at(offset) == mark)

    def _mark_at(self, offset: int) -> str:
        return _mark(os.pread(self._file, min(_MARK_BYTES, offset), max(0, offset - _MARK_BYTES)))

    def place(self) -> Place:
        """Return the position after the last line that `read` returned."""
        if self._waiting is not None:
            return self._waiting
        mark = self._mark if self._offset else str(self._before)
        return Place(inode=self._inode, offset=self._offset, mark=mark)

    def close(self) -> None:
        """Close it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _rotated(path: Path) -> list[Path]:
    """Return the rotated files of a log, the oldest first: by their last change, and `.2` before `.1`."""
    found: list[tuple[int, int, str, Path]] = []
    try:
        with os.scandir(path.parent) as entries:
            for entry in entries:
                if suffix := _suffix(path, entry.name):
                    number = -int(suffix) if suffix.isdecimal() and len(suffix) < 4 else 0
                    found.append((entry.stat().st_mtime_ns, number, entry.name, path.with_name(entry.name)))
    except (OSError, ValueError):
        return []
    return [each[-1] for each in sorted(found)][-_MOST_FILES:]


def _suffix(path: Path, name: str) -> str:
    """Return the number or date of a rotated file: `kern.log-20261128`, and `kern-20261128.log` by `extension`."""
    if name.startswith(path.name) and (result := _ROTATED.fullmatch(name, len(path.name))):
        return result[1]
    if path.suffix and name.startswith(path.stem) and name.endswith(path.suffix):
        result = _ROTATED.fullmatch(name, len(path.stem), len(name) - len(path.suffix))
        return result[1] if result else ""
    return ""


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except (OSError, ValueError):
        return 0


def _mark(before: bytes) -> str:
    return hashlib.blake2b(before, digest_size=8).hexdigest()
