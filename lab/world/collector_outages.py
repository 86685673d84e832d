"""Kills collectors of switches for minutes: the silence that is to be found, and what is not read meanwhile.

The hosts have collectors of their own, so that the other end of a host's link is read all the time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lab.world.effects import CollectorRestart, Effect, Interval
from lab.world.fault_placement import FaultPlacer
from lab.world.faults.devices import SilentDevice
from lab.world.ground_truth import InjectedFault
from lab.world.telemetry import COLLECTORS, collector_of
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.replay.score import Truth
from streams.wire.models import Condition

_S = 10**9
_SHOWN_BY_BOTH_ENDS = (Condition.LINK_DOWN, Condition.LINK_FLAP, Condition.LINK_MISCABLED)
_READ_AGAIN_NS = 60 * _S
"""The time after an outage in which a fault that began meanwhile is dated: some polls."""
UNREAD = "more than half of it while its collector was killed"


@dataclass(frozen=True, slots=True)
class CollectorOutage:
    """A collector that is killed for a time; `devices` are the switches that it reads."""

    collector: str
    interval: Interval
    devices: frozenset[str]

    def effects(self) -> list[Effect]:
        """Return the effects of the outage."""
        return [CollectorRestart(self.collector, self.interval)]

    def unread_ns(self, readers: set[str], truth: Truth) -> int:
        """Return for how long no reader of a fault was read during the fault."""
        shared_ns = min(truth.end_ns, self.interval.end_ns) - max(truth.start_ns, self.interval.start_ns)
        return max(0, shared_ns) if readers <= self.devices else 0


def inject_outages(placer: FaultPlacer, within: Interval, minutes: Sequence[float]) -> Iterator[CollectorOutage]:
    """Yield one outage for each length, of different collectors in different parts of the time."""
    names, part_ns = placer.fabric.devices, (within.end_ns - within.start_ns) // max(1, len(minutes))
    switches = [device for device, tier in enumerate(placer.tiers) if tier != "host"]
    first = int(placer.rng.integers(COLLECTORS))
    for number, length_min in enumerate(minutes):
        collector = (first + number) % COLLECTORS
        start_ns = within.start_ns + number * part_ns
        part = Interval(start_ns, start_ns + part_ns)
        interval = placer.interval(part, (length_min * 60, length_min * 60))
        devices = frozenset(names[device] for device in switches if device % COLLECTORS == collector)
        yield CollectorOutage(collector_of(collector), interval, devices)


def as_fault(outage: CollectorOutage) -> InjectedFault:
    """Return an outage with a silence of each of its switches, which are one finding about the collector."""
    silences = [SilentDevice(device, outage.interval) for device in sorted(outage.devices)]
    truths = tuple(known for silence in silences for known in silence.ground_truths())
    return InjectedFault(truths, tuple(outage.effects()), "killed collector")


def unread_reason(truth: Truth, topology: Topology, outages: Sequence[CollectorOutage]) -> str:
    """Return why a fault is not expected to be found: more than half of it was not read; else an empty string."""
    if truth.condition is Condition.TELEMETRY_STALE:
        return ""
    unread_ns = max((one.unread_ns(_readers(truth, topology), truth) for one in outages), default=0)
    return UNREAD if 2 * unread_ns > truth.end_ns - truth.start_ns else ""


def dated_later(fault: InjectedFault, topology: Topology, outages: Sequence[CollectorOutage]) -> InjectedFault:
    """Return a fault with its begin and its first detection after an outage in which they were not read."""

    def read_from_ns(at_ns: int, truth: Truth) -> int:
        if truth.condition is Condition.TELEMETRY_STALE:
            return at_ns
        readers = _readers(truth, topology)
        ends = (one.interval.end_ns for one in outages if one.interval.contains(at_ns) and readers <= one.devices)
        return max(ends, default=at_ns)

    known = []
    for one in fault.ground_truths:
        truth = one.truth
        late_ns = read_from_ns(truth.start_ns, truth) - truth.start_ns
        if late_ns:
            truth = replace(truth, tolerance_s=truth.tolerance_s + (late_ns + _READ_AGAIN_NS) / _S)
        known.append(replace(one, truth=truth, detectable_from_ns=read_from_ns(one.detectable_from_ns, truth)))
    return replace(fault, ground_truths=tuple(known))


def _readers(truth: Truth, topology: Topology) -> set[str]:
    """Return the devices whose readings show a fault."""
    link = topology.link_at(Port(truth.device, truth.port)) if truth.port else None
    if link is None or truth.condition not in _SHOWN_BY_BOTH_ENDS:
        return {truth.device}
    return {link.lower.device, link.upper.device}
