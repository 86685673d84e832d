"""Reads one device: discovers its ports, polls it, processes its traps, and reconnects when it fails.

Combines reading (I/O) and parsing (pure). The poll never waits for the facts: the device's identity, the modules in its
ports and the owners of its sensors are requested concurrently, over another socket.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar

import structlog

from collectors.core.context import DeviceEvent, Emitter, StatusReporter
from collectors.core.device_share import DeviceShare
from collectors.core.metrics import CollectorMetrics
from collectors.core.poll import Pace, log_reachability, poll
from collectors.snmp import facts, mib, port_index, vendor_optics
from collectors.snmp.ber import Column, Value
from collectors.snmp.engine import Engines
from collectors.snmp.octet_text import literal, whole
from collectors.snmp.optics import Mapped
from collectors.snmp.params import Params, Target
from collectors.snmp.read import Agent
from collectors.snmp.reading import Composer, RestartDetection
from collectors.snmp.traps import notification
from streams.instrument.clock import Clock
from streams.wire.errors import Reject, Retry
from streams.wire.models import EventKind, Facts, Samples

Kind = TypeVar("Kind")
_log = structlog.get_logger("railsight.snmp")

_DISCOVERY = (*mib.INTERFACES, *mib.STATES, *mib.EVERY_COUNTER)
_SCALARS = (mib.SYS_UP_TIME, mib.ENGINE_BOOTS, mib.ENGINE_TIME)
_IDENTITY = (mib.SYS_DESCR, mib.SYS_OBJECT_ID)
_FACTS = (
    (*mib.ENTITIES, mib.ENTITY_ALIAS),
    (*mib.LLDP_REMOTE, *mib.LLDP_LOCAL),
)
_MIN_FACTS_INTERVAL_S = 60.0
"""The minimum interval of facts, for a device that changes continuously."""


_POLLS = 3
"""The first discovery after one in which values were missing; the later ones are less and less frequent."""


def _values_missing(ports: port_index.PortIndex) -> str:
    """Return which ports lack which counters and states; empty if none does."""
    if not ports.missing:
        return ""
    names = sorted({name for names in ports.missing.values() for name in names})
    return f"no {', '.join(sorted(ports.missing))} of {len(names)} of {len(ports.name)} ports: {', '.join(names[:3])}"


async def _complete(agent: Agent, cells: dict[bytes, Column], types: frozenset[int] | None) -> None:
    """Read the cells of ports that a walk did not return; of a column without any, three ports are tried."""
    for columns in (mib.INTERFACES, (*mib.STATES, *mib.EVERY_COUNTER)):
        rows = list(port_index.port_rows(cells, types))
        tried = frozenset(rows[n] for n in (0, len(rows) // 2, -1)) if rows else frozenset()
        await agent.fill(cells, {column: tried for column in columns if not cells[column]})
        await agent.fill(cells, {column: frozenset(rows) for column in columns if cells[column]})


class Discovery:
    """Schedules further discoveries while ports lack values: an agent that has just started has not all of them."""

    def __init__(self, device: str, cadence_s: float, longest_s: float) -> None:
        self.missing: dict[str, tuple[str, ...]] = {}
        self._device = device
        self._shortest_s, self._longest_s = _POLLS * cadence_s, longest_s
        self._wait_s = self._due_s = 0.0

    def is_due(self, now_s: float) -> bool:
        """Return True if the ports are to be discovered again."""
        return bool(self.missing) and now_s >= self._due_s

    def done(self, ports: port_index.PortIndex, now_s: float) -> None:
        """Record a discovery; log the ports that lack values if they are others than before."""
        if ports.missing != self.missing:
            self.missing, self._wait_s = ports.missing, 0.0
            if ports.missing:
                _log.warning("values missing", device=self._device, why=_values_missing(ports), ports=ports.missing)
            else:
                _log.info("values complete", device=self._device, ports=len(ports.name))
        self._wait_s = min(max(2 * self._wait_s, self._shortest_s), self._longest_s)
        self._due_s = now_s + self._wait_s


class DeviceReader:
    """Reads one device until cancelled. Randomness and time are arguments; a misbehaving device never ends it."""

    def __init__(
        self, target: Target, params: Params, engines: Engines, emitter: Emitter, metrics: CollectorMetrics,
        clock: Clock,
        rng: random.Random,
    ) -> None:  # fmt: skip
        self.name = target.name
        self._where = target.host_and_port
        self.address = literal(self._where[0])
        """The last address that the device's name resolved to."""
        self._params = params
        self._engines = engines
        self.login = engines.login
        self._emitter = emitter
        self._metrics = metrics
        self._clock = clock
        self._rng = rng
        self._share = DeviceShare(target.name, params.max_values_per_s, metrics)
        self._agent: Agent | None = None
        self._restarts = RestartDetection()
        self._composer = Composer()
        self._ports: port_index.PortIndex | None = None
        self._discovery = Discovery(target.name, params.cadence_s, params.facts_every_s)
        self._interfaces: dict[bytes, Column] = {}
        self._optics_map = Mapped((), {})
        self._sensor_rows: dict[bytes, frozenset[bytes]] = {}
        """The rows of each column of sensors, mapped or not: if they change, the facts are requested again."""
        self._reported: object = None
        """The sensors that the last log line reported as left out."""
        self._has_uptime = True
        self._optics_due_s = float("-inf")
        self._facts_wanted = asyncio.Event()
        self._disabled: set[str] = set()
        self._statuses = StatusReporter(emitter, target.name, params.cadence_s, params.status_every_s, clock)
        self._reachable, self._error = False, "not read yet"

    async def run(self) -> None:
        """Poll at each cadence, and request facts concurrently."""
        pace = Pace(self._params.cadence_s, self._params.deadline_s)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(poll(self.name, self.read, pace, self._metrics, self._rng, self._missed))
                tasks.create_task(self._run_facts())
        finally:
            self.close()

    async def read(self) -> Samples:
        """Read the device once. Raises Retry and Reject."""
        agent = await self._connected()
        await self._check_restart(agent)
        ports, cells, started_ns = await self._cells(agent)
        ended_ns = self._clock.now_ns()
        if self._restarts.pending is not None:
            self._decide_restart(self._restarts.pending, cells)
        self._restarts.cells = dict(cells)
        cells |= await self._optics(agent)
        reading = self._composer.compose(
            ports, cells, self._optics_map.sensors, (started_ns + ended_ns) // 2, ended_ns, self._restarts.boot_id
        )
        self._metrics.add("updates", self.name, sum(len(column) for column in cells.values()))
        samples = self._emitter.samples(self.name, reading)
        self._statuses.sampled(samples.sampled_at_ns)
        error = self._share.report(asyncio.get_running_loop().time()) or _values_missing(ports)
        self._set_reachable(reachable=True, error=error)
        return samples

    async def _cells(self, agent: Agent) -> tuple[port_index.PortIndex, dict[bytes, Column], int]:
        """Return the ports, their cells, and the time of the request."""
        cells: dict[bytes, Column] = {}
        if self._discovery.is_due(asyncio.get_running_loop().time()):
            self._ports = None
        for _ in range(2):
            ports = self._ports or await self._inspect(agent)
            started_ns = self._clock.now_ns()
            cells = await agent.columns(ports.columns)
            await agent.fill(cells, ports.expected)
            if frozenset(cells.get(mib.IF_OPER_STATUS, ())) == ports.everything:
                break
            self._ports = None  # ports were added or removed: an index may now belong to another port
        return ports, cells, started_ns

    async def read_whole(self) -> Samples:
        """Read the device once with facts first, so that the optics are included. Raises Retry and Reject."""
        agent = await self._connected()
        await self._check_restart(agent)
        await self._inspect(agent)
        await self._has_facts()
        return await self.read()

    async def _connected(self) -> Agent:
        if self._agent is None:
            agent = self._new_agent()
            self.address = literal(await agent.connect())
            self._agent = agent
        return self._agent

    def _new_agent(self) -> Agent:
        params = self._params
        return Agent(
            self.name, self._where, self._engines, self._metrics, timeout_s=params.timeout_s,
            tries=params.tries, share=self._share, max_varbinds=params.max_varbinds,
            at_once=params.varbinds_per_request,
        )  # fmt: skip

    def close(self) -> None:
        """Close the socket; the next reading resolves the name again and opens a new one."""
        agent, self._agent = self._agent, None
        if agent is not None:
            agent.close()

    def _missed(self, why: str) -> None:
        self._metrics.add("reconnects", self.name)
        self.close()
        self._set_reachable(reachable=False, error=why)

    async def _check_restart(self, agent: Agent) -> None:
        try:
            scalars = await agent.get(_SCALARS)
        except Reject:  # some agents refuse the whole request if they lack one object
            scalars = {}
            with contextlib.suppress(Reject):
                scalars = await agent.get((mib.SYS_UP_TIME,))
        ticks, counted, engine_s = (whole(scalars.get(oid)) for oid in _SCALARS)
        if ticks is None:
            ticks = None if engine_s is None else engine_s * 100 % (1 << 32)
            if self._has_uptime:
                self._has_uptime = False
                _log.warning(
                    "no sysUpTime", device=self.name,
                    effect="reboots are detected by snmpEngineTime" if ticks is not None else
                    "reboots are detected by traps only, and a counter that restarts counts as a reset",
                )  # fmt: skip
        if ticks is None:
            return
        now_ns = self._clock.now_ns()
        if self._restarts.observe(ticks, counted, engine_s, now_ns):
            self._ports = None
            self._facts_wanted.set()
            trap = self._restarts.pending
            detail = f"sysUpTime {ticks / 100:.0f} s" + (f", {trap.detail}" if trap is not None else "")
            self._restarts.pending = DeviceEvent(EventKind.DEVICE_REBOOT, "", now_ns, detail, self._restarts.boot_id)

    def _decide_restart(self, restart: DeviceEvent, cells: dict[bytes, Column]) -> None:
        """Report a restart of the device, unless its counters went on: then only its agent has restarted."""
        if self._restarts.was_only_agent(cells):
            _log.info("agent restarted, and the device did not", device=self.name, sign=restart.detail)
            return
        self._composer.restarted()
        self._emitter.event(self.name, restart, self._clock.now_ns())

    async def _inspect(self, agent: Agent) -> port_index.PortIndex:
        cells = await agent.columns(_DISCOVERY)
        types = None if self._params.every_interface else frozenset(self._params.if_types) or mib.PHYSICAL
        await _complete(agent, cells, types)
        ports = await asyncio.to_thread(  # other devices are read meanwhile
            port_index.port_index, cells, types, self._params.cadence_s, self._params.max_ports
        )
        self._ports = ports
        self._interfaces = {column: cells[column] for column in mib.INTERFACES}
        self._facts_wanted.set()
        if not self._discovery.missing:
            _log.info("ports discovered", device=self.name, ports=len(ports.name))
        for why, names in ports.left_out.items():
            _log.warning("counters left out", device=self.name, why=why, count=len(names), sample=names[0])
        self._discovery.done(ports, asyncio.get_running_loop().time())
        return ports

    async def _optics(self, agent: Agent) -> dict[bytes, Column]:
        """Return the sensors' values if they are due; if the set of sensors has changed, request the facts again."""
        now_s = asyncio.get_running_loop().time()
        if not self._optics_map.sensors or now_s < self._optics_due_s:
            return {}
        self._optics_due_s = now_s + self._params.optics_every_s - self._params.cadence_s / 2
        columns = dict.fromkeys(column for sensor in self._optics_map.sensors for column in sensor.columns)
        try:
            async with asyncio.timeout(self._params.deadline_s / 2):
                cells = await agent.columns(columns)
        except (TimeoutError, Retry, Reject) as why:  # the ports' values are emitted without them
            self._metrics.add("overdue" if isinstance(why, TimeoutError) else "unreadable", self.name)
            return {}
        if any(frozenset(cells[column]) != rows for column, rows in self._sensor_rows.items() if column in cells):
            self._facts_wanted.set()
        return cells

    async def _run_facts(self) -> None:
        """Request the facts at the start, after changes, and at intervals."""
        while True:
            try:
                async with asyncio.timeout(self._params.facts_every_s):
                    await self._facts_wanted.wait()
            except TimeoutError:
                pass
            self._facts_wanted.clear()
            wait_s = min(_MIN_FACTS_INTERVAL_S, self._params.facts_every_s)
            if not await self._has_facts():
                self._facts_wanted.set()
                wait_s = min(wait_s, self._params.cadence_s)
            await asyncio.sleep(wait_s)

    async def _has_facts(self) -> bool:
        """Request the facts; return True if the device answered before their deadline."""
        try:
            async with asyncio.timeout(self._params.facts_deadline_s):
                await self._request_facts()
        except (TimeoutError, Retry, Reject) as why:
            _log.warning(
                "no facts", device=self.name, why=str(why) or f"no answer in {self._params.facts_deadline_s:g} s"
            )
            return False
        return True

    async def _request_facts(self) -> None:
        """Request the facts; raises Retry if the device does not answer. Parts that cannot be decoded are left out."""
        if self._ports is None:
            return
        cells: dict[bytes, Column] = {}
        scalars: dict[bytes, Value] = {}
        async with self._new_agent() as agent:
            scalars = await self._part(agent.get(_IDENTITY))
            vendor = vendor_optics.enterprise(scalars.get(mib.SYS_OBJECT_ID))
            optics = (mib.SENSORS, vendor_optics.TABLES.get(vendor or 0, ()))
            for group in (*_FACTS, *(optics if self._params.optics_every_s else ())):
                cells |= await self._part(agent.columns(group))
        wanted = (*_FACTS, mib.SENSORS, vendor_optics.EVERY_COLUMN)
        tables = {column: cells.get(column, {}) for group in wanted for column in group}
        # Other devices are read meanwhile: a device may have 200,000 rows.
        found = await asyncio.to_thread(facts.extract, tables | self._interfaces, scalars, self._ports)
        self._optics_map, self._sensor_rows = found.optics, found.sensor_rows
        self._report_left_out(vendor_optics.enterprise(scalars.get(mib.SYS_OBJECT_ID)), found.unread)
        maker, model, serial, os_version = found.identity
        self._emitter.facts(
            Facts(
                self.name, self._clock.now_ns(), self._emitter.source, maker, model, os_version,
                self._restarts.booted_ns, serial, found.components, found.neighbors,
            )
        )  # fmt: skip

    async def _part(self, request: Awaitable[dict[bytes, Kind]]) -> dict[bytes, Kind]:
        try:
            return await request
        except Reject as why:
            self._metrics.add("unreadable", self.name)
            _log.warning("part of the facts refused", device=self.name, why=str(why))
            return {}

    def _report_left_out(self, vendor: int | None, unread: Mapping[str, tuple[str, ...]]) -> None:
        """Count the sensors that may belong to a port and are not read, and log them once until they change."""
        left_out = {**self._optics_map.left_out, **unread}
        if not self._optics_map.sensors and not left_out and facts.is_switch(vendor) and self._params.optics_every_s:
            left_out = {"no table of optics that is read": (f"vendor {vendor}",)}
        self._metrics.set("sensors_left_out", sum(map(len, left_out.values())), self.name)
        if left_out and left_out != self._reported:
            for why, names in left_out.items():
                _log.warning(
                    "sensors left out", device=self.name, why=why, count=len(names), sample=names[0],
                    next="docs/collectors/snmp.md, Sensors: how a sensor is assigned to its port, and which are read",
                )  # fmt: skip
        self._reported = left_out

    def on_trap(self, varbinds: dict[bytes, Value]) -> bool:
        """Process a trap of this device; return False if it names an unknown port."""
        if (trap := notification(varbinds)) is None:
            return True
        now_ns = self._clock.now_ns()
        if trap.kind is EventKind.DEVICE_REBOOT:
            restart = DeviceEvent(trap.kind, "", now_ns, trap.detail)
            if self._ports is None:
                self._emitter.event(self.name, restart, now_ns)
            else:  # of its agent; the next reading shows whether the device restarted
                self._restarts.pending = restart
            return True
        name = trap.name if self._ports is None else self._ports.name.get(trap.row, "")
        if not name:
            return self._ports is not None and trap.row in self._ports.everything  # such as a VLAN
        for kind in self._kinds(trap.kind, name, admin_up=trap.admin_up):
            self._emitter.event(self.name, DeviceEvent(kind, name, now_ns, trap.detail), now_ns)
        return True

    def _kinds(self, kind: EventKind, port: str, *, admin_up: bool | None) -> Sequence[EventKind]:
        """Return the events: a port shut by configuration is reported as shut before down, and as enabled before up."""
        if kind is EventKind.LINK_DOWN and admin_up is False:
            self._disabled.add(port)
            return EventKind.ADMIN_DOWN, kind
        if kind is EventKind.LINK_UP and port in self._disabled:
            self._disabled.discard(port)
            return EventKind.ADMIN_UP, kind
        return (kind,)

    def set_unreachable(self, error: str) -> None:
        """Report that the device could not be read."""
        self._set_reachable(reachable=False, error=error)

    def _set_reachable(self, *, reachable: bool, error: str = "") -> None:
        if reachable != self._reachable or error != self._error:
            log_reachability(_log, self.name, self._reachable, reachable=reachable, error=error)
        self._reachable, self._error = reachable, error
        self._statuses.report(reachable=reachable, error=error)
