"""Reads the kernel's trees. I/O only: the root is a parameter, and parsing is done elsewhere.

A missing file is None. A refused read raises Refusal, whose `lasting` is False if a retry may succeed.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

_MOST_BYTES = 4096
"""A sysfs attribute is at most a page."""
_MOST_NAMES = 8192
_ABSENT = {errno.ENOENT, errno.ENODEV, errno.ENOTDIR, errno.ENXIO}
"""Errors of a file that is removed, or being removed: the kernel returns ENODEV while it removes a device."""
_OURS = {errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ETIMEDOUT}


class Refusal(Exception):
    """The kernel refused a read; `lasting` is True unless a temporary shortage caused it."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.lasting = error.errno not in _OURS


class Tree:
    """Reads the files below a directory with `sys` and `proc`, or below a sysfs itself."""

    def __init__(self, root: Path) -> None:
        whole = (root / "sys" / "class").is_dir() or not (root / "class").is_dir()
        self.sys = str(root / "sys") if whole else str(root)
        self.proc = str(root / "proc") if whole else ("/proc" if root == Path("/sys") else "")
        self.is_live = self.sys == "/sys"

    def read_text(self, path: str) -> str | None:
        """Return a file's text, stripped; None if it is missing. Raises Refusal."""
        data = self.read_bytes(path)
        return None if data is None else data.decode("utf-8", "replace").strip()

    def read_proc(self, path: str) -> str:
        """Return a file's text, stripped; empty if it is missing or refused."""
        try:
            return self.read_text(path) or ""
        except Refusal:
            return ""

    def read_kernel_text(self, name: str) -> str:
        """Return the text of a procfs file; empty if it is missing, or if there is no procfs beside this sysfs."""
        return self.read_proc(f"{self.proc}/{name}") if self.proc else ""

    def read_bytes(self, path: str, most: int = _MOST_BYTES) -> bytes | None:
        """Return the first bytes of a file, in one read; None if it is missing. Raises Refusal."""
        try:
            # O_NONBLOCK: do not block on a pipe; sysfs ignores it.
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            _absent(error)
            return None
        except ValueError:  # a NUL in the name: such a file cannot exist
            return None
        try:
            return os.read(file, most)
        except OSError as error:
            _absent(error)
            return None
        finally:
            os.close(file)

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted entries of a directory; none if it cannot be read."""
        return tuple(name for name, _ in self.ctimes(path))

    def ctimes(self, path: str) -> tuple[tuple[str, int], ...]:
        """Return the sorted entries of a directory with their inodes: a recreated device has a new inode in sysfs."""
        return tuple(sorted(_scan(path)))

    def target(self, path: str) -> str:
        """Return the target of a symbolic link, even a dangling one; empty if the path is no link."""
        return os.path.realpath(path) if os.path.islink(path) else ""  # noqa: PTH114 — plain strings at this cadence


def _scan(path: str) -> Iterator[tuple[str, int]]:
    try:
        with os.scandir(path) as entries:
            for entry, _ in zip(entries, range(_MOST_NAMES), strict=False):
                yield entry.name, entry.inode()
    except (OSError, ValueError):
        return


def _absent(error: OSError) -> bool:
    """Return True for a missing file; raises Refusal for other errors."""
    if error.errno in _ABSENT:
        return True
    raise Refusal(error) from error
