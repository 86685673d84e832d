"""Reads kernel lines from the kernel's ring, and defines the position in a log. I/O only; log_file.py reads files."""

import errno
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

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
    """Lines in order, a flag that the log is drained, and the numbers of lost and of refused lines.

    `gaps` counts the ends of files that could not be read; the number of lines in them is unknown.
    """

    lines: list[bytes]
    is_drained: bool
    lost: int = 0
    refused: int = 0
    gaps: int = 0


class Device(Protocol):
    """The device interface: one record per call."""

    def record(self) -> bytes:
        """Return the next record; raises OSError as the kernel does: EAGAIN, EPIPE, EINVAL."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


_KMSG = os.makedev(1, 11)
"""The number of the kernel's log (admin-guide/devices.txt); containers have other devices at its path."""


class KmsgDevice:
    """The real device; raises OSError if it is not readable."""

    def __init__(self, path: Path) -> None:
        # The number is read first: to open a device may have an effect.
        if path.stat().st_rdev != _KMSG:
            raise OSError(errno.ENODEV, "is another device than the kernel's log")
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
        self._has_all = place is not None and place.boot_id != boot_id
        """True if the first record of this boot is expected, because the position is of another boot."""
        self.problem = ""
        """The reason why the device is not read now; empty while it is."""
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
                self.problem = "" if error.errno in {errno.EAGAIN, errno.EINTR} else f"read: {error.strerror}"
                return Chunk(lines, True, lost, refused)
            if not data:
                self.problem = "read: it has no records"
                return Chunk(lines, True, lost, refused)
            self.problem = ""
            sequence = _sequence(data)
            if sequence is None:
                refused += 1
                self._nameless += 1
                continue
            if sequence <= self._sequence:
                continue
            if self._sequence >= 0 or self._has_all:
                lost += max(0, sequence - self._sequence - 1 - self._nameless)
            self._sequence, self._nameless = sequence, 0
            lines.append(data)
        return Chunk(lines, False, lost, refused)

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
