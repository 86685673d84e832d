"""The messages that the devices of the small fabric send, round after round, and the four stages that process them.

The faults are those of `lab.world.faults`, the fabric is the laboratory's, without random traffic.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from collectors.core.poll import StatusSchedule
from lab.bench.load.injected_effects import read
from lab.world import demo_fabric
from lab.world.columns import PRIORITY, Column
from lab.world.demo_fabric import DemoShape
from lab.world.demo_world import DemoWorld
from lab.world.effects import CounterIncrement, Effect, EmitEvent, GaugeOverride, Interval
from lab.world.fabric_arrays import FabricArrays, fabric_arrays
from lab.world.fault_placement import FaultPlacer
from lab.world.faults import Fault
from lab.world.faults.congestion import Collapse, Imbalance, Incast, PauseStorm, StalledCredits, StoppedQueue
from lab.world.faults.devices import ClockSkew, Reboot, SilentDevice
from lab.world.faults.hosts import DegradedPcie, SlowHost, SlowRail
from lab.world.faults.links import AdminDown, Degrading, LinkDown, ReplayedFrames
from lab.world.ground_truth import AnyFault, GroundTruth, InjectedFault, PlacedFault
from lab.world.traffic import SteadyTraffic
from streams.decide.params import DecideParams
from streams.decide.stage import Decide
from streams.detect.attribute.stage import Attribute
from streams.detect.correlate.stage import Correlate
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory, Link
from streams.fabric.link_table import TopologyLink
from streams.fabric.topology import Topology
from streams.replay.driver import Stages, drive
from streams.wire.models import (
    NO_INDEX,
    CollectorStatus,
    Finding,
    Message,
    Remediation,
    RowKind,
    Samples,
    Source,
    Symptom,
)
from tests.worlds.measure_stage import detected
from tests.worlds.observations import GNMI, at
from tests.worlds.small_fabric import begun, topology

ROUND_S = 10
BYTES_S = 25_000_000_000
"""200 Gb/s."""
LOSSY_BYTES_S = 4_096_000
"""1,000 frames a second."""
Seconds = tuple[float, float]


def stages(params: DetectParams | None = None, decide: DecideParams | None = None) -> Stages:
    params = params or DetectParams()
    return Stages(Measure(params), Correlate(params), Attribute(params), Decide(decide or DecideParams()))


@dataclass(frozen=True, slots=True)
class SessionDown:
    """The BFD session of a port is down at one end, for whatever reason; no detector reports it alone."""

    port: Port
    interval: Interval

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        return [GaugeOverride(fabric.port_number(self.port), Metric.BFD_SESSION_UP, self.interval, value=0.0)]

    def ground_truths(self) -> list[GroundTruth]:
        return []


class Place(NamedTuple):
    """The port of a fault, its link, and the time; the port of a fault of a device has no name, and no link."""

    port: Port
    link: Link | None
    interval: Interval


class Kind(NamedTuple):
    """A fault of the laboratory by the name that tests use, and the columns that are read where it occurs."""

    fault: Callable[[Any], PlacedFault]
    """Returns the fault at a Place."""
    columns: tuple[Column, ...] = ()


_RX, _TX, _SPEED = (Metric.RX_BYTES, NO_INDEX), (Metric.TX_BYTES, NO_INDEX), (Metric.SPEED_BPS, NO_INDEX)
_MARKED = (_RX, (Metric.RX_PACKETS, NO_INDEX), (Metric.ROCE_ECN_MARKED_PACKETS, NO_INDEX))
_PFC = ((Metric.PFC_TX_FRAMES, PRIORITY), (Metric.PFC_RX_FRAMES, PRIORITY))
_STALLED = (Metric.PCIE_STALLED_WRITE_SECONDS, NO_INDEX)
_WATCHDOG = tuple(
    (metric, NO_INDEX)
    for metric in (Metric.PFC_WATCHDOG_STORMED, Metric.PFC_WATCHDOG_STORMS, Metric.PFC_WATCHDOG_RESTORES)
)
_TRIMMED = tuple(
    (metric, NO_INDEX)
    for metric in (
        Metric.TX_BYTES, Metric.TX_PACKETS, Metric.TX_DISCARDS, Metric.TRIMMED_PACKETS, Metric.TRIMMED_TX_PACKETS,
        Metric.TRIMMED_DROPPED_PACKETS,
    )
)  # fmt: skip
KINDS = {
    "down": Kind(lambda at: LinkDown(at.link, at.interval)),
    "disabled": Kind(lambda at: AdminDown(at.link, at.port, at.interval)),
    "not_polled": Kind(lambda at: SilentDevice(at.port.device, at.interval)),
    "boots": Kind(lambda at: Reboot(at.port.device, at.interval)),
    "an_hour_ahead": Kind(lambda at: ClockSkew(at.port.device, at.interval, 3600)),
    "sessions_down": Kind(lambda at: SessionDown(at.port, at.interval), ((Metric.BFD_SESSION_UP, NO_INDEX),)),
    "lossy": Kind(
        lambda at: Degrading(at.link, at.port, at.interval, lost_ratio=1e-3),
        ((Metric.RX_FCS_ERRORS, NO_INDEX), (Metric.RX_PACKETS, NO_INDEX)),
    ),
    "corrupting": Kind(
        lambda at: Degrading(at.link, at.port, at.interval, lost_ratio=5e-9, errors=((Metric.UNCORRECTED_SYMBOLS, 1),)),
        ((Metric.UNCORRECTED_SYMBOLS, NO_INDEX), (Metric.RX_PACKETS, NO_INDEX)),
    ),
    "replaying": Kind(
        lambda at: ReplayedFrames(at.link, at.port, at.interval, 1e-3),
        tuple(
            (metric, NO_INDEX)
            for metric in (
                Metric.RX_PACKETS,
                Metric.LLR_RX_OK,
                Metric.LLR_RX_BAD,
                Metric.LLR_TX_REPLAYS,
                Metric.LLR_TX_DISCARDS,
                Metric.FEC_UNCORRECTED_CODEWORDS,
            )
        ),
    ),
    "slow": Kind(lambda at: SlowRail(at.link, at.interval, 0.7), (_RX, _TX)),
    "overloaded": Kind(lambda at: Imbalance(at.port.device, at.interval, ((at.link, at.port, 0.8),)), (_TX,)),
    "throttled": Kind(
        lambda at: Collapse("", (at.link,), at.interval, 0.6, 0.2),
        ((Metric.PFC_RX_PAUSE_USECONDS, PRIORITY), _TX, _SPEED),
    ),
    "incast": Kind(lambda at: Incast(at.link, at.interval, marked_ratio=0.4), _MARKED),
    "full": Kind(lambda at: Incast(at.link, at.interval), (_SPEED, *_MARKED)),
    "pausing": Kind(
        lambda at: PauseStorm(at.link, at.port, at.interval, frames_per_s=12_000), (*_PFC, _RX, _TX, _STALLED, _SPEED)
    ),
    "waiting": Kind(
        lambda at: StalledCredits(at.link, at.port, at.interval),
        ((Metric.TX_WAIT_BYTES, NO_INDEX), _RX, _TX, _SPEED),
    ),
    "stalled": Kind(
        lambda at: StalledCredits(at.link, at.port, at.interval), (_RX, _TX, _SPEED, (Metric.CREDITS_USED, NO_INDEX))
    ),
    "stormed": Kind(lambda at: StoppedQueue(at.link, at.port, at.interval), (_TX, _SPEED, *_WATCHDOG)),
    "trimming": Kind(
        lambda at: Incast(at.link, at.interval, trimmed_per_s=(50_000.0, 1_000.0)), (_SPEED, *_MARKED, *_TRIMMED)
    ),
    "narrow": Kind(lambda at: DegradedPcie(at.link, at.interval)),
    "pcie_stalled": Kind(lambda at: SlowHost((at.link,), at.interval, counted=(_STALLED[0], 1.0))),
}
"""The faults by the fields of the worlds; a column is read only in worlds with a fault that changes it."""
READ_OF_INJECTED = (_RX, _TX, *((metric, NO_INDEX) for metric in (Metric.RX_PACKETS, Metric.TX_PACKETS)))
"""Counters that are read wherever the laboratory has placed a fault."""


@dataclass
class SmallWorld:
    """Faults of the small fabric, in seconds, by `device/port` or by device."""

    topology: Topology = field(default_factory=topology)
    down: dict[str, list[Seconds]] = field(default_factory=dict)
    disabled: dict[str, list[Seconds]] = field(default_factory=dict)
    offline: dict[str, list[Seconds]] = field(default_factory=dict)
    """Devices that do not answer, and whose links are down at both ends."""
    not_polled: dict[str, list[Seconds]] = field(default_factory=dict)
    """Healthy devices that are not polled."""
    boots: dict[str, float] = field(default_factory=dict)
    """By device, when it boots."""
    an_hour_ahead: dict[str, list[Seconds]] = field(default_factory=dict)
    """By device, when its clock is an hour ahead."""
    lossy: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports that lose one of a thousand frames a second to bad checksums."""
    corrupting: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports of InfiniBand that count a symbol error, which no correction recovers, for every 200 million packets."""
    replaying: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports that get one of a thousand frames damaged, all of which link-level retry sends again."""
    slow: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports whose link carries 70 % of the 200 Gb/s of all others."""
    incast: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports of hosts that receive 97 % of 400 Gb/s, 40 % of it marked; all others are half full."""
    full: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports of hosts that receive 97 % of 400 Gb/s, none of it marked; all others are half full."""
    throttled: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports of hosts that are paused 60 % of the time and send a fifth of the 200 Gb/s of all others."""
    overloaded: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports that send 60 % more than the 200 Gb/s of all others."""
    sessions_down: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports that are up while their BFD session is down."""
    pausing: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports that pause the far side all the time, so that it sends nothing."""
    waiting: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports of InfiniBand that accept nothing, so that the far side waits for credits."""
    stalled: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports that free no credits, so that the far side sends nothing."""
    stormed: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports of switches with a queue that the PFC watchdog holds."""
    trimming: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports of hosts with an incast, for which the switch trims 50,000 packets a second and drops 1,000 of these."""
    pcie_stalled: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports whose NIC waits for its host."""
    injected: tuple[InjectedFault, ...] = ()
    """Faults that the laboratory has placed."""

    @cached_property
    def fabric(self) -> DemoWorld:
        """Return the laboratory's fabric with these faults; it can be read at any moment."""
        links = tuple(map(_cabled, self.topology.links.values()))
        inventory = Inventory(devices=tuple(self.topology.devices.values()), links=links)
        faults: tuple[AnyFault, ...] = (*self.injected, *self.placed_faults())
        return DemoWorld(inventory, faults, 1, at(0), bytes_per_s=LOSSY_BYTES_S if self.lossy else BYTES_S)

    def placed_faults(self) -> Iterator[PlacedFault]:
        """Yield the faults of all fields."""
        for name, kind in KINDS.items():
            for where, intervals in getattr(self, name, {}).items():
                port = Port(*(*where.split("/", 1), "")[:2])
                link = self.link_at(port) if port.port else None
                for begin, end in [(intervals, intervals)] if name == "boots" else intervals:
                    yield kind.fault(Place(port, link, Interval(at(begin), at(end))))
        for device, intervals in self.offline.items():
            for begin, end in intervals:
                interval = Interval(at(begin), at(end))
                yield SilentDevice(device, interval)
                yield from (LinkDown(_cabled(one), interval) for one in self.topology.links_of.get(device, ()))

    def link_at(self, port: Port) -> Link:
        link = self.topology.link_at(port)
        assert link is not None
        return _cabled(link)

    def ports_of(self, device: str) -> tuple[str, ...]:
        """Return the ports of a device, in the order of its links."""
        ends = (end for link in self.topology.links_of[device] for end in (link.lower, link.upper))
        return tuple(end.port for end in ends if end.device == device)

    @cached_property
    def _columns(self) -> tuple[Column, ...]:
        """Return the columns that are read beside the states of ports."""
        own = [column for name, kind in KINDS.items() if getattr(self, name, {}) for column in kind.columns]
        for effect in (effect for fault in self.injected for effect in fault.effects):
            if isinstance(effect, CounterIncrement):
                own.append((effect.metric, effect.index))
            elif isinstance(effect, GaugeOverride):
                own.append((effect.metric, NO_INDEX))
        return tuple(dict.fromkeys((*own, *READ_OF_INJECTED) if self.injected else own))

    def rounds(self, until: float, source: Source = GNMI, phase: float = 0) -> Iterator[Samples]:
        """Yield the readings of each device, every ROUND_S."""
        t = phase
        while t <= until:
            for device in self.topology.links_of:
                if not self.is_silent(device, t):
                    yield self._reading(device, t, source)
            t += ROUND_S

    def _reading(self, device: str, t: float, source: Source) -> Samples:
        fabric, now_ns, ports = self.fabric, at(t), self.ports_of(device)
        gauges = [Metric.OPER_UP, Metric.ADMIN_UP, *(metric for metric, _ in self._columns if not metric.counter)]
        counted = [column for column in self._columns if column[0].counter]
        counters, read_gauges = read(fabric, device, ports, counted, gauges, now_ns)
        return Samples(
            device, source, "c", 1, round(t), fabric.clock_ns(device, now_ns), now_ns, self.boot_id(device, t),
            RowKind.ROW_KIND_PORT, ports, 0, counters, read_gauges,
        )  # fmt: skip

    def other_messages(self, until: float) -> Iterator[Message]:
        """Yield the messages that are no readings of ports; subclasses have others."""
        emitted = (effect for fault in self.injected for effect in fault.effects if isinstance(effect, EmitEvent))
        return (effect.message for effect in emitted)

    def is_silent(self, device: str, t: float) -> bool:
        """Return whether a device is offline or not polled."""
        return not self.fabric.device(device, at(t)).is_up

    def boot_id(self, device: str, t: float) -> int:
        """Return the boot id of a device, which each reboot increases."""
        return 1 + sum(interval.end_ns <= at(t) for interval in self.fabric.reboots(device))


