"""Provides a real Alertmanager with the shipped configuration, and receivers that record notifications."""

import asyncio
import copy
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

CONFIG = Path(__file__).parents[3] / "deploy/alertmanager/alertmanager.yml"


def free_port() -> int:
    """Return a free port of loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def until(condition: Callable[[], object], within_s: float = 20) -> None:
    """Wait for a condition; fail after the timeout."""
    give_up = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up, "the condition was not met in time"
        await asyncio.sleep(0.02)


@dataclass
class Receivers:
    """The notifications that Alertmanager sent to its receivers, in order."""

    url: str = ""
    received: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        """Record one webhook call."""
        self.received.append((request.match_info["receiver"], await request.json()))
        return web.Response()

    def to(self, receiver: str, status: str | None = None) -> list[dict[str, Any]]:
        """Return the notifications of one receiver."""
        return [
            notification
            for name, notification in self.received
            if name == receiver and status in (None, notification["status"])
        ]


@dataclass
class Server:
    """One Alertmanager that can be stopped and restarted on its data."""

    url: str
    command: list[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and return once it is ready."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        give_up = time.monotonic() + 20
        while not self.ready():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < give_up, self.log.read_text()
            time.sleep(0.05)

    def ready(self) -> bool:
        """Return whether it responds that it is ready."""
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        """Stop the server and wait for its end."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(20)
            self.process = None

    def kill(self) -> None:
        """End the server at once, without what it writes at a stop."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(20)
            self.process = None

    def freeze(self) -> None:
        """Stop the server's execution; its port accepts connections and nothing answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue the server."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


@pytest.fixture
async def receivers() -> AsyncIterator[Receivers]:
    """Yield a receiver of webhooks on loopback."""
    receivers = Receivers()
    app = web.Application()
    app.router.add_post("/{receiver}", receivers.take)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    receivers.url = f"http://127.0.0.1:{port}"
    yield receivers
    await runner.cleanup()


def shipped_config(receivers: Receivers) -> dict[str, Any]:
    """Return the shipped configuration with webhooks as receivers, and a hundredth of its waits, at least 0.2 s."""
    config = copy.deepcopy(yaml.safe_load(CONFIG.read_text()))
    for receiver in config["receivers"]:
        receiver["webhook_configs"] = [{"url": f"{receivers.url}/{receiver['name']}"}]
    for route in (config["route"], *config["route"]["routes"]):
        waits = ("group_wait", "group_interval", *(["repeat_interval"] if route["receiver"] == "watchdog" else []))
        for wait in waits:
            if wait in route:
                route[wait] = f"{max(200, _seconds(route[wait]) * 10)}ms" if route[wait] != "0s" else "0s"
    return dict(config)


def _seconds(duration: str) -> int:
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]]


@pytest.fixture
def alertmanager(receivers: Receivers, tmp_path: Path) -> Iterator[Server]:
    """Yield Debian's Alertmanager, running; skip where it is not installed, fail where that is CI."""
    binary = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if binary is None:
        reason = "prometheus-alertmanager is not installed (make peers)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    config = tmp_path / "alertmanager.yml"
    config.write_text(yaml.safe_dump(shipped_config(receivers)))
    address = f"127.0.0.1:{free_port()}"
    options = {
        "config.file": config,
        "storage.path": tmp_path / "data",
        "web.listen-address": address,
        "cluster.listen-address": "",
    }
    command = [binary, *(f"--{name}={value}" for name, value in options.items())]
    server = Server(f"http://{address}", command, tmp_path / "alertmanager.log")
    server.start()
    yield server
    server.stop()
