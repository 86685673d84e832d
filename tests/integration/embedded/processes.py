"""Provides processes and queries of running processes for the tests of the embedded servers."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def python(code: str, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run Python code in a process of its own, and kill it at the end: a failed test must not wait for it."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def running(marker: str, *, without: str = "") -> list[int]:
    """Return the processes with `marker` (and not `without`) in their command line, zombies left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if marker in command and not (without and without in command):
            found.append(int(entry.name))
    return found


def until(condition: Callable[[], bool], within_s: float) -> bool:
    """Wait for a condition; return whether it was met in time."""
    give_up = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def first_line(process: subprocess.Popen[str]) -> str:
    """Return the first line that a process prints; empty if it ends without one."""
    assert process.stdout is not None
    return process.stdout.readline().strip()
