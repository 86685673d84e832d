"""A real Alertmanager with the configuration we ship, whose receivers are one of ours that remembers."""

import asyncio
import copy
import os
import shutil
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
    """Return a port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def until(condition: Callable[[], object], within_s: float = 20) -> None:
    """Wait until something is so; fail once the bound is past."""
    give_up = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up, "it never came to be so"
        await asyncio.sleep(0.02)


@dataclass
class Desk:
    """What the receivers of Alertmanager were told, in order."""

    url: str = ""
    told: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        """Answer one webhook."""
        self.told.append((request.match_info["receiver"], await request.json()))
        return web.Response()

    def to(self, receiver: str, status: str | None = None) -> list[dict[str, Any]]:
        """The notifications that one receiver had."""
        return [said for who, said in self.told if who == receiver and status in (None, said["status"])]


@dataclass
class Server:
    """One Alertmanager that can be stopped and started again on its data."""

    url: str
    command: list[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and return once it is ready."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        give_up = time.monotonic() + 20
        while not self.ready():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < give_up, self.log.read_text()
            time.sleep(0.05)

    def ready(self) -> bool:
        """Whether it answers that it is ready."""
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        """Ask it to stop, and wait until it has."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(20)
            self.process = None


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """Yield a receiver of webhooks on loopback."""
    desk = Desk()
    app = web.Application()
    app.router.add_post("/{receiver}", desk.take)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    desk.url = f"http://127.0.0.1:{port}"
    yield desk
    await runner.cleanup()


def shipped_config(desk: Desk) -> dict[str, Any]:
    """The shipped configuration with webhooks for receivers, and with its waits a hundredth as long, at least 0.2 s."""
    config = copy.deepcopy(yaml.safe_load(CONFIG.read_text()))
    for receiver in config["receivers"]:
        receiver["webhook_configs"] = [{"url": f"{desk.url}/{receiver['name']}"}]
    for route in (config["route"], *config["route"]["routes"]):
        for wait in ("group_wait", "group_interval"):
            if wait in route:
                route[wait] = f"{max(200, _seconds(route[wait]) * 10)}ms" if route[wait] != "0s" else "0s"
    return dict(config)


def _seconds(duration: str) -> int:
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]]


@pytest.fixture
def alertmanager(desk: Desk, tmp_path: Path) -> Iterator[Server]:
    """Yield Debian's Alertmanager, running; skip where it is not installed, fail where that is CI."""
    binary = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if binary is None:
        said = "prometheus-alertmanager is not installed (make peers)"
        if os.environ.get("CI") == "true":
            pytest.fail(said)
        pytest.skip(said)
    config = tmp_path / "alertmanager.yml"
    config.write_text(yaml.safe_dump(shipped_config(desk)))
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
