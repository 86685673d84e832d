"""The health of `railsight process` and of a collector, as supervisors ask for it while brokers come and go."""

import asyncio
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from tests.integration.runtime.commands import start_in_background
from tests.integration.runtime.rig import wait_until

pytestmark = pytest.mark.timeout(280)

LIMITS = {
    "RAILSIGHT__HEALTH__STUCK_S": "6",
    "RAILSIGHT__HEALTH__UNDELIVERED_S": "2",
    "RAILSIGHT__HEALTH__PROBE_S": "0.5",
    "RAILSIGHT__RUNTIME__INVENTORY_WAIT_S": "0",
}
"""A process that waits for brokers would count as stuck soon, if it counted as stuck at all."""


@dataclass
class Part:
    """One process with its health."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def problem(self, path: str) -> str:
        """Return the line of a 503, empty for 200; raises OSError while nothing listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                assert answer.read() == b"ok\n"
                return ""
        except urllib.error.HTTPError as error:
            with error:
                return f"{error.read().decode().strip()}{'' if error.code == 503 else error.code}"

    async def until_ready(self) -> None:
        await wait_until(lambda: self._is(""), 90, "ready", logs=[self.log])

    async def until_logged(self, line: str) -> None:
        await wait_until(lambda: line in self.log.read_text(), 30, line, logs=[self.log])

    async def until_not_ready(self, check: str) -> str:
        """Wait for the failing check, and return its problem; it is live throughout."""
        await wait_until(lambda: self._is(check), 60, f"not ready: {check}", logs=[self.log])
        assert self.problem("/livez") == ""
        return self.problem("/readyz")

    def _is(self, check: str) -> bool:
        try:
            problem = self.problem("/readyz")
        except OSError:
            return False
        return problem.startswith(check) if check else not problem

    def terminate(self) -> float:
        """Stop by SIGTERM, and return the seconds until the end, which is a success."""
        began = time.monotonic()
        self.process.terminate()
        assert self.process.wait(10) == 0, self.log.read_text()
        return time.monotonic() - began


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(log: Path, env: dict[str, str], *arguments: str) -> Iterator[Part]:
    """Run a command with a port for its health, and kill it at the end."""
    port = free_port()
    process = start_in_background(log, os.environ | LIMITS | env, *arguments, "--metrics-port", str(port))
    try:
        yield Part(process, port, log)
    finally:
        process.kill()
        process.wait()


def received(listening: socket.socket) -> set[str]:
    """Return all lines that systemd has received by now."""
    found: set[str] = set()
    while True:
        try:
            found |= set(listening.recv(4096).decode().split("\n"))
        except BlockingIOError:
            return found


async def test_parts_that_start_before_their_brokers_wait_and_then_work(tmp_path: Path) -> None:
    """Without brokers a part is live and not ready, logs that it waits, and is ready soon after they are there.

    A broker that is killed makes both not ready, with the name of the check, and never not live; SIGTERM takes < 5 s.
    """
    targets = tmp_path / "targets.json"
    targets.write_text(json.dumps([{"name": "leaf1", "address": "127.0.0.1:1"}]))
    kafka = KafkaParams(data=tmp_path / "kafka", port=free_port())
    at = ("--bootstrap", f"127.0.0.1:{kafka.port}")
    with ExitStack() as stack:
        systemd = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "RAILSIGHT__RUNTIME__DATA": str(tmp_path)}
        stages = stack.enter_context(running(tmp_path / "stages.log", env, "process", *at))
        collector = stack.enter_context(
            running(tmp_path / "gnmi.log", {}, "collect", "gnmi", *at, "--targets", str(targets))
        )
        assert await stages.until_not_ready("start") == "start: not complete"
        await collector.until_not_ready("kafka: no record acknowledged")
        for part, line in ((stages, "waiting for Kafka"), (collector, "Kafka unreachable")):
            await part.until_logged(line)
        assert not {"READY=1"} & received(systemd)
        broker = EmbeddedKafka(kafka)
        stack.callback(broker.stop)
        await broker.start_async()
        await stages.until_ready()
        await collector.until_ready()
        assert stages.log.read_text().count("waiting for Kafka") == 1
        await wait_until(lambda: "READY=1" in received(systemd), 10, "READY=1")
        await asyncio.to_thread(broker.kill)
        began = time.monotonic()
        await stages.until_not_ready("brokers: no answer for")
        await collector.until_not_ready("kafka: no record acknowledged for")
        await wait_until(lambda: time.monotonic() > began + 8, 10, "longer than a stuck process has")
        assert stages.problem("/livez") == collector.problem("/livez") == ""
        await asyncio.to_thread(broker.restart)
        await stages.until_ready()
        await collector.until_ready()
        received(systemd)
        assert collector.terminate() < 5
        assert stages.terminate() < 5
        assert "STOPPING=1" in received(systemd)
