"""Tests the host agent in a network namespace, in which ports are administratively shut and enabled."""

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

from collectors.host.links import HOLD_S, LINK_BYTES, Rtnetlink
from tests.fixtures.netlink_messages import message

WITHIN_S = 60.0


class Space:
    """A network namespace."""

    def __init__(self) -> None:
        self.name = f"rs-{uuid.uuid4().hex[:8]}"

    def ip(self, *lines: str) -> None:
        """Run `ip` commands in the namespace, one after the other."""
        given = "".join(f"{line}\n" for line in lines).encode()
        subprocess.run(["ip", "-n", self.name, "-batch", "-"], input=given, check=True, capture_output=True)

    def add(self, port: str) -> None:
        """Create a netdev with a far end; both are disabled."""
        self.ip(f"link add {port} type veth peer name far{port}")


@pytest.fixture
def space() -> Iterator[Space]:
    """Yield a namespace for this test, in which processes see its own sysfs."""
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
    """A running agent and the events that it prints."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def events(self, count: int) -> list[tuple[str, str]]:
        """Return kind and port of the next `count` events."""
        return [(event["kind"], event["port"]) for event in [await self.event() for _ in range(count)]]

    async def event(self) -> dict[str, Any]:
        """Return the next event."""
        assert self.process.stdout is not None
        async with asyncio.timeout(WITHIN_S):
            line = await self.process.stdout.readline()
        assert line, "the agent ended"
        result: dict[str, Any] = orjson.loads(line)
        return result

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the agent."""
        self.process.send_signal(number)


@asynccontextmanager
async def agent_in(space: Space, folder: Path) -> AsyncIterator[Agent]:
    """Run the agent in the namespace, from its start to its regular end."""
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


async def test_a_shut_port_is_reported(space: Space, tmp_path: Path) -> None:
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


async def test_changes_during_a_restart_are_reported(space: Space, tmp_path: Path) -> None:
    """The states that did not change are not reported again."""
    space.add("rs1")
    async with agent_in(space, tmp_path) as agent:
        assert sorted(await agent.events(2)) == [("ADMIN_DOWN", "rs0"), ("ADMIN_DOWN", "rs1")]
    space.ip("link set rs1 up")
    async with agent_in(space, tmp_path) as agent:
        assert await agent.events(1) == [("ADMIN_UP", "rs1")]
        space.ip("link set rs0 up")
        assert await agent.events(1) == [("ADMIN_UP", "rs0")]


async def test_an_overflow_of_the_kernels_buffer_loses_no_state(space: Space, tmp_path: Path) -> None:
    """The agent is suspended during thousands of messages and the relevant one after them."""
    space.add("rs1")
    space.ip("link set rs0 up")
    async with agent_in(space, tmp_path) as agent:
        assert await agent.events(1) == [("ADMIN_DOWN", "rs1")]
        agent.signal(signal.SIGSTOP)
        space.ip(*(f"link set rs1 mtu {1400 + turn % 2}" for turn in range(5000)), "link set rs0 down")
        agent.signal(signal.SIGCONT)
        found = await agent.event()
        assert (found["kind"], found["port"], found["detail"]) == ("ADMIN_DOWN", "rs0", "rs0 was found disabled")


def test_messages_of_other_processes_are_ignored() -> None:
    """Any process may write to the socket."""
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
