"""Builds one simulated day from a seed: a fabric, its jobs, its faults with ground truth, its negative cases.

Everything is drawn from one stream of random numbers in one order, so that a seed gives the same day again. Faults with
`own_stream` follow, each from its own stream. The messages of the day are generated as they are consumed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np

from lab.world.collector_outages import CollectorOutage, as_fault, inject_outages
from lab.world.columns import LINE_BPS
from lab.world.delivery_model import Cadence, DeliveryModel
from lab.world.effects import CounterIncrement, Effect, Interval, SignalLoss
from lab.world.fabric_arrays import fabric_arrays
from lab.world.fault_placement import FaultPlacer, NoRoom
from lab.world.faults import FAULTS, Fault
from lab.world.faults.devices import restart
from lab.world.ground_truth import BY_EVENT, InjectedFault
from lab.world.negative_cases import NEGATIVE_CASES, ODD_AGENTS, NegativeCase, hosts_in_maintenance
from lab.world.probe_mesh import ProbeAgents, drops_of, queues_of, with_addresses
from lab.world.telemetry import Telemetry
from lab.world.traffic import Traffic, over_two_pods
from lab.world.world import World
from streams.fabric.catalogue import Metric
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.inventory import Inventory, Job
from streams.fabric.topology import Topology
from streams.replay.score import Truth
from streams.wire.models import NO_INDEX, Condition

_MAX_CNP_PER_S = 20_000.0
"""The maximum rate of one flow: DCQCN (SIGCOMM'15) sends one in 50 us."""
_MAX_TIMEOUTS_PER_S = 100.0
"""The maximum rate of a NIC that loses nearly all packets: about ten queue pairs with timeouts of 0.1 s (choice)."""
_USECONDS_PER_S = 1e6
_OVERTAKEN_PER_S = 1e5
_BUFFERED = 0.1
"""A NIC's buffer absorbs pauses up to this share of the time (choice)."""
_DROPPED = 0.01
"""The share of packets dropped per share of the time that the NIC would pause: senders slow down (choice)."""
_PAUSES = frozenset(
    {
        Metric.PFC_RX_FRAMES, Metric.PFC_TX_FRAMES, Metric.PFC_RX_PAUSE_USECONDS, Metric.PFC_TX_PAUSE_USECONDS,
        Metric.PAUSE_RX_FRAMES, Metric.PAUSE_TX_FRAMES,
    }
)  # fmt: skip


def fault_without_pause(fault: InjectedFault) -> InjectedFault:
    """Return a fault as it appears without pause; a PFC storm has no effects."""
    if any(truth.condition is Condition.CONGESTION_PFC_STORM for truth in fault.truths):
        return replace(fault, effects=(), affected=())
    return replace(fault, effects=tuple(effects_without_pause(fault.effects)))


def effects_without_pause(effects: Iterable[Effect]) -> list[Effect]:
    """Return effects without pause: CNPs or timeouts in proportion to a host's paused time, and drops at a pausing
    host.
    """
    found: list[Effect] = []
    for effect in effects:
        if not isinstance(effect, CounterIncrement) or effect.metric not in _PAUSES:
            found.append(effect)
        else:
            found += _instead(effect)
    return found


def _instead(effect: CounterIncrement) -> Iterator[Effect]:
    """Yield the effects that replace a NIC's time of pause; none for frames, which count the same pause."""
    ratio = effect.per_s / _USECONDS_PER_S
    plain = replace(effect, index=NO_INDEX, per_s=0.0)
    if effect.metric is Metric.PFC_RX_PAUSE_USECONDS:
        if effect.interval.start_ns % 2:  # at random, and the same for all hosts of a fault
            yield replace(plain, metric=Metric.LOCAL_ACK_TIMEOUTS, per_s=_MAX_TIMEOUTS_PER_S * ratio)
        else:
            yield replace(plain, metric=Metric.CNP_HANDLED, per_s=_MAX_CNP_PER_S * ratio)
    elif effect.metric is Metric.PFC_TX_PAUSE_USECONDS and ratio >= _BUFFERED:
        yield replace(plain, metric=Metric.RX_DISCARDS, share=_DROPPED * ratio, of_metric=Metric.RX_PACKETS)


_S = 10**9
START_NS = round(datetime(2026, 3, 2, tzinfo=UTC).timestamp()) * _S
WARM_UP_S = 300.0
"""The time before the first fault: all sources have reported and their first window is closed."""
COOL_DOWN_S = 900.0
"""The time after the last fault until its findings have resolved."""
_MIN_S = 3000.0
"""The minimum length; the longest fault lasts 40 min."""
_FAULTS_PER_HOUR = 24
"""The number of faults of each condition that 2,048 GPUs have room for, all separated at their places."""
_STRETCHES = (1.0, 1.25, 1.5, 2.0, 3.0)
"""Factors by which the time is extended if the faults do not fit."""
_REFERENCE_GPUS = 2048
_NEGATIVE_RATIO_OVER_DAYS = 0.1
"""The share over days: a negative case every few minutes is no healthy fabric; a tenth is still 100 a day."""
_RESTARTS_PER_LEAF_DAY = 1 / 30
"""Over days each leaf restarts once a month for a new version (choice)."""
_RESTARTS, _ODD_AGENTS, _OUTAGES = 0xD0, 0xD1, 0xC0
"""The names of the streams of random numbers of restarts, of odd agents and of collectors' outages."""
_FAULTS_PER_SERVER_DAY = 1 / (5 * 400)
"""One network fault in 5 days on 400 servers (DETECTION 3, "Base rate")."""


@dataclass(frozen=True, slots=True)
class ScenarioSpec:
    """The size of a day: `each` faults of every condition, or with `days` the published base rate over them."""

    gpus: int = 2048
    seed: int = 1
    each: int = 50
    days: float = 0.0
    cadence: Cadence = field(default_factory=Cadence)
    faults: tuple[Fault, ...] = FAULTS
    planes: int = 1
    is_sprayed: bool = False
    """True if the senders spray the packets of a flow over all paths of a plane."""
    has_pause: bool = True
    """False if the fabric relies on congestion control, and no port pauses another."""
    killed_min: tuple[float, ...] = ()
    """For each length in minutes, one collector of switches is killed for so long."""

    def has(self, fault: Fault) -> bool:
        """Return True if the day has a fault."""
        possible = fault.min_planes <= self.planes and (self.is_sprayed or not fault.needs_spraying)
        return possible and fault in self.faults

    @property
    def delivery(self) -> DeliveryModel:
        """Return the model of delivery; over days agents send a tenth of all messages, instead of two thirds."""
        return DeliveryModel(agent_rounds=30) if self.days else DeliveryModel()

    @property
    def description(self) -> str:
        """Return a description of the faults."""
        return f"{self.days:g} days at the base rate" if self.days else f"{self.each} faults of each condition"

    @property
    def seconds(self) -> float:
        """Return the time within which faults start and end."""
        if self.days:
            return self.days * 86_400
        return max(_MIN_S, self.each / _FAULTS_PER_HOUR * 3600 * max(1.0, _REFERENCE_GPUS / self.gpus))


@dataclass(frozen=True, slots=True)
class Scenario:
    """One day: its faults, the number of its negative cases by name, and its messages."""

    within: Interval
    """The time within which faults start and end."""
    whole: Interval
    topology: Topology
    faults: list[InjectedFault]
    negative_cases: Counter[str]
    telemetry: Telemetry
    shut_ports: list[Truth]
    """The links that are down because a port was shut, as a link/down at that port; none of them is a fault."""
    outages: tuple[CollectorOutage, ...] = ()


def build(spec: ScenarioSpec) -> Scenario:
    """Return the day of a seed, extended until all faults fit; raise NoRoom if they never do."""
    for stretch in _STRETCHES[:-1]:
        with suppress(NoRoom):
            return _build(spec, stretch)
    return _build(spec, _STRETCHES[-1])


def _build(spec: ScenarioSpec, stretch: float) -> Scenario:
    rng = np.random.default_rng(spec.seed)
    # Each plane has a port of the NIC, at the speed that the world simulates.
    nic_bps = round(LINE_BPS) * spec.planes
    inventory = with_addresses(generate(GenerateParams(gpus=spec.gpus, planes=spec.planes, nic_bps=nic_bps, jobs=0)))
    fabric = fabric_arrays(inventory)
    first_ns = START_NS + round(WARM_UP_S * _S)
    within = Interval(first_ns, START_NS + round((WARM_UP_S + spec.seconds * stretch) * _S))
    whole = Interval(START_NS, within.end_ns + round(COOL_DOWN_S * _S))
    hosts = [name for name, is_host in zip(fabric.devices, fabric.is_host, strict=True) if is_host]
    pods = {device.name: device.pod for device in inventory.devices}
    hosts_per_job = min(32, max(4, len(hosts) // 8))
    order = over_two_pods([pods[host] for host in hosts], hosts_per_job)
    traffic = Traffic(len(hosts), hosts_per_job, whole, rng, order)
    placer = FaultPlacer(inventory, fabric, traffic, rng)
    maintained, effects = hosts_in_maintenance(placer, within)
    faults = list(_inject_faults(spec, placer, within))
    negative_cases, more = _inject_negative_cases(spec, placer, within)
    negative_cases["host-in-maintenance"] = len(maintained)
    faults += [*_inject_from_own_streams(spec, placer, within), *_inject_restarts(spec, placer, within)]
    outages = _inject_outages(spec, placer, within)
    faults += map(as_fault, outages)
    if not spec.has_pause:
        faults, more = [fault_without_pause(fault) for fault in faults], effects_without_pause(more)
    effects += more + [effect for fault in faults for effect in fault.effects]
    effects += _reordered(placer, whole) if spec.is_sprayed else ()
    topology = _topology(spec, inventory, maintained, traffic.jobs(hosts), faults)
    world = World(inventory, fabric, traffic, effects, START_NS, rng)
    drops = list(drops_of(effects, world.signal_losses, fabric))
    probes = ProbeAgents(inventory, fabric, drops, spec.seed, list(queues_of(effects, fabric)))
    telemetry = Telemetry(world, topology, effects, spec.cadence, spec.delivery, rng, probes)
    shut_ports = [
        Truth(*effect.interval, Condition.LINK_DOWN, *fabric.port(effect.disabled_port), BY_EVENT.trial_s)
        for effect in effects
        if isinstance(effect, SignalLoss) and effect.disabled_port is not None
    ]
    return Scenario(within, whole, topology, faults, negative_cases, telemetry, shut_ports, outages)


def _topology(
    spec: ScenarioSpec, inventory: Inventory, maintained: Mapping[str, datetime], jobs: tuple[Job, ...],
    faults: Iterable[InjectedFault],
) -> Topology:  # fmt: skip
    """Return what the stages know of the fabric: also hosts in maintenance, jobs, spraying, and parts that break."""
    devices = tuple(
        device._replace(maintenance_until=maintained.get(device.name))
        if device.kind == "host"
        else device._replace(load_balancing="sprayed" if spec.is_sprayed else "")
        for device in inventory.devices
    )
    parts = tuple(part for fault in faults for part in fault.parts)
    return Topology(replace(inventory, devices=devices, jobs=jobs, parts=parts))


def _inject_faults(spec: ScenarioSpec, placer: FaultPlacer, within: Interval) -> Iterator[InjectedFault]:
    faults = list(filter(spec.has, FAULTS))
    if not spec.days:
        for fault in faults:
            for _ in range(0 if fault.own_stream else spec.each):
                yield fault.inject(placer, within)
        return
    servers = placer.tiers.count("host")
    for _ in range(int(placer.rng.poisson(spec.days * servers * _FAULTS_PER_SERVER_DAY))):
        yield faults[placer.rng.integers(len(faults))].inject(placer, within)


def _inject_from_own_streams(spec: ScenarioSpec, placer: FaultPlacer, within: Interval) -> Iterator[InjectedFault]:
    if spec.days:
        return
    for fault in FAULTS:
        if fault.own_stream and spec.has(fault):
            same = [other for other in FAULTS if other.own_stream and other.condition is fault.condition]
            number = same.index(fault)
            # The first of a condition has no number: days of before the second one stay the same.
            with placer.own_stream(spec.seed, fault.condition.value, *([number] if number else [])):
                for _ in range(spec.each):
                    yield fault.inject(placer, within)


def _inject_restarts(spec: ScenarioSpec, placer: FaultPlacer, within: Interval) -> Iterator[InjectedFault]:
    """Restart leaves over days: each restart is a device/down; its other symptoms are no faults of their own."""
    with placer.own_stream(spec.seed, _RESTARTS):
        for _ in range(int(placer.rng.poisson(spec.days * placer.tiers.count("T0") * _RESTARTS_PER_LEAF_DAY))):
            yield restart(placer, within, "T0")


def _inject_outages(spec: ScenarioSpec, placer: FaultPlacer, within: Interval) -> tuple[CollectorOutage, ...]:
    with placer.own_stream(spec.seed, _OUTAGES):
        return tuple(inject_outages(placer, within, spec.killed_min))


def _reordered(placer: FaultPlacer, whole: Interval) -> Iterator[Effect]:
    """Yield the effects of packets that overtake others at the first rail of each host; sprayed packets do."""
    for host in placer.devices("host"):
        first = placer.uplinks_of(host)[0]
        for link in (first, *placer.rail_of(first)):
            nic, _ = placer.ports(link)
            yield CounterIncrement(nic, Metric.OUT_OF_SEQUENCE, whole, per_s=_OVERTAKEN_PER_S)


def _inject_negative_cases(
    spec: ScenarioSpec, placer: FaultPlacer, within: Interval
) -> tuple[Counter[str], list[Effect]]:
    hours = (within.end_ns - within.start_ns) / 3.6e12
    scale = spec.gpus / _REFERENCE_GPUS * (_NEGATIVE_RATIO_OVER_DAYS if spec.days else 1.0)
    injected: Counter[str] = Counter()
    effects: list[Effect] = []

    def add(case: NegativeCase, expected: float) -> None:
        for _ in range(int(placer.rng.poisson(expected))):
            with suppress(NoRoom):  # as many as fit beside the faults; their number is printed
                effects.extend(case.inject(placer, within))
                injected[case.name] += 1

    for case in NEGATIVE_CASES:
        add(case, case.rate * hours * scale)
    with placer.own_stream(spec.seed, _ODD_AGENTS):
        for case in ODD_AGENTS if spec.days else ():
            add(case, case.rate * spec.days * len(placer.devices("T0") + placer.devices("T1")))
    return injected, effects
