"""Defines faults of whole devices: restarts, silence, wrong clocks, and versions that differ from the others."""

from contextlib import suppress
from dataclasses import dataclass, replace

from lab.world.effects import ClockShift, Effect, EmitEvent, Interval, NotPolled, Rebooting, VersionChange
from lab.world.fabric_arrays import FabricArrays
from lab.world.facts_source import NIC, OPTICS, SOFTWARE
from lab.world.fault_placement import Fault, FaultPlacer, NoRoom
from lab.world.ground_truth import BY_FACTS, BY_POLL, GroundTruth, InjectedFault, known
from streams.fabric.ids import Port
from streams.wire.models import Condition, Event, EventKind, Source

_S = 10**9
_STALE_AFTER_NS = 30 * _S
"""Three cadences of 10 s (DESIGN 2)."""
_SKEW_MEASURED_NS = 30 * _S
"""The time for which samples must differ by the same offset: a single sample may have been delayed."""
_LEAST_SKEW_S, _MOST_SKEW_S = 15.0, 7 * 86_400.0
"""From more than any queue delays to a clock that was never set; most clocks are off by minutes."""
_POLLED_AFTER_NS, _MINUTE_NS = 20 * _S, 60 * _S
"""All changed devices are polled within one minute."""


@dataclass(frozen=True, slots=True)
class Reboot:
    """A device reboots with its links down; afterwards its counters are at zero."""

    device: str
    interval: Interval

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        return [Rebooting(fabric.device_number(self.device), self.interval)]

    def ground_truths(self) -> list[GroundTruth]:
        return [known(Condition.DEVICE_DOWN, self.interval, (self.device, ""), BY_POLL)]


@dataclass(frozen=True, slots=True)
class SilentDevice:
    """A healthy switch no longer answers its collector, or without `is_reported` a host's agent has ended."""

    device: str
    interval: Interval
    is_reported: bool = True

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        return [NotPolled(fabric.device_number(self.device), self.interval, self.is_reported)]

    def ground_truths(self) -> list[GroundTruth]:
        silence = known(Condition.TELEMETRY_STALE, self.interval, (self.device, ""), BY_POLL, after_ns=_STALE_AFTER_NS)
        return [replace(silence, by_agent=not self.is_reported)]


@dataclass(frozen=True, slots=True)
class ClockSkew:
    """The clock of a device is ahead by `offset_s` (negative: behind); nothing else changes."""

    device: str
    interval: Interval
    offset_s: float

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        return [ClockShift(fabric.device_number(self.device), self.interval, self.offset_s)]

    def ground_truths(self) -> list[GroundTruth]:
        place = self.device, ""
        return [known(Condition.DEVICE_CLOCK_SKEW, self.interval, place, BY_POLL, after_ns=_SKEW_MEASURED_NS)]


@dataclass(frozen=True, slots=True)
class OtherVersion:
    """Switches run other software, or NICs of hosts other firmware, than the rest of the fleet.

    Facts show it at the polls after the change and after its end, by default at once.
    """

    devices: tuple[str, ...]
    interval: Interval
    version: str
    kinds: tuple[str, ...] = (NIC, SOFTWARE)
    polled_ns: tuple[int, int] | None = None

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        devices = tuple(sorted(map(fabric.device_number, self.devices)))
        polled_ns = self.polled_ns or self.interval
        return [VersionChange(devices, kind, self.version, self.interval, polled_ns) for kind in self.kinds]

    def ground_truths(self) -> list[GroundTruth]:
        after_ns = (self.polled_ns or self.interval)[0] - self.interval.start_ns
        place = self.devices[0], ""
        drift = known(Condition.FLEET_VERSION_DRIFT, self.interval, place, BY_FACTS, after_ns=after_ns)
        return [replace(drift, devices=self.devices)]


STRAY = "stray"
"""The name of a collector that reads another device of the same name."""
_STRAY_RUN, _STRAY_AGAIN_NS = 1 << 62, 100 * _S


