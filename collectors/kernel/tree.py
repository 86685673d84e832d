"""Reads the kernel's trees. I/O only; the root is given, and what is read is parsed elsewhere.

What is not there is None. What the kernel refuses is a Refusal, which says whether asking again makes sense.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

_MOST_BYTES = 4096
"""A sysfs attribute is at most a page."""
_MOST_NAMES = 8192
_ABSENT = {errno.ENOENT, errno.ENODEV, errno.ENOTDIR, errno.ENXIO}
"""Gone, or going: the kernel answers ENODEV while it takes a device away."""
_OURS = {errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ETIMEDOUT}


class Refusal(Exception):
    """The kernel would not let this be read; `lasting` where it is not for a want of the moment."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.lasting = error.errno not in _OURS


class Tree:
    """The files below a folder that holds `sys` and `proc`, or below a sysfs itself."""

    def __init__(self, root: Path) -> None:
        whole = (root / "sys" / "class").is_dir() or not (root / "class").is_dir()
        self.sys = str(root / "sys") if whole else str(root)
        self.proc = str(root / "proc") if whole else ("/proc" if root == Path("/sys") else "")
        self.is_live = self.sys == "/sys"

    def read_text(self, path: str) -> str | None:
        """What a file says, without blanks at its ends; None where there is none. Raises Refusal."""
        data = self.read_bytes(path)
        return None if data is None else data.decode("utf-8", "replace").strip()

    def read_proc(self, path: str) -> str:
        """The same of a file whose refusal is not worth a word: empty where there is nothing, or nothing to be had."""
        try:
            return self.read_text(path) or ""
        except Refusal:
            return ""

    def read_kernel_text(self, name: str) -> str:
        """What a file of procfs says; empty where there is no procfs beside this sysfs, too."""
        return self.read_proc(f"{self.proc}/{name}") if self.proc else ""

    def read_bytes(self, path: str, most: int = _MOST_BYTES) -> bytes | None:
        """The first bytes of a file, in one read; None where there is none. Raises Refusal."""
        try:
            # Not to wait where somebody put a pipe; sysfs does not mind.
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            _absent(error)
            return None
        except ValueError:  # a NUL in the name: no such file can be
            return None
        try:
            return os.read(file, most)
        except OSError as error:
            _absent(error)
            return None
        finally:
            os.close(file)

    def names(self, path: str) -> tuple[str, ...]:
        """What is in a folder, in order; nothing where there is no folder that can be read."""
        return tuple(name for name, _ in self.ctimes(path))

    def ctimes(self, path: str) -> tuple[tuple[str, int], ...]:
        """What is in a folder with its inode: sysfs gives a new one to a device that is made anew."""
        return tuple(sorted(_scan(path)))

    def target(self, path: str) -> str:
        """Where a link leads, also where nothing is there; empty where it is no link."""
        return os.path.realpath(path) if os.path.islink(path) else ""  # noqa: PTH114 — plain strings at this cadence


def _scan(path: str) -> Iterator[tuple[str, int]]:
    try:
        with os.scandir(path) as entries:
            for entry, _ in zip(entries, range(_MOST_NAMES), strict=False):
                yield entry.name, entry.inode()
    except (OSError, ValueError):
        return


def _absent(error: OSError) -> bool:
    """Whether it is not there; raises Refusal where it is."""
    if error.errno in _ABSENT:
        return True
    raise Refusal(error) from error
