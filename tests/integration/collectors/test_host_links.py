"""The host agent in a network namespace, in which ports are administratively shut and enabled."""

import asyncio
import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from collectors.host.admin import HOLD_S, LINK_BYTES
from collectors.host.links import Rtnetlink
from tests.fixtures.netlink_messages import message

WITHIN_S = 60.0


class Space:
    """A network namespace."""

    def __init__(self) -> None:
        self.name = f"rs-{uuid.uuid4().hex[:8]}"

    def ip(self, *lines: str) -> None:
        """Run `ip` commands in it, one after the other."""
        given = "".join(f"{line}\n" for line in lines).encode()
        subprocess.run(["ip", "-n", self.name, "-batch", "-"], input=given, check=True, capture_output=True)

    def add(self, port: str) -> None:
        """A netdev with a far end; both are disabled."""
        self.ip(f"link add {port} type veth peer name far{port}")


@pytest.fixture
def space() -> Iterator[Space]:
    """A namespace of this test, with its own sysfs for processes in it."""
    made = Space()
    if shutil.which("ip") is None:
        pytest.skip("iproute2 is not installed")
    refused = subprocess.run(["ip", "netns", "add", made.name], capture_output=True, text=True, check=False)
    if refused.returncode:
        pytest.skip(f"no network namespace may be made here: {refused.stderr.strip()}")
    try:
        tried = ["ip", "netns", "exec", made.name, "ls", "/sys/class/net"]
        seen = subprocess.run(tried, capture_output=True, text=True, check=False)
        if seen.stdout.split() != ["lo"]:
            pytest.skip(f"no sysfs of a network namespace may be mounted here: {seen.stderr.strip() or seen.stdout}")
        try:
            made.add("rs0")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no veth can be made here: {error.stderr.decode()}")
        yield made
    finally:
        subprocess.run(["ip", "netns", "delete", made.name], check=True, capture_output=True)


class Agent:
    """One that runs, and what it printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def events(self, count: int) -> list[tuple[str, str]]:
        """Kind and port of the next so many events."""
        return [(event["kind"], event["port"]) for event in [await self.event() for _ in range(count)]]

    async def event(self) -> dict[str, Any]:
        """The next one."""
        assert self.process.stdout is not None
        async with asyncio.timeout(WITHIN_S):
            line = await self.process.stdout.readline()
        assert line, "the agent ended"
        result: dict[str, Any] = orjson.loads(line)
        return result

    def signal(self, number: signal.Signals) -> None:
        """Send it one."""
        self.process.send_signal(number)


@asynccontextmanager
async def agent_in(space: Space, folder: Path) -> AsyncIterator[Agent]:
    """The agent of the namespace, from its start to an orderly end."""
    program = [sys.executable, "-m", "tests.integration.collectors.shut_agent", str(folder)]
    process = await asyncio.create_subprocess_exec(
        "ip", "netns", "exec", space.name, *program, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield Agent(process)
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(WITHIN_S):
            await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def test_who_shuts_a_port_is_reported(space: Space, tmp_path: Path) -> None:
    """Each change is reported once, with its time, and no other netdev; a removed netdev gives no event."""
    space.add("rs1")
    space.ip("link set rs0 up")
    async with agent_in(space, tmp_path) as agent:
        first = await agent.event()
        assert (first["kind"], first["port"], first["detail"]) == ("ADMIN_DOWN", "rs1", "rs1 was found disabled")
        before_ns = time.time_ns()
        space.ip("link set farrs0 up", "link set farrs0 down", "link set rs0 mtu 1400", "link set rs0 down")
        shut = await agent.event()
        assert (shut["kind"], shut["port"], shut["detail"]) == ("ADMIN_DOWN", "rs0", "rs0 is disabled")
        assert before_ns <= shut["at_ns"] <= time.time_ns() - HOLD_S * 1e9
        space.ip("link set rs1 up", "link set rs0 up")
        assert await agent.events(2) == [("ADMIN_UP", "rs1"), ("ADMIN_UP", "rs0")]
        space.ip("link delete rs1", "link set rs0 down", "link set rs0 up")
        assert await agent.events(2) == [("ADMIN_DOWN", "rs0"), ("ADMIN_UP", "rs0")]
        space.add("rs2")
        assert await agent.events(1) == [("ADMIN_DOWN", "rs2")]


async def test_over_a_restart_what_turned_meanwhile_is_reported(space: Space, tmp_path: Path) -> None:
    """And nothing is repeated."""
    space.add("rs1")
    async with agent_in(space, tmp_path) as agent:
        assert sorted(await agent.events(2)) == [("ADMIN_DOWN", "rs0"), ("ADMIN_DOWN", "rs1")]
    space.ip("link set rs1 up")
    async with agent_in(space, tmp_path) as agent:
        assert await agent.events(1) == [("ADMIN_UP", "rs1")]
        space.ip("link set rs0 up")
        assert await agent.events(1) == [("ADMIN_UP", "rs0")]


async def test_more_messages_than_the_kernel_keeps_lose_no_state(space: Space, tmp_path: Path) -> None:
    """An agent that stands still while thousands come, and the one that matters after them."""
    space.add("rs1")
    space.ip("link set rs0 up")
    async with agent_in(space, tmp_path) as agent:
        assert await agent.events(1) == [("ADMIN_DOWN", "rs1")]
        agent.signal(signal.SIGSTOP)
        space.ip(*(f"link set rs1 mtu {1400 + turn % 2}" for turn in range(5000)), "link set rs0 down")
        agent.signal(signal.SIGCONT)
        found = await agent.event()
        assert (found["kind"], found["port"], found["detail"]) == ("ADMIN_DOWN", "rs0", "rs0 was found disabled")


def test_only_the_kernel_is_believed() -> None:
    """Another process may write to the socket as well."""
    forged = message(index=1, length=LINK_BYTES)
    with (
        contextlib.closing(Rtnetlink()) as listener,
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as other,
    ):
        try:
            sent = other.sendto(forged, (listener._socket.getsockname()[0], 0))
        except PermissionError as error:
            pytest.skip(f"it is not writable here: {error}")
        assert sent == LINK_BYTES
        received = []
        with contextlib.suppress(BlockingIOError):
            while True:
                received.append(listener.message())
        assert b"" in received and forged not in received
