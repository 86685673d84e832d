"""The folder of one run of a benchmark or of chaos."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streams.wire.errors import Misconfigured


@contextmanager
def run_folder(given: Path | None, command: str) -> Iterator[Path]:
    """Yield the given folder, which stays, or a temporary one; raise Misconfigured if the given one is not empty."""
    if given is None:
        with tempfile.TemporaryDirectory(prefix=f"railsight-{command}-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    if given.exists() and any(given.iterdir()):
        raise Misconfigured(f"{given} is not empty; choose another folder, or remove it")
    given.mkdir(parents=True, exist_ok=True)
    yield given.resolve()
