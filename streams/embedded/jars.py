"""Provides the broker's jars, which the lock lists, each verified by SHA-256 and size.

The lock names every jar, so jgo fetches without resolving versions.
A folder of jars (RAILSIGHT_KAFKA_JARS) replaces the network; it is read and never written.
"""

import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from threading import Event

from streams.embedded.directories import cache_directory, prepare, refusing_disk_errors
from streams.embedded.mirrors import OVERRIDE, redact_credentials, repository
from streams.wire.errors import Misconfigured

LOCK = "kafka-4.3.1.lock"
FOLDER = "RAILSIGHT_KAFKA_JARS"
# In a trial, more parallel downloads were not faster (46 jars in 3 to 4 s), and they load the shared repository.
MAX_DOWNLOADS = 6
DISK_REFUSES = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS)

Fetch = Callable[["Jar", Path], Path]


@dataclass(frozen=True)
class Jar:
    """One line of the lock: Maven coordinates, digest and size of the file."""

    group: str
    artifact: str
    version: str
    sha256: str
    size: int

    @property
    def name(self) -> str:
        """The file name, as in Maven repositories and Kafka's own download."""
        return f"{self.artifact}-{self.version}.jar"

    def is_at(self, path: Path) -> bool:
        """Return whether the file at `path` is this jar, byte for byte."""
        try:
            if path.stat().st_size != self.size:
                return False
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256
        except OSError:
            return False


def parse_lock(text: str) -> tuple[Jar, ...]:
    """Parse lines of `group:artifact:version sha256 size`; raise ValueError with the first invalid line."""
    jars = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"([\w.-]+):([\w.-]+):([\w.-]+) ([0-9a-f]{64}) (\d+)", line.strip())
        if match is None:
            raise ValueError(f"line {number} of the jar lock is not `group:artifact:version sha256 size`: {line!r}")
        group, artifact, version, sha256, size = match.groups()
        jars.append(Jar(group, artifact, version, sha256, int(size)))
    return tuple(jars)


def kafka_jars() -> tuple[Jar, ...]:
    """Return the jars of the broker that this package was tested with."""
    return parse_lock(files("streams.embedded").joinpath(LOCK).read_text(encoding="utf-8"))


def provide(
    folder: Path | None = None,
    *,
    jars: tuple[Jar, ...] | None = None,
    environ: Mapping[str, str] = os.environ,
    fetch: Fetch | None = None,
) -> tuple[Path, ...]:
    """Return the verified paths of all jars in the lock's order; fetch the jars that the cache lacks.

    `folder` (else RAILSIGHT_KAFKA_JARS) must be complete and correct, or Misconfigured is raised.
    `fetch` downloads one jar to a scratch folder and returns its path; jgo is the default.
    """
    jars = kafka_jars() if jars is None else jars
    given = folder or (Path(environ[FOLDER]) if environ.get(FOLDER) else None)
    if given is not None:
        return _verified_folder(given, jars)
    cache = cache_directory(environ) / LOCK.removesuffix(".lock")
    with ThreadPoolExecutor(MAX_DOWNLOADS) as pool:
        missing = [
            jar for jar, right in zip(jars, pool.map(lambda j: j.is_at(cache / j.name), jars), strict=True) if not right
        ]
        if missing:
            prepare(cache, purpose="cache folder", needs_bytes=2 * sum(jar.size for jar in missing))
            _fetch_all(missing, cache, pool, fetch or from_maven(environ), environ)
    return tuple(cache / jar.name for jar in jars)


def _verified_folder(folder: Path, jars: tuple[Jar, ...]) -> tuple[Path, ...]:
    with ThreadPoolExecutor(MAX_DOWNLOADS) as pool:
        wrong = [
            jar
            for jar, right in zip(jars, pool.map(lambda j: j.is_at(folder / j.name), jars), strict=True)
            if not right
        ]
    absent = [jar for jar in wrong if not (folder / jar.name).exists()]
    if absent:
        raise Misconfigured(f"the folder of jars {folder} lacks {_named(absent)}")
    if wrong:
        raise Misconfigured(f"the folder of jars {folder} has jars that differ from the lock: {_named(wrong)}")
    return tuple(folder / jar.name for jar in jars)


def from_maven(environ: Mapping[str, str] = os.environ) -> Fetch:
    """Return a function that fetches from the user's mirror, or from jgo's default repository."""
    # jgo imports requests, which takes 0.1 s and is not needed if the cache is complete.
    from jgo.maven import MavenContext

    chosen = repository(environ)

    def fetch(jar: Jar, scratch: Path) -> Path:
        maven = MavenContext(repo_cache=scratch, remote_repos={"chosen": chosen} if chosen else None, timeout=20)
        return Path(maven.project(jar.group, jar.artifact).at_version(jar.version).artifact().resolve())

    return fetch


def _fetch_all(
    missing: list[Jar], cache: Path, pool: ThreadPoolExecutor, fetch: Fetch, environ: Mapping[str, str]
) -> None:
    """Fetch to a scratch folder beside the jars, and rename each jar into place after its verification."""
    with (
        refusing_disk_errors(cache, "cache folder"),
        tempfile.TemporaryDirectory(dir=cache, prefix="fetching-") as scratch,
    ):
        unreachable = Event()
        import truststore

        # A company's proxy may need the system's CAs; requests would use certifi's.
        truststore.inject_into_ssl()
        try:
            results = list(pool.map(lambda jar: _fetch_one(jar, cache, Path(scratch), fetch, unreachable), missing))
        finally:
            truststore.extract_from_ssl()
    failed = [(jar, reason) for jar, reason in zip(missing, results, strict=True) if reason]
    if failed:
        raise Misconfigured(
            f"cannot fetch {_named(jar for jar, _ in failed)} ({failed[0][1]}); without a network, copy the jars of"
            f" {LOCK} into a folder and set {FOLDER} to it, or set {OVERRIDE} to a mirror"
            + (f" (now {redact_credentials(chosen)})" if (chosen := repository(environ)) else "")
        )


def _fetch_one(jar: Jar, cache: Path, scratch: Path, fetch: Fetch, unreachable: Event) -> str:
    """Fetch one jar to the cache; return the reason of a failure, or an empty string.

    The first jar without a response sets `unreachable`, so that the other jars do not wait for their timeouts.
    """
    if unreachable.is_set():
        return "the repository does not answer"
    try:
        fetched = fetch(jar, scratch)
    # jgo raises RuntimeError for a jar that is in no repository; requests raises OSError.
    except (OSError, RuntimeError) as error:
        if isinstance(error, OSError):
            if error.errno in DISK_REFUSES:
                raise
            unreachable.set()
        return _short(error)
    if not jar.is_at(fetched):
        return "the download has another SHA-256 than the lock"
    fetched.replace(cache / jar.name)
    return ""


def _short(error: BaseException) -> str:
    """Describe an error without the URLs and credentials that an HTTP library's message contains."""
    if isinstance(error, RuntimeError):
        return "the repository does not have it"
    with suppress(IndexError):
        reason = getattr(error.args[0], "reason", None)
        if reason is not None:
            return str(reason).rpartition(": ")[2] or type(reason).__name__
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__


def _named(jars: Iterable[Jar]) -> str:
    names = [jar.name for jar in jars]
    shown = ", ".join(names[:3])
    return f"{len(names)} jars ({shown} and others)" if len(names) > 3 else shown