def placed(fault: Fault, seed: int = 3) -> SmallWorld:
    """Return a fabric of five hosts in which `Fault.inject` has placed a fault that shows at ports, at once if long."""
    inventory = demo_fabric.inventory(DemoShape(pods=1, hosts=5, planes=1, spines=1, uplinks=1), at(0))
    placer = FaultPlacer(inventory, fabric_arrays(inventory), SteadyTraffic(), np.random.default_rng(seed))
    within = Interval(at(100), at(400))
    return SmallWorld(topology=Topology(inventory), injected=(fault.inject(placer, within),))


def _cabled(link: TopologyLink) -> Link:
    role: Any = link.role
    return Link(*link.lower, *link.upper, role, link.rail, link.plane, link.speed_bps)


def _in(intervals: Sequence[Seconds] | None, t: float) -> bool:
    return any(begin <= t < end for begin, end in intervals or ())


def status(
    device: str, t: float, *, reachable: bool = True, error: str = "", cadence: float = 10, collector: str = "g0"
) -> CollectorStatus:
    """Return the status of a target that a collector reports."""
    return CollectorStatus(collector, 1, GNMI, device, at(t), reachable, error, cadence_ns=ns(cadence))


def _never(device: str) -> float:
    return float("inf")


Statuses = Callable[..., Iterator[CollectorStatus]]


