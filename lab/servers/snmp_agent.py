"""Answers SNMP requests as a simulated switch: its tables at a moment, its responses and its traps. Pure.

Implements GET, GETNEXT and GETBULK of version 2c.
"""

import asyncio
import contextlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from functools import partial
from typing import Any

from collectors.snmp import ber
from collectors.snmp.ber import (
    COUNTER32,
    COUNTER64,
    GAUGE32,
    INTEGER,
    OCTETS,
    OID,
    TIMETICKS,
    encoded,
    oid_bytes,
    oid_of,
)
from lab.world.demo_fabric import SOFTWARE
from lab.world.demo_links import PortState
from lab.world.demo_world import DemoWorld
from streams.fabric.catalogue import Metric
from streams.instrument.clock import Clock
from streams.wire.errors import Misconfigured, Reject

_TRAP = 0xA7
_NO_INSTANCE, _END = b"\x81\x00", b"\x82\x00"
_MOST_VARBINDS = 200
_ETHERNET, _UP, _DOWN = 6, 1, 2
_NAMED = 5
_ENTERPRISE = "1.3.6.1.4.1.32473"
"""The enterprise number reserved for documentation (RFC 5612)."""


class _Request(IntEnum):
    GET = 0xA0
    NEXT = 0xA1
    BULK = 0xA5


Name = tuple[int, ...]
EncodedValue = bytes
"""A value in BER."""


