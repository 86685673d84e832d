"""What processes cost: CPU seconds and memory, as the kernel counts them."""

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_LOOK_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class Usage:
    """One process from its start to its end, all its threads and finished children included."""

    code: int
    cpu_s: float
    wall_s: float
    peak_bytes: int


def wait_for_usage(process: subprocess.Popen[str], within_s: float) -> Usage:
    """Wait for a process that was started just now; one that takes longer is killed, and its code is negative."""
    began = time.monotonic()
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() - began > within_s:
            process.kill()
            within_s = float("inf")
        time.sleep(_LOOK_EVERY_S)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.monotonic() - began
    return Usage(process.returncode, usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss * 1024)


def descendants_cpu_s(ancestor: int, argument: str) -> float:
    """The CPU seconds that running descendants of a process used whose command line has this argument."""
    stats = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rsplit(")", 1)[1].split()
            stats[int(place.name)] = (int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICKS)
        except (OSError, IndexError):
            continue  # it ended meanwhile
    return sum(
        cpu_s for pid, (_, cpu_s) in stats.items() if _is_below(pid, ancestor, stats) and argument in _arguments(pid)
    )


def _is_below(pid: int, ancestor: int, stats: dict[int, tuple[int, float]]) -> bool:
    while pid in stats:
        pid = stats[pid][0]
        if pid == ancestor:
            return True
    return False


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []
