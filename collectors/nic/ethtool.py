"""Reads driver statistics (`ethtool -S`) by ioctl, or from recorded files. I/O only.

It uses ioctl because netlink has only the standard groups, without lanes, priorities and PCIe stalls.
"""

import ctypes
import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import structlog

from collectors.kernel.tree import Refusal, Tree
from collectors.kernel.values import ethtool_statistics

_log = structlog.get_logger("railsight.nic")

_SPARE = 4096
"""Space for values that are added between the size query and the read (channels may be added at any time): the kernel
writes all the driver's values, regardless of the requested size."""
_MOST_BYTES = 1 << 20
_NONE = {errno.ENODEV, errno.EOPNOTSUPP, errno.ENXIO}


class Statistics(NamedTuple):
    """The names and values of one reading; `names` is the same object until the names change."""

    names: tuple[str, ...]
    values: "Sequence[int] | ctypes.Array[ctypes.c_uint64]"


class Source(Protocol):
    """The statistics of one netdev. Called by one thread at a time; may block for as long as the driver does."""

    def read(self) -> Statistics | None:
        """Return the statistics; None if there are none. Raises Refusal."""
        ...

    def close(self) -> None:
        """Release the resources."""
        ...


class NoStatistics:
    """The Source of a netdev whose driver must not be queried."""

    def __init__(self, netdev: str) -> None:
        self.netdev = netdev

    def read(self) -> Statistics | None:
        return None

    def close(self) -> None:
        pass


class Recorded:
    """Reads the output of `ethtool -S` from a file."""

    def __init__(self, file: Path) -> None:
        self._tree = Tree(file.parent)
        self._file = str(file)
        self._names: tuple[str, ...] = ()

    def read(self) -> Statistics | None:
        data = self._tree.read_bytes(self._file, _MOST_BYTES)
        if data is None:
            return None
        found = list(ethtool_statistics(data.decode("utf-8", "replace")))
        names = tuple(name for name, _ in found)
        if names != self._names:
            self._names = names
        return Statistics(self._names, [value for _, value in found])

    def close(self) -> None:
        pass


class Kernel:
    """Reads this machine's kernel through pyroute2: names when their number changes, values at every reading."""

    def __init__(self, ioctl: Any, netdev: str) -> None:
        self._ioctl = ioctl
        self._tool: Any = ioctl.IoctlEthtool(netdev)
        self._names: tuple[str, ...] = ()
        self._buffer: Any = None

    def read(self) -> Statistics | None:
        try:
            return self._read()
        except (self._ioctl.NotSupportedError, self._ioctl.NoSuchDevice):
            return None
        except OSError as error:
            if error.errno in _NONE:
                return None
            raise Refusal(error) from error

    def _read(self) -> Statistics | None:
        count = self._tool.get_stringset_length(self._ioctl.ETH_SS_STATS)
        if not count:
            return None
        if count != len(self._names):
            self._names = tuple(self._tool.get_stringset(self._ioctl.ETH_SS_STATS))
            self._buffer = self._ioctl.generate_EthtoolGStats(len(self._names) + _SPARE)()
        self._buffer.cmd = self._ioctl.ETHTOOL_GSTATS
        self._buffer.size = len(self._names)
        self._tool.ifreq.gstats = ctypes.cast(ctypes.byref(self._buffer), ctypes.POINTER(None))
        self._tool.ioctl()
        if self._buffer.size != len(self._names):  # the number changed since: the next reading reads the names again
            self._names = ()
            raise OSError(errno.EAGAIN, "the statistics changed while they were read")
        return Statistics(self._names, self._buffer.data)

    def close(self) -> None:
        self._tool.close()


Ethtool = Callable[[str], Source]
"""Returns the statistics of a netdev by name."""


def ethtool_of(tree: Tree, *, wanted: bool, folder: Path | None) -> Ethtool:
    """Return the source of statistics; none for another machine's tree, and a warning if pyroute2 is missing."""
    if folder is not None:
        return lambda netdev: Recorded(folder / f"{netdev}.statistics")
    if not (wanted and tree.is_live):
        return NoStatistics
    try:
        from pyroute2.ethtool import ioctl  # its import takes about 0.4 s
    except ImportError:
        _log.warning("no ethtool statistics: pyroute2 is not installed (railsight[host] has it)")
        return NoStatistics
    return lambda netdev: Kernel(ioctl, netdev)
