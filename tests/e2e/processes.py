"""Processes of a test: the command line as a user starts it, and what of it is left."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[2]
MARK = "RAILSIGHT_TEST_RUN"
T = TypeVar("T")


def railsight(*arguments: str) -> list[str]:
    """The command as `make demo` runs it, with this interpreter."""
    return [sys.executable, "-m", "streams.cli.main", *arguments]


def once(*arguments: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a subcommand to its end."""
    return subprocess.run(railsight(*arguments), capture_output=True, text=True, timeout=timeout_s, check=False)


def until(found: Callable[[], T | None], within_s: float, what: str) -> T:
    """Wait for something to be there; fail the test with its name where it is not in time."""
    give_up = time.monotonic() + within_s
    while (here := found()) is None:
        assert time.monotonic() < give_up, f"{what} did not come within {within_s:g} s"
        time.sleep(0.05)
    return here


def peer(program: str) -> bool:
    """Return whether an external program is installed; fail where it is required, which is CI."""
    if shutil.which(program) is not None:
        return True
    assert os.environ.get("CI") != "true", f"{program} is not installed: make peers"
    return False


class Marked:
    """A started command whose processes, all the way down, carry a mark in their environment."""

    def __init__(self, command: list[str], log: Path, **options: Any) -> None:
        self.mark = uuid.uuid4().hex
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                command, stderr=out, env={**os.environ, MARK: self.mark}, cwd=ROOT, **options
            )

    def left(self) -> list[str]:
        """The command lines of its processes that still run."""
        return [line for _, line in self.running()]

    def running(self) -> Iterator[tuple[int, str]]:
        """Its processes: number and command line; one that ends while it is looked at is none."""
        wanted = f"{MARK}={self.mark}".encode()
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    if wanted in (folder / "environ").read_bytes().split(b"\0"):
                        line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                        if line:
                            yield int(folder.name), line
                except OSError:
                    continue

    def end(self) -> None:
        """End whatever is left of it, for a test that failed half-way."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pid, _ in self.running():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def parts(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the supervisor's state of its parts, by name."""
    try:
        return {row["name"]: row for row in json.loads((folder / "parts.json").read_text())}
    except FileNotFoundError:
        return {}


def pid_of(folder: Path, name: str, not_this: int | None = None) -> int | None:
    """The process number of a part that runs, None while it does not, or is still the one before."""
    pid = parts(folder).get(name, {}).get("pid")
    return None if pid is None or pid == not_this else int(pid)


def log_contains(log: Path, text: str) -> bool | None:
    """Return True if the log contains the text, None if it does not yet."""
    return True if log.exists() and text in log.read_text() else None


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and theirs."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *descendants(child)]
    return found


def command_line(pid: int) -> str:
    """Return the command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def listening(pids: Iterable[int]) -> dict[int, str]:
    """Return the address of each TCP port on which these processes listen, as Linux has it in /proc/net."""
    inodes = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                inodes.add(descriptor.readlink().name.removeprefix("socket:[").removesuffix("]"))
    found = {}
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and rest[5] in inodes:
                address, port = local.split(":")
                found[int(port, 16)] = address
    return found
