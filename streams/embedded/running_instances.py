"""Records the pipelines and brokers that run on this machine, so that the commands of the same user find them.

A record contains addresses and the names of password files or folders, but no password. That of a pipeline is valid
only while the process that wrote it runs: the record of a killed process is ignored and removed. That of a killed
broker stays; a login by SCRAM does not reveal the password to another server on that port.
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
    """Empty while it starts its servers."""
    run_dir: str
    """The folder of the parts' logs."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Settings that its configuration lacks, as environment variables: addresses and files of logins."""
    folder: str = ""
    """Its working folder, to which relative paths of its configuration refer."""
    step: str = ""
    """The step of its start, as "starts its servers"; empty when all its parts run."""
    pid: int = 0
    started: str = ""
    """The start time of the process, which distinguishes it from a later process with the same pid."""


def running_s(instance: Instance) -> float:
    """Return for how long an instance has been in its present step, in seconds, by the file that it wrote."""
    try:
        return max(0.0, time.time() - (_folder() / f"{instance.pid}.json").stat().st_mtime)
    except OSError:
        return 0.0  # it has just ended


@contextmanager
def registered(instance: Instance) -> Iterator[None]:
    """Record this process as an instance for the block."""
    record(instance)
    try:
        yield
    finally:
        (_folder() / f"{os.getpid()}.json").unlink(missing_ok=True)


def record(instance: Instance) -> None:
    """Replace the record of this process."""
    pid = os.getpid()
    path = _folder() / f"{pid}.json"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    own = asdict(instance) | {"pid": pid, "started": start_of(pid), "folder": str(Path.cwd())}
    write_private(path, orjson.dumps(own).decode())


def running_instances() -> list[Instance]:
    """Return the running instances, the newest first; remove the records of ended processes."""
    found: list[Instance] = []
    for path in _folder().glob("*.json"):
        instance = _read(path)
        if instance is not None and instance.started and start_of(instance.pid) == instance.started:
            found.append(instance)
        else:
            path.unlink(missing_ok=True)
    return sorted(found, key=lambda one: -int(one.started))


def _read(path: Path) -> Instance | None:
    try:
        return Instance(**orjson.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def start_of(pid: int) -> str:
    """Return the start time of a process in clock ticks since boot; empty if it does not run (a zombie does not)."""
    try:
        fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[_START_FIELD]


def _folder() -> Path:
    return data_directory() / "running"


def record_broker(bootstrap: str, login: Mapping[str, str | bool]) -> None:
    """Record the settings of `[kafka]` for these addresses."""
    path = _broker_path(bootstrap)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(path, orjson.dumps(dict(login)).decode())


def forget_broker(bootstrap: str) -> None:
    """Remove the record of these addresses."""
    _broker_path(bootstrap).unlink(missing_ok=True)


def login_at(bootstrap: str) -> dict[str, str]:
    """Return the settings of `[kafka]` that are recorded for these addresses; empty if there are none."""
    try:
        return dict(orjson.loads(_broker_path(bootstrap).read_bytes()))
    except (OSError, orjson.JSONDecodeError):
        return {}


def _broker_path(bootstrap: str) -> Path:
    return data_directory() / "brokers" / f"{bootstrap.replace('/', '_')}.json"
