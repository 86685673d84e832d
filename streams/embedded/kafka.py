"""Runs a real Kafka on this machine: one broker or three, as child processes that end with this one.

Decides when a start has succeeded and controls each node; jars, Java, folders and flags have their own modules.
Acknowledged records are in the page cache or on disk, so they survive the kill of any process.
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from streams.embedded import kafka_aot
from streams.embedded.directories import data_directory, prepare, refusing_disk_errors
from streams.embedded.jars import provide
from streams.embedded.java import find_java
from streams.embedded.kafka_config import KafkaParams, Security
from streams.embedded.kafka_data_dir import lock, prepare_cluster
from streams.embedded.kafka_node import GRACE_S, Crashed, Node, Software
from streams.embedded.kafka_ready import all_ready, login_of
from streams.wire.errors import Misconfigured

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger(__name__)

# The size of two segments; with less free space, the first minute of a demo can fill the disk.
NEEDS_BYTES = 256 << 20
POLL_INTERVAL_S = 0.05
# The first two nodes of three stop in 0.3 s; the last one takes no longer if it can stop by itself.
MINORITY_GRACE_S = 0.5


class EmbeddedKafka:
    """A cluster on loopback with nodes numbered from 1; its methods block and must not be called concurrently."""

    def __init__(self, params: KafkaParams | None = None, security: Security | None = None) -> None:
        """Configure a cluster; without `security`, every client on this machine has all rights."""
        self.params = params or KafkaParams()
        self.security = security
        self.data = self.params.data or data_directory() / "kafka"
        self._nodes: dict[int, Node] = {}
        self._stack = ExitStack()
        self._inherited: tuple[int, ...] = ()
        self._cache: Path | None = None
        self.training: kafka_aot.Training | None = None

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses for clients: `127.0.0.1:port`, comma-separated."""
        if not self._nodes:
            raise RuntimeError("the broker has not been started")
        return ",".join(f"127.0.0.1:{node.ports[node.number - 1].broker}" for node in self._nodes.values())

    def start(self) -> None:
        """Start the cluster and return once it accepts requests; if that fails, stop it and raise Misconfigured."""
        if self._nodes:
            raise RuntimeError("the broker has been started already")
        try:
            self._start_or_drop_cache()
        except BaseException:
            self.stop()
            raise

    def _start_or_drop_cache(self) -> None:
        """Start; if the JVM crashes with an AOT cache (which it does not verify), remove it and retry once."""
        try:
            self._start()
        except Crashed:
            if self._cache is None or not self._cache.exists():
                raise
            log.warning("the JVM crashed with the AOT cache %s, which is removed; starting without it", self._cache)
            self.stop()
            self._cache.unlink()
            self._start()

    def _start(self) -> None:
        java = find_java()
        tls = self.security is not None and self.security.certificate is not None
        software = Software(java, provide(self.params.jars), self.params.heap_mib, tls)
        prepare(self.data, purpose="data folder", needs_bytes=NEEDS_BYTES)
        self._cache = kafka_aot.cache_of(software)
        with refusing_disk_errors(self.data, "data folder"):
            # A broker whose parent was killed has GRACE_S to stop; the new broker waits no longer.
            self._inherited = (self._stack.enter_context(lock(self.data, GRACE_S + 2)),)
            cluster = prepare_cluster(self.data, self.params)
            self._nodes = {
                i: Node(i, self.data / f"node-{i}", cluster.ports, software, self.security)
                for i in range(1, len(cluster.ports) + 1)
            }
            self._each(lambda node: node.format(cluster.cluster_id, self._aot, self._inherited))
            self._each(lambda node: node.spawn(self._aot, self._inherited))
        self._until_ready()
        if self._cache is not None and not self._cache.exists():
            self.training = kafka_aot.Training(software, self._cache)

    def client_options(self) -> dict[str, Any]:
        """Return the connection arguments of an aiokafka client with all rights."""
        return {**self._login, "bootstrap_servers": self.bootstrap.split(",")}

    @cached_property
    def _login(self) -> dict[str, Any]:
        return login_of(self.security)

    @property
    def _aot(self) -> list[str]:
        return kafka_aot.flags(self._cache)

    def _each(self, act: Callable[[Node], None]) -> None:
        """Run a function for all nodes concurrently."""
        with ThreadPoolExecutor(len(self._nodes)) as pool:
            list(pool.map(act, self._nodes.values()))

    def _until_ready(self) -> None:
        give_up = time.monotonic() + self.params.start_timeout_s
        while not self._running_ready():
            for node in self._nodes.values():
                node.check()
            if len(self.ended()) == len(self._nodes):
                raise Misconfigured("every broker was killed while it started")
            if time.monotonic() > give_up:
                logs = ", ".join(str(node.log) for node in self._nodes.values())
                raise Misconfigured(f"Kafka was not ready after {self.params.start_timeout_s:g} s (logs: {logs})")
            time.sleep(POLL_INTERVAL_S)

    def _running_ready(self) -> bool:
        running = [node for node in self._nodes.values() if node.is_running]
        return bool(running) and all_ready([n.ports[n.number - 1].broker for n in running], len(running), self._login)

    def ready(self) -> bool:
        """Return whether every node runs and accepts requests; the check takes milliseconds, at most 2 s."""
        return not self.ended() and self._running_ready()

    def ended(self) -> list[int]:
        """Return the numbers of the nodes that have ended for any reason; empty before the start."""
        return [number for number, node in self._nodes.items() if not node.is_running]

    def kill(self, node: int = 1) -> None:
        """Kill one node with SIGKILL, as a crash would, and return once it has ended."""
        self._nodes[node].kill()

    def restart(self, *numbers: int) -> None:
        """Restart nodes (default: the first), and return once all running nodes accept requests."""
        for number in numbers or (1,):
            self._nodes[number].stop()
            self._nodes[number].spawn(self._aot, self._inherited)
        self._until_ready()

    def stop(self) -> None:
        """Stop every node, and return once no process is left; the data stays."""
        if self.training is not None:
            self.training.cancel()
        self._stop_nodes()
        self._nodes = {}
        self._stack.close()

    def _stop_nodes(self) -> None:
        """Stop all nodes, and kill nodes that remain without a majority, because they would wait for a controller.

        The last node of three did not stop by itself; after a kill it recovers its logs at the next start.
        """
        processes = [node.process for node in self._nodes.values() if node.process is not None]
        for process in processes:
            process.request_stop()
        give_up = time.monotonic() + GRACE_S
        while (
            remaining := [process for process in processes if process.exit_code is None]
        ) and time.monotonic() < give_up:
            if len(remaining) <= len(self._nodes) // 2:
                give_up = min(give_up, time.monotonic() + MINORITY_GRACE_S)
            remaining[0].wait(POLL_INTERVAL_S)
        for node in self._nodes.values():
            node.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
