"""Runs a part of railsight as a process, and asks for its health as a supervisor does."""

import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fixtures.automation_process import start
from tests.fixtures.ports import free_port
from tests.integration.runtime.commands import start_in_background
from tests.integration.runtime.rig import wait_until

LIMITS = {"health.stuck_s": 6, "health.undelivered_s": 2, "health.probe_s": 0.5, "runtime.inventory_wait_s": 0}
"""A process that waits for brokers would count as stuck soon, if it counted as stuck at all."""
STOPS_WITHIN_S = 30.0
"""Kubernetes kills a process that has not ended by then."""


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

    def terminate(self) -> None:
        """Stop by SIGTERM; the end is a success, and in time."""
        self.process.terminate()
        assert self.process.wait(STOPS_WITHIN_S) == 0, self.log.read_text()


@contextmanager
def running_automation(folder: Path, kafka_port: int) -> Iterator[Part]:
    """Run the automation with a port for its health, and kill it at the end."""
    port = free_port()
    (folder / "automation.toml").write_text(
        f'actor = "netbot"\njournal = "journal.jsonl"\n[gnmi]\ntargets = "targets.json"\n[status]\nport = {port}\n'
        f'[kafka]\nbootstrap = "127.0.0.1:{kafka_port}"\n'
    )
    process = start(folder)
    try:
        yield Part(process, port, folder / "log")
    finally:
        process.kill()
        process.wait()


@contextmanager
def running(log: Path, env: dict[str, str], *arguments: str, **constants: object) -> Iterator[Part]:
    """Run a command with a port for its health, and kill it at the end."""
    port = free_port()
    process = start_in_background(log, os.environ | env, LIMITS | constants, *arguments, "--metrics-port", str(port))
    try:
        yield Part(process, port, log)
    finally:
        process.kill()
        process.wait()
