"""Profiles one part with py-spy while it is measured.

py-spy is not a dependency; it is taken from PATH. Its own time is not counted, but it slows the part a little.
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
    """The part to profile, and the output file (speedscope's format)."""

    part: str
    out: Path


def parse_profile(given: str, parts: Iterable[str]) -> Profile:
    """Parse `PART=FILE`; raise Misconfigured for an unknown part, or without py-spy."""
    part, _, out = given.partition("=")
    names = list(parts)
    if part not in names or not out:
        raise Misconfigured(f"--profile {given}: expected PART=FILE with PART one of {', '.join(names)}")
    if shutil.which("py-spy") is None:
        raise Misconfigured("--profile needs py-spy on PATH: pip install py-spy")
    return Profile(part, Path(out).resolve())


def start_profiler(profile: Profile, pid: int, seconds: float) -> "subprocess.Popen[bytes]":
    """Start py-spy, which ends after so many seconds."""
    command = [
        "py-spy", "record", "--gil", "--rate", str(RATE_HZ), "--duration", str(round(seconds)), "--format",
        "speedscope", "--output", str(profile.out), "--pid", str(pid),
    ]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
