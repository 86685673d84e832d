"""Describes the machine in one line, so that figures of different machines are not confused."""

import os
import platform
from pathlib import Path

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
