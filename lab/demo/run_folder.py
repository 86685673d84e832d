"""The folder of a demo run: created, locked while the run lasts, and removed at its end unless it is retained."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streams.embedded.directories import data_directory, try_lock
from streams.wire.errors import Misconfigured

RETAIN_MARKER = "kept"
"""A run folder with a file of this name is never removed."""


@contextmanager
def run_folder(given: Path | None, *, keep: bool) -> Iterator[Path]:
    """Yield the given folder, or a new one in the user's data folder that is removed at the end unless `keep`."""
    if given is not None:
        if (given / "kafka").exists():
            raise Misconfigured(f"{given} holds an earlier run; choose another folder, or remove it")
        folder = given.resolve()
        folder.mkdir(parents=True, exist_ok=True)
    else:
        runs = data_directory() / "demo"
        runs.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(runs)
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=runs))
    lock = try_lock(folder)
    if keep:
        (folder / RETAIN_MARKER).touch()
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _remove_abandoned(runs: Path) -> None:
    """Remove the folders of demos that were killed before they could clean up: no process holds their lock."""
    for folder in runs.glob("run-*"):
        if not (folder / RETAIN_MARKER).exists() and (lock := try_lock(folder)) is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
