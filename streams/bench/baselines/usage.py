"""CPU seconds and memory of processes, as the kernel counts them."""

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Usage:
    """One process from its start to its end, with all its threads and finished children."""

    code: int
    cpu_s: float
    wall_s: float
    peak_bytes: int


def wait_for_usage(process: subprocess.Popen[str], timeout_s: float) -> Usage:
    """Wait for a process that has just been started; kill it at the timeout, with a negative code."""
    began = time.monotonic()
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() - began > timeout_s:
            process.kill()
            timeout_s = float("inf")
        time.sleep(_POLL_S)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.monotonic() - began
    return Usage(process.returncode, usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss * 1024)


def descendants_cpu_s(ancestor: int, argument: str) -> float:
    """Return the CPU seconds of a process's running descendants with this argument on their command line."""
    stats = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            stats[int(entry.name)] = (int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICKS)
        except (OSError, IndexError):
            continue  # it has ended
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
