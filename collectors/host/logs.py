"""Defines the interface of a kernel log, implemented by device and file, and the position in one."""

from dataclasses import dataclass, fields
from typing import Any, Protocol


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
    """Lines in order; whether the log is drained; the numbers of lost and of refused lines."""

    lines: list[bytes]
    is_drained: bool
    lost: int = 0
    refused: int = 0


class LogSource(Protocol):
    """Read repeatedly by one task; never blocks, never raises for any content of the log."""

    has_resumed: bool
    """Return whether it continues at the position of an earlier process."""

    def read(self, most: int) -> Chunk:
        """Return the next lines, up to this number."""
        ...

    def place(self) -> Place:
        """Return the position after the last line that `read` returned."""
        ...

    def close(self) -> None:
        """Close it."""
        ...
