"""Measures CPU seconds and memory of each part with all its child processes, from /proc, and profiles one with py-spy.

An ended process keeps its last sample, so that a part that is killed and restarted loses at most the time between two
samples. py-spy is no dependency; it is taken from PATH.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from streams.wire.errors import Misconfigured

_TICKS_S = os.sysconf("SC_CLK_TCK")
_PPID, _UTIME, _STIME, _STARTED = 1, 11, 12, 19
"""Fields of /proc/PID/stat after the name, counted from the state."""


@dataclass(slots=True)
class ProcessUsage:
    """The last sample of one process."""

    part: str
    cpu_s: float = 0.0
    rss: int = 0
    peak: int = 0
    alive: bool = True


@dataclass(slots=True)
class ProcessCosts:
    """All processes of the sampled parts; memory in bytes."""

    proc: Path = Path("/proc")
    processes: dict[tuple[int, int], ProcessUsage] = field(default_factory=dict)
    """The processes by number and start time, because numbers are reused."""
    peak: dict[str, int] = field(default_factory=dict)
    """The sum of the peaks of a part's processes."""

    def sample(self, roots: Mapping[str, int | None]) -> None:
        """Sample the process of each part and all its descendants."""
        stats = process_stats(self.proc)
        children: dict[int, list[int]] = {}
        for pid, stat in stats.items():
            children.setdefault(int(stat[_PPID]), []).append(pid)
        for used in self.processes.values():
            used.alive, used.rss = False, 0
        for part, root in roots.items():
            waiting = [root] if root in stats else []
            while waiting:
                pid = waiting.pop()
                assert pid is not None
                waiting += children.get(pid, [])
                stat = stats[pid]
                used = self.processes.setdefault((pid, int(stat[_STARTED])), ProcessUsage(part))
                used.cpu_s = (int(stat[_UTIME]) + int(stat[_STIME])) / _TICKS_S
                used.alive = True
                used.rss, used.peak = self._memory(pid, used.peak)
        for part in roots:
            together = sum(used.peak for used in self.processes.values() if used.alive and used.part == part)
            self.peak[part] = max(self.peak.get(part, 0), together)

    def cpu_s(self) -> dict[str, float]:
        """Return the CPU seconds of each part, user and system, of all its processes so far."""
        return self._sum(lambda used: used.cpu_s)

    def rss(self) -> dict[str, int]:
        """Return the memory that each part uses now."""
        return {part: int(size) for part, size in self._sum(lambda used: used.rss).items()}

    def _sum(self, of: Callable[[ProcessUsage], float]) -> dict[str, float]:
        totals: dict[str, float] = {}
        for used in self.processes.values():
            totals[used.part] = totals.get(used.part, 0) + of(used)
        return totals

    def _memory(self, pid: int, known_peak: int) -> tuple[int, int]:
        try:
            lines = (self.proc / str(pid) / "status").read_text().splitlines()
        except OSError:
            return 0, known_peak
        fields = dict(line.split(":", 1) for line in lines if line.startswith(("VmHWM", "VmRSS")))
        sizes = {name: int(value.split()[0]) * 1024 for name, value in fields.items()}
        return sizes.get("VmRSS", 0), max(known_peak, sizes.get("VmHWM", 0))


def process_stats(proc: Path) -> dict[int, list[str]]:
    """Return the fields of /proc/PID/stat after the name, of every process."""
    stats = {}
    for entry in proc.iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "stat").read_text()
            except OSError:
                continue  # the process has ended
            # The name is in brackets and may contain any character, also brackets.
            stats[int(entry.name)] = line[line.rindex(")") + 2 :].split()
    return stats


def machine_and_own_cpu_s(proc: Path = Path("/proc")) -> tuple[float, float]:
    """Return the CPU seconds so far of the whole machine, and those of this process with all its descendants."""
    user, nice, system, _idle, _wait, irq, softirq, *_ = map(
        int, (proc / "stat").read_text().split("\n")[0].split()[1:]
    )
    stats = process_stats(proc)
    children: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        children.setdefault(int(stat[_PPID]), []).append(pid)
    waiting, own = [os.getpid()], 0
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        own += sum(map(int, stats[pid][_UTIME : _STIME + 3]))  # with the children that it has waited for
    return (user + nice + system + irq + softirq) / _TICKS_S, own / _TICKS_S


_GIB = 1 << 20


def machine_info(proc: Path = Path("/proc")) -> str:
    """Return the usable cores, their model, memory, kernel and Python, as far as the system reports them."""
    cores = len(os.sched_getaffinity(0))
    model = _value(proc / "cpuinfo", "model name") or platform.machine()
    total_kib = _value(proc / "meminfo", "MemTotal").removesuffix(" kB")
    memory = f"{int(total_kib) / _GIB:.1f} GiB" if total_kib.isdigit() else "memory unknown"
    return f"{cores} cores of {model}, {memory}, Linux {platform.release()}, Python {platform.python_version()}"


def _value(path: Path, name: str) -> str:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "")


RATE_HZ = 100


@dataclass(frozen=True, slots=True)
class Profile:
    """The part to profile, and the output file (speedscope's format)."""

    part: str
    out: Path


def parse_profile(given: str, parts: Iterable[str]) -> Profile:
    """Parse `PART=FILE`; raise Misconfigured for an unknown part, or without py-spy."""
    part, _, out = given.partition("=")
    names = list(parts)
    if part not in names or not out:
        raise Misconfigured(f"--profile {given}: expected PART=FILE with PART one of {', '.join(names)}")
    if shutil.which("py-spy") is None:
        raise Misconfigured("--profile needs py-spy on PATH: pip install py-spy")
    return Profile(part, Path(out).resolve())


def start_profiler(profile: Profile, pid: int, seconds: float) -> "subprocess.Popen[bytes]":
    """Start py-spy, which ends after this many seconds."""
    command = [
        "py-spy", "record", "--gil", "--rate", str(RATE_HZ), "--duration", str(round(seconds)), "--format",
        "speedscope", "--output", str(profile.out), "--pid", str(pid),
    ]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
