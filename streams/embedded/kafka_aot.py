"""Creates the AOT cache that halves the start time of a broker.

A second broker on a scratch folder records it at the lowest priority, while the first one runs. Creating the cache when
the first broker stops would take several seconds after Ctrl-C, and would never happen after kill -9.
After a failure here, starts are slower and otherwise unaffected.
"""

import hashlib
import logging
import tempfile
import time
from pathlib import Path
from threading import Event, Thread

from streams.embedded.directories import cache_directory
from streams.embedded.kafka_config import Ports
from streams.embedded.kafka_data_dir import free_ports, new_cluster_id
from streams.embedded.kafka_node import Node, Software
from streams.embedded.kafka_ready import all_ready, login_of
from streams.wire.errors import Misconfigured

BOOT_TIMEOUT_S = 120.0
# Recording and assembling took 4 to 6 s on an idle core; at the lowest priority on a busy core they take much longer.
ASSEMBLE_TIMEOUT_S = 300.0
NICENESS = 19
MAX_CACHES = 3

log = logging.getLogger(__name__)


def cache_of(software: Software, folder: Path | None = None) -> Path | None:
    """Return the path of the cache for this Java and these jars, or None if this Java cannot create one.

    A cache is valid for its jars (path, size, time) and for the Java that created it; TLS needs other flags.
    The cache lacks the few classes of users and ACLs, which the JVM loads from the jars.
    """
    if not software.java.makes_aot_caches:
        return None
    kind = "\0tls" if software.tls else ""
    key = hashlib.sha256(f"{software.java.command}\0{software.java.version}{kind}".encode())
    for path in (software.java.command, *software.jars):
        state = path.stat()
        key.update(f"\0{path}\0{state.st_size}\0{state.st_mtime_ns}".encode())
    return (folder or cache_directory()) / "aot" / f"kafka-{key.hexdigest()[:20]}.aot"


def flags(cache: Path | None) -> list[str]:
    """Return the flags that use the cache, or no flags if it does not exist."""
    return [f"-XX:AOTCache={cache}", "-Xlog:aot=off"] if cache is not None and cache.exists() else []


class Training:
    """One attempt to create a cache, in its own thread; it can be cancelled at any time."""

    def __init__(self, software: Software, cache: Path) -> None:
        self.software = software
        self.cache = cache
        self._cancelled = Event()
        self._thread = Thread(target=self._run, name="kafka-aot", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the attempt; return whether the cache exists."""
        self._thread.join(timeout_s)
        return self.cache.exists()

    def cancel(self) -> None:
        """Cancel the attempt, and return once its process has ended."""
        self._cancelled.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self.cache.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.cache.parent, prefix="making-") as scratch:
                made = Path(scratch) / "made.aot"
                if self._make(Path(scratch), made):
                    made.replace(self.cache)
                    self._remove_older()
        except (OSError, Misconfigured) as error:
            log.info("no AOT cache was created, so starts are slower: %s", error)

    def _make(self, scratch: Path, made: Path) -> bool:
        broker, controller = free_ports(2)
        node = Node(1, scratch / "node", [Ports(broker, controller)], self.software)
        node.format(new_cluster_id(), [], (), NICENESS)
        node.spawn([f"-XX:AOTCacheOutput={made}"], (), NICENESS, ASSEMBLE_TIMEOUT_S)
        try:
            give_up = time.monotonic() + BOOT_TIMEOUT_S
            while not all_ready([broker], 1, login_of(None)):
                node.check()
                if self._cancelled.wait(0.2) or time.monotonic() > give_up:
                    return False
            return self._assemble(node, made)
        finally:
            node.kill()

    def _assemble(self, node: Node, made: Path) -> bool:
        """Stop the broker, so that the JVM writes the cache at its end; return early when cancelled."""
        assert node.process is not None
        node.process.request_stop()
        while node.process.wait(0.1) is None:
            if self._cancelled.is_set():
                return False
        return made.exists()

    def _remove_older(self) -> None:
        """Remove all but the newest caches: other Javas and jar folders may use older ones, but each has 60 MB."""
        by_age = sorted(self.cache.parent.glob("kafka-*.aot"), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in by_age[MAX_CACHES:]:
            old.unlink(missing_ok=True)
