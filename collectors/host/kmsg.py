"""Reads `/dev/kmsg`, one record per call, without blocking. I/O only.

The kernel has a ring buffer: a late reader finds the oldest records overwritten; the sequence numbers show how many.
"""

import errno
import os
from pathlib import Path
from typing import Protocol

import structlog

from collectors.host.lines import MOST_BYTES
from collectors.host.logs import Chunk, LogSource, Place
from streams.wire.errors import Reject

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


class Kmsg(LogSource):
    """Follows one device. `place` is the position of an earlier process; records up to it are skipped."""

    def __init__(self, device: Device, boot_id: int, place: Place | None) -> None:
        self._device = device
        self._boot_id = boot_id
        self._sequence = place.sequence if place is not None and boot_id and place.boot_id == boot_id else -1
        self.has_resumed = self._sequence >= 0
        self._has_warned = False
        self._nameless = 0
        """Records since the last known number that could not be read: refused, not lost."""

    def read(self, most: int) -> Chunk:
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
        return Place(boot_id=self._boot_id, sequence=self._sequence)

    def close(self) -> None:
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