def statuses(world: SmallWorld, until: float, *, ends_at: Callable[[str], float] = _never) -> Iterator[CollectorStatus]:
    """Yield the statuses of collectors, each until it ends; a target counts as reachable until its collector doubts."""
    schedules = {device: StatusSchedule(device, ROUND_S) for device in world.topology.links_of}
    for step in range(int(until // ROUND_S) + 1):
        t = step * ROUND_S
        for device, schedule in schedules.items():
            if not world.is_silent(device, t):
                schedule.sampled(t)
            if t < ends_at(device) and schedule.is_due(t, reachable=True):
                yield status(device, t)


def statuses_each_round(
    world: SmallWorld, until: float, *, ends_at: Callable[[str], float] = _never
) -> Iterator[CollectorStatus]:
    """Yield one status for each device and round, as recordings have them, until its collector ends."""
    for step in range(int(until // ROUND_S) + 1):
        t = step * ROUND_S
        yield from (status(device, t) for device in world.topology.links_of if t < ends_at(device))


def recorded(world: SmallWorld, until: float) -> Iterator[Message]:
    """Yield all messages of a world: readings, other messages and statuses."""
    yield from world.rounds(until)
    yield from world.other_messages(until)
    yield from statuses(world, until)


def play(
    messages: Iterable[Message],
    top: Topology | None = None,
    params: DetectParams | None = None,
    decide: DecideParams | None = None,
) -> list[Finding | Remediation]:
    """Return every revision that a backtest of these messages publishes."""
    return list(drive(stages(params, decide), top or topology(), messages, ns(30)))


def measured(top: Topology, rows: Iterable[Samples], restart_at: float | None = None) -> list[Symptom]:
    """Return the symptoms that measure emits; it is restored from its own snapshot before `restart_at`."""
    stage, symptoms = begun(Measure(DetectParams()), top), []
    for row in rows:
        if restart_at is not None and row.sampled_at_ns == at(restart_at):
            stage = begun(Measure(DetectParams()), top, stage.snapshot(), epoch=2)
        symptoms += [o.message for o in detected(stage.process([row])) if isinstance(o.message, Symptom)]
    return symptoms


def findings(published: Iterable[Finding | Remediation]) -> list[Finding]:
    """Return the last revision of each finding, in the order of their starts."""
    newest = {one.id: one for one in published if isinstance(one, Finding)}
    return sorted(newest.values(), key=lambda f: (f.started_at_ns, f.subject.id))
