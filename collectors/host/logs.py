"""What a kernel log is read from: a promise that the device and the file both keep, and a place in one."""

from dataclasses import dataclass, fields
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Place:
    """How far a log has been read: of a device its boot and number, of a file its inode, offset and what is before.

    Beside it how the log's clock stood (see Times).
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
    """One that was written as JSON; None where it makes no sense."""
    kinds = {field.name: str if field.name == "mark" else int for field in fields(Place)}
    if not isinstance(state, dict) or set(state) - set(kinds):
        return None
    if any(type(value) is not kinds[name] for name, value in state.items()):
        return None
    return Place(**state)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lines in order; whether there are no more for now; how many were gone before they were read, or are none."""

    lines: list[bytes]
    is_drained: bool
    lost: int = 0
    refused: int = 0


class LogSource(Protocol):
    """Read by one, again and again; never blocks, never raises for what the log holds."""

    has_resumed: bool
    """Whether it goes on where an earlier process stopped."""

    def read(self, most: int) -> Chunk:
        """The next lines, at most so many."""
        ...

    def place(self) -> Place:
        """Behind the last line that `read` gave."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...
