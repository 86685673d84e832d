"""Reads the kernel's trees below a root that is given. I/O only; what is not there, or may not be read, is None."""

import os
from pathlib import Path

_MOST_BYTES = 4096
"""A sysfs attribute is at most a page."""
_MOST_NAMES = 8192


class Tree:
    """The files below a folder that holds `sys` and `proc`, or below a sysfs itself."""

    def __init__(self, root: Path) -> None:
        whole = (root / "sys" / "class").is_dir() or not (root / "class").is_dir()
        self.sys = str(root / "sys") if whole else str(root)
        self.proc = str(root / "proc") if whole else ("/proc" if root == Path("/sys") else "")
        self.is_live = self.sys == "/sys"

    def text(self, path: str) -> str | None:
        """What a file says, without blanks at its ends."""
        data = self.data(path, _MOST_BYTES)
        return None if data is None else data.decode("utf-8", "replace").strip()

    def data(self, path: str, most: int) -> bytes | None:
        """The first bytes of a file, in one read."""
        try:
            # Not to wait where somebody put a pipe; sysfs does not mind.
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        try:
            return os.read(file, most)
        except OSError:
            return None
        finally:
            os.close(file)

    def names(self, path: str) -> tuple[str, ...]:
        """What is in a folder, in order; nothing where there is no folder that can be read."""
        try:
            with os.scandir(path) as entries:
                return tuple(sorted(entry.name for entry, _ in zip(entries, range(_MOST_NAMES), strict=False)))
        except (OSError, ValueError):
            return ()

    def target(self, path: str) -> str:
        """Where a link leads, also where nothing is there; empty where it is no link."""
        return os.path.realpath(path) if os.path.islink(path) else ""  # noqa: PTH114 — plain strings
