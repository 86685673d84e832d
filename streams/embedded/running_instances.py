"""Records the pipelines that run on this machine, so that the commands of the same user find them without options.

A record contains addresses and the names of password files, but no password. It is valid only while the process that
wrote it runs: the record of a killed process is ignored and removed.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

from streams.embedded.directories import data_directory, write_private

_START_FIELD = 19
"""Index of the start time among the fields of /proc/PID/stat after the process name (proc(5), field 22)."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One running pipeline: `up` or `demo`."""

    command: str
    config: str
    bootstrap: str
    run_dir: str
    """The folder of the parts' logs."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Settings that its configuration lacks, as environment variables: addresses and files of logins."""
    folder: str = ""
    """Its working folder, to which relative paths of its configuration refer."""
    pid: int = 0
    started: str = ""
    """The start time of the process, which distinguishes it from a later process with the same pid."""


def running_s(instance: Instance) -> float:
    """Return for how long an instance has run, in seconds, by the file that it wrote at its start."""
    try:
        return max(0.0, time.time() - (_folder() / f"{instance.pid}.json").stat().st_mtime)
    except OSError:
        return 0.0  # it has just ended


@contextmanager
def registered(instance: Instance) -> Iterator[None]:
    """Record this process as an instance for the block."""
    pid = os.getpid()
    path = _folder() / f"{pid}.json"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(
        path,
        orjson.dumps(asdict(instance) | {"pid": pid, "started": _start_of(pid), "folder": str(Path.cwd())}).decode(),
    )
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def running_instances() -> list[Instance]:
    """Return the running instances, the newest first; remove the records of ended processes."""
    found: list[Instance] = []
    for path in _folder().glob("*.json"):
        instance = _read(path)
        if instance is not None and instance.started and _start_of(instance.pid) == instance.started:
            found.append(instance)
        else:
            path.unlink(missing_ok=True)
    return sorted(found, key=lambda one: -int(one.started))


def _read(path: Path) -> Instance | None:
    try:
        return Instance(**orjson.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _start_of(pid: int) -> str:
    """Return the start time of a process in clock ticks since boot; empty if it does not run."""
    try:
        fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[_START_FIELD]


def _folder() -> Path:
    return data_directory() / "running"
