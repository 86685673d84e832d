"""Serves the switches of the world over SNMP v2c, each on a loopback address of its own, and sends traps. I/O only.

Each agent has an address of its own because the source address of a trap identifies its sender. While a switch reboots
its agent does not answer; afterwards it sends a coldStart.
"""

import asyncio
import contextlib
from bisect import bisect_left
from typing import Any

from lab.servers.snmp_agent import SnmpAgent
from lab.world.demo_world import DemoWorld
from streams.instrument.clock import Clock
from streams.wire.errors import Misconfigured, Reject


class _Protocol(asyncio.DatagramProtocol):
    def __init__(self, servers: "SnmpServers", agent: SnmpAgent) -> None:
        self._servers = servers
        self._agent = agent
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        response = self._servers.answer(self._agent, data)
        if response is not None:
            self._transport.sendto(response, address)


class SnmpServers:
    """The agents of all switches; `addresses` is set once entered. Traps go to `trap_to` if given."""

    def __init__(
        self, world: DemoWorld, clock: Clock, community: str = "public", trap_to: tuple[str, int] | None = None,
        network: str = "127.77",
    ) -> None:  # fmt: skip
        self._world = world
        self._clock = clock
        self._community = community.encode()
        self._trap_to = trap_to
        self._network = network
        self._transports: dict[str, asyncio.DatagramTransport] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.agents = {device: SnmpAgent(world, device) for device in world.switches}
        self.addresses: dict[str, str] = {}

    def answer(self, agent: SnmpAgent, data: bytes) -> bytes | None:
        """Return the response of a switch now, None while it is unreachable or if the request is malformed."""
        now_ns = self._clock.now_ns()
        if not self._world.device(agent.device, now_ns).is_up:
            return None
        with contextlib.suppress(Reject):
            return agent.answer(data, self._community, now_ns)
        return None

    async def __aenter__(self) -> "SnmpServers":
        loop = asyncio.get_running_loop()
        for number, (device, agent) in enumerate(self.agents.items(), start=1):
            host = f"{self._network}.{number // 250}.{number % 250 + 1}"
            try:
                transport, _ = await loop.create_datagram_endpoint(
                    lambda agent=agent: _Protocol(self, agent), local_addr=(host, 0)  # type: ignore[misc]
                )  # fmt: skip
            except OSError as error:
                await self.__aexit__()
                raise Misconfigured(f"{device}: cannot listen on {host}: {error.strerror}") from error
            self._transports[device] = transport
            self.addresses[device] = f"{host}:{transport.get_extra_info('sockname')[1]}"
        if self._trap_to is not None:
            self._tasks = [asyncio.create_task(self._send_traps(agent)) for agent in self.agents.values()]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for transport in self._transports.values():
            transport.close()
        self._transports = {}

    async def _send_traps(self, agent: SnmpAgent) -> None:
        """Send each trap at its moment."""
        boots = [span.end_ns for span in self._world.reboots(agent.device)]
        moments = sorted({*self._world.changes(agent.device), *boots})
        for moment_ns in moments[bisect_left(moments, self._clock.now_ns()) :]:
            await asyncio.sleep(max(0.0, (moment_ns - self._clock.now_ns()) / 1e9))
            if self._world.device(agent.device, moment_ns).is_up:
                for trap in agent.traps(moment_ns, self._community):
                    self._transports[agent.device].sendto(trap, self._trap_to)
