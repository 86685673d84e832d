"""Reads kernel lines from their two sources, a device and a file, and stores the position in each. I/O only."""

import errno
import hashlib
import os
import stat
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import structlog

from collectors.host.lines import MOST_BYTES
from streams.wire.errors import Reject


@dataclass(frozen=True, slots=True)
class Place:
    """The position in a log: boot and number for a device; inode, offset and preceding content for a file.

    It also has the state of the log's clock (see Times).
    """

    boot_id: int = 0
    sequence: int = -1
    inode: int = 0
    offset: int = 0
    mark: str = ""
    zero_ns: int = 0
    lag_ns: int = 0
    last_us: int = 0


def place_of(state: Any) -> Place | None:
    """Parse a position from JSON; None if it is invalid."""
    kinds = {field.name: str if field.name == "mark" else int for field in fields(Place)}
    if not isinstance(state, dict) or set(state) - set(kinds):
        return None
    if any(type(value) is not kinds[name] for name, value in state.items()):
        return None
    return Place(**state)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lines in order, a flag that the log is drained, and the numbers of lost and of refused lines."""

    lines: list[bytes]
    is_drained: bool
    lost: int = 0
    refused: int = 0


_log = structlog.get_logger("railsight.host")


class Device(Protocol):
    """The device interface: one record per call."""

    def record(self) -> bytes:
        """Return the next record; raises OSError as the kernel does: EAGAIN, EPIPE, EINVAL."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class KmsgDevice:
    """The real device; raises OSError if it is not readable."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def record(self) -> bytes:
        return os.read(self._file, MOST_BYTES)

    def close(self) -> None:
        os.close(self._file)


class Kmsg:
    """Follows one device. `place` is the position of an earlier process; records up to it are skipped."""

    def __init__(self, device: Device, boot_id: int, place: Place | None) -> None:
        self._device = device
        self._boot_id = boot_id
        self._sequence = place.sequence if place is not None and boot_id and place.boot_id == boot_id else -1
        self.has_resumed = self._sequence >= 0
        self._has_warned = False
        self._nameless = 0
        """Records since the last known number that could not be read: they are refused, not lost."""

    def read(self, most: int) -> Chunk:
        """Return at most `most` new lines; never blocks, never raises for any content."""
        lines: list[bytes] = []
        lost = refused = 0
        for _ in range(most):
            try:
                data = self._device.record()
            except OSError as error:
                if error.errno == errno.EPIPE:  # overwritten: the next read returns the oldest remaining record
                    continue
                if error.errno == errno.EINVAL:  # longer than any valid record: the kernel has skipped it
                    refused += 1
                    self._nameless += 1
                    continue
                if error.errno not in {errno.EAGAIN, errno.EINTR}:
                    self._warn(error)
                return Chunk(lines, True, lost, refused)
            if not data:
                return Chunk(lines, True, lost, refused)
            sequence = _sequence(data)
            if sequence is None:
                refused += 1
                self._nameless += 1
                continue
            if sequence <= self._sequence:
                continue
            if self._sequence >= 0:
                lost += max(0, sequence - self._sequence - 1 - self._nameless)
            self._sequence, self._nameless = sequence, 0
            lines.append(data)
        return Chunk(lines, False, lost, refused)

    def _warn(self, error: OSError) -> None:
        """Log the warning once."""
        if not self._has_warned:
            self._has_warned = True
            _log.warning("the kernel log is not read", why=error.strerror)

    def place(self) -> Place:
        """Return the position after the last line that `read` returned."""
        return Place(boot_id=self._boot_id, sequence=self._sequence)

    def close(self) -> None:
        """Close it."""
        self._device.close()


def _sequence(data: bytes) -> int | None:
    _, _, rest = data.partition(b",")
    number, comma, _ = rest.partition(b",")
    return int(number) if comma and number.isdigit() and len(number) <= 19 else None


def kmsg_of(path: Path, boot_id: int, place: Place | None) -> Kmsg:
    """Open a device; raises Reject if it is not readable."""
    try:
        return Kmsg(KmsgDevice(path), boot_id, place)
    except OSError as error:
        raise Reject(f"{path}: {error.strerror}") from error


_BLOCK = 1 << 16
_MARK_BYTES = 64


class LogFile:
    """Follows the file at one path, from its end if there is no position."""

    def __init__(self, path: Path, place: Place | None) -> None:
        self._path = path
        self._file = -1
        self._inode = 0
        self._offset = 0
        """The offset after the last returned line."""
        self._mark = ""
        self._pending = b""
        self._skips = False
        """True inside a line beyond the maximum size."""
        self.has_resumed = False
        if place is not None and place.inode:
            self.has_resumed = self._resume(path, place) or self._resume(path.with_name(path.name + ".1"), place)
            if not self.has_resumed:
                self._open()  # a different file: all of it is new
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
        """Return at most `most` new lines; never blocks, never raises for any content."""
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
        except OSError:  # the file system was removed
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
        """Return True if, at the end of the file, the path is a different file now, or was truncated."""
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
        """Return the position after the last line that `read` returned."""
        return Place(inode=self._inode, offset=self._offset, mark=self._mark)

    def close(self) -> None:
        """Close it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _mark(before: bytes) -> str:
    return hashlib.blake2b(before, digest_size=8).hexdigest()


LogSource = Kmsg | LogFile
"""Either source; one task reads it repeatedly. `has_resumed` is True after a start at an earlier process's position."""