def _unsigned(tag: int, value: int) -> EncodedValue:
    return encoded(tag, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _integer(value: int) -> EncodedValue:
    return _unsigned(INTEGER, value)


def _text(value: str) -> EncodedValue:
    return encoded(OCTETS, value.encode())


def _status(*, is_up: bool) -> EncodedValue:
    return _integer(_UP if is_up else _DOWN)


def _counter64(read: Callable[[PortState], int]) -> Callable[[PortState], EncodedValue]:
    return lambda port: _unsigned(COUNTER64, read(port))


def _counter32(read: Callable[[PortState], int]) -> Callable[[PortState], EncodedValue]:
    return lambda port: _unsigned(COUNTER32, read(port) % 2**32)


def _none(_: PortState) -> int:
    return 0


_IF, _IFX = "1.3.6.1.2.1.2.2.1", "1.3.6.1.2.1.31.1.1.1"
_COLUMNS: dict[str, Callable[[PortState], EncodedValue]] = {
    f"{_IF}.2": lambda p: _text(p.name),
    f"{_IF}.3": lambda _: _integer(_ETHERNET),
    f"{_IF}.5": lambda p: _unsigned(GAUGE32, min(p.speed_bps, 2**32 - 1)),
    f"{_IF}.7": lambda p: _status(is_up=p.admin_up),
    f"{_IF}.8": lambda p: _status(is_up=p.oper_up),
    f"{_IF}.10": _counter32(lambda p: p.rx_bytes),
    f"{_IF}.13": _counter32(lambda p: p.counter(Metric.RX_DISCARDS)),
    f"{_IF}.14": _counter32(lambda p: p.fcs_errors),
    f"{_IF}.16": _counter32(lambda p: p.tx_bytes),
    f"{_IF}.19": _counter32(lambda p: p.counter(Metric.TX_DISCARDS)),
    f"{_IF}.20": _counter32(_none),
    f"{_IFX}.1": lambda p: _text(p.name),
    f"{_IFX}.6": _counter64(lambda p: p.rx_bytes),
    f"{_IFX}.7": _counter64(lambda p: p.rx_packets),
    f"{_IFX}.8": _counter64(_none),
    f"{_IFX}.9": _counter64(_none),
    f"{_IFX}.10": _counter64(lambda p: p.tx_bytes),
    f"{_IFX}.11": _counter64(lambda p: p.tx_packets),
    f"{_IFX}.12": _counter64(_none),
    f"{_IFX}.13": _counter64(_none),
    f"{_IFX}.15": lambda p: _unsigned(GAUGE32, p.speed_bps // 10**6),
    f"{_IFX}.19": lambda _: _unsigned(TIMETICKS, 0),
    "1.3.6.1.2.1.10.7.2.1.3": _counter32(lambda p: p.fcs_errors),
    "1.3.6.1.2.1.10.7.10.1.3": _counter32(lambda p: p.counter(Metric.PAUSE_RX_FRAMES)),
    "1.3.6.1.2.1.10.7.10.1.4": _counter32(lambda p: p.counter(Metric.PAUSE_TX_FRAMES)),
    "1.3.111.2.802.1.1.21.1.1.1.2": _counter32(lambda p: p.pause_frames(p.pauses_us)),
    "1.3.111.2.802.1.1.21.1.1.1.3": _counter32(lambda p: p.pause_frames(p.paused_us)),
}
"""The functions that read a port's columns; its ifIndex is its position among the switch's ports, from 1."""


class SnmpAgent:
    """The SNMP agent of one switch; time is an argument."""

    def __init__(self, world: DemoWorld, device: str) -> None:
        self._world = world
        self.device = device
        self.ports = world.ports.get(device, ())
        self._readers: dict[Name, Callable[[int], EncodedValue]] = dict(self._scalars())
        self._cells: dict[Name, tuple[int, Callable[[PortState], EncodedValue]]] = {
            (*oid_of(column), index): (index, read)
            for column, read in _COLUMNS.items()
            for index in range(1, len(self.ports) + 1)
        }
        self._names = sorted((*self._readers, *self._cells))

    def _scalars(self) -> Iterator[tuple[Name, Callable[[int], EncodedValue]]]:
        world, device = self._world, self.device
        row = next(row for row in world.inventory.devices if row.name == device)
        constants = {
            "1.3.6.1.2.1.1.2.0": encoded(OID, oid_bytes(oid_of(_ENTERPRISE))),
            "1.3.6.1.2.1.1.5.0": _text(device),
            "1.3.6.1.2.1.47.1.1.1.1.2.1": _text("Chassis"),
            "1.3.6.1.2.1.47.1.1.1.1.5.1": _integer(3),
            "1.3.6.1.2.1.47.1.1.1.1.11.1": _text(row.serial),
            "1.3.6.1.2.1.47.1.1.1.1.12.1": _text(row.vendor),
            "1.3.6.1.2.1.47.1.1.1.1.13.1": _text(row.model),
        }
        for index, port in enumerate(self.ports, start=1):
            far = partial(world.neighbor, device, port)
            constants |= {
                f"1.0.8802.1.1.2.1.3.7.1.2.{index}": _integer(_NAMED),
                f"1.0.8802.1.1.2.1.3.7.1.3.{index}": _text(port),
                f"1.0.8802.1.1.2.1.4.1.1.6.0.{index}.1": _integer(_NAMED),
            }
            for column, attribute in ((7, "port"), (9, "device")):
                oid = oid_of(f"1.0.8802.1.1.2.1.4.1.1.{column}.0.{index}.1")
                yield oid, lambda at_ns, far=far, attribute=attribute: _text(getattr(far(at_ns), attribute))  # type: ignore[misc]
        vendor_model = f"{row.vendor} {row.model}"
        version = partial(world.version, device, SOFTWARE)
        yield oid_of("1.3.6.1.2.1.1.1.0"), lambda at_ns: _text(f"{vendor_model} {version(at_ns)}")
        yield oid_of("1.3.6.1.2.1.47.1.1.1.1.10.1"), lambda at_ns: _text(version(at_ns))
        for name, value in constants.items():
            yield oid_of(name), lambda _, value=value: value  # type: ignore[misc]
        yield oid_of("1.3.6.1.2.1.1.3.0"), lambda at_ns: _unsigned(TIMETICKS, self.ticks(at_ns))
        yield oid_of("1.3.6.1.6.3.10.2.1.2.0"), lambda at_ns: _integer(self._boots(at_ns))
        yield oid_of("1.3.6.1.6.3.10.2.1.3.0"), lambda at_ns: _integer(self._up_ns(at_ns) // 10**9)

    def _up_ns(self, at_ns: int) -> int:
        return at_ns - self._world.device(self.device, at_ns).boot_ns

    def ticks(self, at_ns: int) -> int:
        """Return the sysUpTime."""
        return self._up_ns(at_ns) // 10**7 % 2**32

    def _boots(self, at_ns: int) -> int:
        return 1 + sum(span.end_ns <= at_ns for span in self._world.reboots(self.device))

    def answer(self, message: bytes, community: bytes, at_ns: int) -> bytes | None:
        """Return the response to a request; None for other messages or another community. Raise Reject."""
        body = ber.element(message, 0, len(message), ber.SEQUENCE)
        version = ber.element(message, body.start, body.end, INTEGER)
        sent_community = ber.element(message, version.end, body.end, OCTETS)
        if message[version.start : version.end] != b"\x01" or message[slice(*sent_community)] != community:
            return None
        kind = message[sent_community.end] if sent_community.end < body.end else 0
        pdu = ber.element(message, sent_community.end, body.end)
        numbers, i = [], pdu.start
        for _ in range(3):
            number = ber.element(message, i, pdu.end, INTEGER)
            numbers.append(int.from_bytes(message[slice(*number)], "big", signed=True))
            i = number.end
        requested = [ber.oid_numbers(oid) for oid, _, _ in ber.varbinds(message, *ber.element(message, i, pdu.end))]
        if (found := self._found(kind, requested, numbers[1], numbers[2], at_ns)) is None:
            return None
        first = ber.element(message, pdu.start, pdu.end)
        head = message[pdu.start : first.end] + b"\x02\x01\x00\x02\x01\x00"
        return _message(community, encoded(ber.RESPONSE, head + _list(found)))

    def _found(
        self, kind: int, requested: Sequence[Name], non_repeaters: int, repetitions: int, at_ns: int
    ) -> list[tuple[Name, EncodedValue]] | None:
        read = self._reader(at_ns)
        match kind:
            case _Request.GET:
                return [(name, read(name) or _NO_INSTANCE) for name in requested]
            case _Request.NEXT:
                return [self._next(name, read) for name in requested]
            case _Request.BULK:
                found = [self._next(name, read) for name in requested[: max(0, non_repeaters)]]
                repeated = list(requested[max(0, non_repeaters) :])
                max_rows = min(max(0, repetitions), _MOST_VARBINDS // max(1, len(repeated)))
                for _ in range(max_rows if repeated else 0):
                    row = [self._next(name, read) for name in repeated]
                    found += row
                    repeated = [name for name, _ in row]
                return found
        return None

    def _reader(self, at_ns: int) -> Callable[[Name], EncodedValue | None]:
        """Return a function that reads values at one moment; the state of each port is computed once."""
        states: dict[int, PortState] = {}

        def read(name: Name) -> EncodedValue | None:
            if (scalar := self._readers.get(name)) is not None:
                return scalar(at_ns)
            if (cell := self._cells.get(name)) is None:
                return None
            index, column = cell
            if index not in states:
                states[index] = self._world.port(self.device, self.ports[index - 1], at_ns)
            return column(states[index])

        return read

    def _next(self, name: Name, read: Callable[[Name], EncodedValue | None]) -> tuple[Name, EncodedValue]:
        i = bisect_right(self._names, name)
        if i == len(self._names):
            return name, _END
        return self._names[i], read(self._names[i]) or _NO_INSTANCE

    def traps(self, moment_ns: int, community: bytes) -> Iterator[bytes]:
        """Yield the traps of a moment: a coldStart after a boot, otherwise one for each port that changed."""
        if any(span.end_ns == moment_ns for span in self._world.reboots(self.device)):
            yield self._trap("1.3.6.1.6.3.1.1.5.1", (), moment_ns, community)
            return
        for index, name in enumerate(self.ports, start=1):
            before, now = (self._world.port(self.device, name, at_ns) for at_ns in (moment_ns - 1, moment_ns))
            if before.oper_up == now.oper_up:
                continue
            about = (
                ((*oid_of(f"{_IF}.1"), index), _integer(index)),
                ((*oid_of(f"{_IF}.7"), index), _status(is_up=now.admin_up)),
                ((*oid_of(f"{_IF}.8"), index), _status(is_up=now.oper_up)),
            )
            yield self._trap(f"1.3.6.1.6.3.1.1.5.{4 if now.oper_up else 3}", about, moment_ns, community)

    def _trap(self, kind: str, about: Iterable[tuple[Name, EncodedValue]], at_ns: int, community: bytes) -> bytes:
        varbinds = (
            (oid_of("1.3.6.1.2.1.1.3.0"), _unsigned(TIMETICKS, self.ticks(at_ns))),
            (oid_of("1.3.6.1.6.3.1.1.4.1.0"), encoded(OID, oid_bytes(oid_of(kind)))),
            *about,
        )
        head = _integer(at_ns // 1000 % 2**31) + b"\x02\x01\x00\x02\x01\x00"
        return _message(community, encoded(_TRAP, head + _list(varbinds)))


def _list(varbinds: Iterable[tuple[Name, EncodedValue]]) -> bytes:
    return encoded(
        ber.SEQUENCE,
        b"".join(encoded(ber.SEQUENCE, encoded(OID, oid_bytes(name)) + value) for name, value in varbinds),
    )


def _message(community: bytes, pdu: bytes) -> bytes:
    return encoded(ber.SEQUENCE, b"\x02\x01\x01" + encoded(OCTETS, community) + pdu)


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
        """Return the current response of a switch; None if it is unreachable or the request is malformed."""
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