@dataclass(frozen=True, slots=True)
class StrayReports:
    """A collector that does not read a switch reports a port of it as down, twice: it reads another one of that name.

    Two downs are fewer than a flap, and the next reading of the port's own collector ends each.
    """

    port: Port
    interval: Interval
    run: int

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        """Return the reports."""
        times_ns = (self.interval.start_ns, self.interval.start_ns + _STRAY_AGAIN_NS)
        return [
            EmitEvent(Interval(at_ns, at_ns), self._event(at_ns), Source.SOURCE_GNMI, is_certain=True)
            for at_ns in times_ns
        ]

    def _event(self, at_ns: int) -> Event:
        return Event(
            self.port.device, self.port.port, EventKind.LINK_DOWN, at_ns, at_ns, Source.SOURCE_GNMI, collector=STRAY,
            collector_run=self.run,
        )  # fmt: skip

    def ground_truths(self) -> list[GroundTruth]:
        """Return the contradiction, which begins with the second report."""
        begun = self.interval._replace(start_ns=self.interval.start_ns + _STRAY_AGAIN_NS)
        return [known(Condition.TELEMETRY_CONTRADICTION, begun, self.port)]


def inject_restart(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Restart one device for 90 to 480 s, a host three times as often as a switch of either tier."""
    tiers = [tier for tier in ("host", "host", "host", "T0", "T1") if placer.devices(tier)]
    return restart(placer, within, tiers[int(placer.rng.integers(len(tiers)))])


def restart(placer: FaultPlacer, within: Interval, tier: str) -> InjectedFault:
    """Restart one device of a tier for 90 to 480 s."""
    device, interval = placer.device(placer.devices(tier), within, (90, 480))
    return placer.injected(Reboot(placer.fabric.devices[device], interval), f"restart of a {tier}")


def inject_silence(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Stop the samples of one device for 60 to 900 s; links are not affected."""
    is_reported = placer.rng.random() < 0.5
    tiers = ("T0", "T1") if is_reported else ("host",)
    devices = [device for tier in tiers for device in placer.devices(tier)]
    device, interval = placer.device(devices, within, (60, 900), alone=True)
    silent = SilentDevice(placer.fabric.devices[device], interval, is_reported)
    return placer.injected(silent, "unread" if is_reported else "no agent")


def inject_clock_skew(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Shift the clock of one device by 15 s to 7 days, ahead or behind, for 200 to 1500 s."""
    rng = placer.rng
    devices = [device for tier in ("host", "T0", "T1") for device in placer.devices(tier)]
    device, interval = placer.device(devices, within, (200, 1500), alone=True)
    offset_s = float(_LEAST_SKEW_S * (_MOST_SKEW_S / _LEAST_SKEW_S) ** rng.uniform()) * (
        1 if rng.random() < 0.5 else -1
    )
    skew = ClockSkew(placer.fabric.devices[device], interval, offset_s)
    return placer.injected(skew, "ahead" if offset_s > 0 else "behind")


def inject_version_drift(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Change the firmware of one to three hosts or switches for 600 to 1200 s."""
    rng = placer.rng
    kinds = [(NIC, NIC, SOFTWARE, OPTICS)[int(rng.integers(4))], NIC]
    for kind in kinds:
        candidates = placer.devices("host") if kind == NIC else [*placer.devices("T0"), *placer.devices("T1")]
        with suppress(NoRoom):  # there are few switches: if enough of them have drifted already, hosts drift instead
            devices, interval = placer.drifting_devices(kind, candidates, within, (600, 1200))
            break
    else:
        raise NoRoom("too many devices run another version already: a longer time or a larger fabric is needed")
    version = f"0.{int(rng.integers(100))}.{int(rng.integers(10**6))}"
    names = tuple(sorted(placer.fabric.devices[device] for device in devices))
    start_ns, end_ns = ((at_ns // _MINUTE_NS + 1) * _MINUTE_NS + _POLLED_AFTER_NS for at_ns in interval)
    return placer.injected(OtherVersion(names, interval, version, (kind,), (start_ns, end_ns)), kind)


def inject_stray_reports(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Report the upper end of a link as down while it is up, by a collector that does not read it."""
    links = [*placer.host_links, *placer.fabric_links]
    number, interval = placer.link(links, within, (130, 190))
    port = placer.port(placer.ports(number)[1])
    return placer.injected(StrayReports(port, interval, _STRAY_RUN | number), "stray reports")


DEVICE_DOWN = Fault(Condition.DEVICE_DOWN, inject_restart)
TELEMETRY_STALE = Fault(Condition.TELEMETRY_STALE, inject_silence)
DEVICE_CLOCK_SKEW = Fault(Condition.DEVICE_CLOCK_SKEW, inject_clock_skew, own_stream=True)
FLEET_VERSION_DRIFT = Fault(Condition.FLEET_VERSION_DRIFT, inject_version_drift)
TELEMETRY_CONTRADICTION = Fault(
    Condition.TELEMETRY_CONTRADICTION, inject_stray_reports, own_stream=True, is_of_trial=True
)
