"""Where one part's time goes while it is measured: py-spy's samples of its Python, for whoever looks for the cost.

py-spy is no dependency; it is taken from PATH. Its own time is not counted, but the part is a little slower under it.
"""

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from streams.wire.errors import Misconfigured

RATE_HZ = 100


@dataclass(frozen=True, slots=True)
class Profile:
    """What was asked for: which part, and where to write it (speedscope's form)."""

    part: str
    out: Path


def parse_profile(given: str, parts: Iterable[str]) -> Profile:
    """`PART=FILE` as what it says; raises Misconfigured where there is no such part, or no py-spy."""
    part, _, out = given.partition("=")
    names = list(parts)
    if part not in names or not out:
        raise Misconfigured(f"--profile {given}: PART=FILE, where PART is one of {', '.join(names)}")
    if shutil.which("py-spy") is None:
        raise Misconfigured("--profile needs py-spy on PATH: pip install py-spy")
    return Profile(part, Path(out).resolve())


def start_profiler(profile: Profile, pid: int, seconds: float) -> "subprocess.Popen[bytes]":
    """Begin; it ends by itself after so many seconds."""
    call = [
        "py-spy", "record", "--gil", "--rate", str(RATE_HZ), "--duration", str(round(seconds)), "--format",
        "speedscope", "--output", str(profile.out), "--pid", str(pid),
    ]  # fmt: skip
    return subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
