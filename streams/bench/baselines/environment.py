"""The separate environment of isolated baselines: installed once in the user's cache, from pinned hashes.

Quix Streams 3.28 requires pydantic below 2.14, and railsight 2.14 or later: they cannot be installed together.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from streams.embedded.directories import cache_directory

LOCK = Path(__file__).with_name("environment.lock")
"""Compiled from environment.in by `uv pip compile --universal --python-version 3.11 --generate-hashes
--no-emit-index-url --no-header --no-annotate`; numpy and protobuf are those of requirements.lock."""
INSTALL_TIMEOUT_S = 600.0
_STREAMS = Path(__file__).parents[3]


class NotInstalled(Exception):
    """The environment could not be installed; the message is the reason in one line."""


def folder_of(lock: bytes, cache: Path) -> Path:
    """Return the folder of the environment of this lock and this Python."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return cache / f"bench-baselines-{python}-{hashlib.sha256(lock).hexdigest()[:12]}"


def installed_python() -> Path | None:
    """Return the environment's interpreter, None if it is not installed."""
    folder = folder_of(LOCK.read_bytes(), cache_directory())
    return _python(folder) if _complete(folder).exists() else None


def install() -> Path:
    """Install the environment if necessary and return its interpreter; raise NotInstalled."""
    if (python := installed_python()) is not None:
        return python
    folder = folder_of(LOCK.read_bytes(), cache_directory())
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:")
    try:
        _call(sys.executable, "-m", "venv", str(folder))
        _call(str(_python(folder)), *install, "--require-hashes", "-r", str(LOCK))
        _complete(folder).touch()
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise NotInstalled(_in_one_line(error)) from error
    return _python(folder)


def variables(bridge: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return variables with which its interpreter finds this package and no other, through a new folder `bridge`."""
    bridge.mkdir()
    (bridge / "streams").symlink_to(_STREAMS, target_is_directory=True)
    return {**environ, "PYTHONPATH": str(bridge)}


def _call(*command: str) -> None:
    subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, stdin=subprocess.DEVNULL
    )


def _in_one_line(error: Exception) -> str:
    output = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
    lines = [line for line in (output or "").splitlines() if line.startswith("ERROR")] or [str(error)]
    return lines[-1].removeprefix("ERROR: ")


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _complete(folder: Path) -> Path:
    return folder / "complete"
