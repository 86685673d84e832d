"""Finds and checks the folders for the data and downloads of the embedded servers.

The defaults are the user's XDG folders; settings can name others.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from streams.wire.errors import Misconfigured


def data_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the user's folder for persistent data: Kafka's logs, ClickHouse's parts."""
    return _xdg(environ, "XDG_DATA_HOME", ".local/share")


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the user's folder for data that can be recreated: jars, AOT caches."""
    return _xdg(environ, "XDG_CACHE_HOME", ".cache")


def _xdg(environ: Mapping[str, str], name: str, below_home: str) -> Path:
    # The XDG specification ignores relative paths as invalid.
    given = Path(environ.get(name, ""))
    return (given if given.is_absolute() else Path.home() / below_home) / "railsight"


def prepare(folder: Path, *, purpose: str, needs_bytes: int) -> None:
    """Create `folder`; raise Misconfigured if it is not writable or its disk has too little space."""
    with refusing_disk_errors(folder, purpose):
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        free = shutil.disk_usage(folder).free
    if free < needs_bytes:
        raise Misconfigured(
            f"{purpose} {folder}: {free >> 20} MiB free on its disk, and at least {needs_bytes >> 20} MiB are needed"
        )


@contextmanager
def refusing_disk_errors(folder: Path, purpose: str) -> Iterator[None]:
    """Raise disk errors (no space, no permission, an existing file) as Misconfigured with a message of one line."""
    try:
        yield
    except OSError as error:
        raise Misconfigured(f"{purpose} {folder}: {error.strerror or error}") from error


def write_private(path: Path, text: str) -> None:
    """Write a file atomically; only its owner can read it."""
    scratch = path.with_name(f"{path.name}.new")
    scratch.unlink(missing_ok=True)
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
        out.write(text)
    scratch.replace(path)


def try_lock(folder: Path, name: str = "lock") -> int | None:
    """Lock the folder until this process ends, and return the lock's descriptor; None if another process locked it."""
    lock = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


@contextmanager
def locked(folder: Path, purpose: str) -> Iterator[None]:
    """Create and lock the folder for the block; raise Misconfigured and change nothing if another process locked it."""
    with refusing_disk_errors(folder, purpose):
        folder.mkdir(parents=True, exist_ok=True)
        lock = try_lock(folder)
        if lock is None:
            owner = (folder / "lock").read_text(errors="replace").strip() or "unknown"
            raise Misconfigured(
                f"{purpose} {folder} is in use by process {owner}; stop it first, or choose another folder"
            )
    try:
        yield
    finally:
        os.close(lock)
