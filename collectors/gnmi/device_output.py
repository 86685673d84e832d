"""Publishes the samples, events and facts of one device, and its reachability.

The device's identity (facts, boot time), clock offset and last sample outlive its connections here.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import structlog

from collectors.core.clock import ClockSkew
from collectors.core.columns import Reading
from collectors.core.context import DeviceEvent, Emitter
from collectors.core.metrics import CollectorMetrics
from collectors.core.poll import StatusSchedule, log_reachability
from streams.fabric.catalogue import Metric
from streams.instrument.clock import Clock
from streams.wire.bounds import MAX_TIME_NS
from streams.wire.models import CollectorStatus, Component, EventKind, Facts, Neighbor, Source

_log = structlog.get_logger("railsight.gnmi")

_SILENT_CADENCES = 3
_SILENT_AT_LEAST_S = 15.0
_SAME_BOOT_NS = 2_000_000_000
"""Devices that compute their boot time from their uptime vary by up to a second or two between answers."""
_MOST_FACTS = 100_000
STATE_EVENTS = {
    (Metric.OPER_UP, 0.0): EventKind.LINK_DOWN,
    (Metric.OPER_UP, 1.0): EventKind.LINK_UP,
    (Metric.ADMIN_UP, 0.0): EventKind.ADMIN_DOWN,
    (Metric.ADMIN_UP, 1.0): EventKind.ADMIN_UP,
}
"""The event of a port whose state changed to a value."""

Output = Reading | DeviceEvent


@dataclass(slots=True, kw_only=True)
class BootTime:
    """The time at which a device started, and its boot id, in ns."""

    boot_id: int = 0
    boot_seen_ns: int = 0

    def set_boot_time(self, boot_ns: int | None, at_ns: int) -> DeviceEvent | None:
        """Record a reported boot time; return a reboot event if it differs from the last one."""
        if boot_ns is None or not 0 <= boot_ns <= MAX_TIME_NS:
            return None  # no reader would accept the facts with such a time
        seen, self.boot_seen_ns = self.boot_seen_ns, boot_ns
        if self.boot_id and abs(boot_ns - seen) <= _SAME_BOOT_NS:
            return None
        previous, self.boot_id = self.boot_id, boot_ns
        if not previous:
            return None
        # Dated at its observation: a switch takes minutes to boot, and an event dated at the boot would be late.
        return DeviceEvent(EventKind.DEVICE_REBOOT, "", at_ns, f"boot-time {boot_ns}, was {seen}", boot_ns)


@dataclass(slots=True)
class DeviceIdentity(BootTime):
    """The identity of one device. `facts` is keyed by (fact, subject)."""

    facts: dict[tuple[str, str], str] = field(default_factory=dict)
    facts_changed: bool = False
    skew: ClockSkew = field(default_factory=ClockSkew)
    last_sample_at_ns: int = 0

    def add_facts(self, key: tuple[str, str], value: str | None) -> None:
        """Record a fact; past the limit, new ones are ignored."""
        if value is not None and self.facts.get(key) != value and len(self.facts) < _MOST_FACTS:
            self.facts[key] = value
            self.facts_changed = True


def facts_of(device: str, at_ns: int, source: Source, identity: DeviceIdentity) -> Facts:
    """Return the facts that the device reported about itself: the chassis' values, else the system's."""
    leaves = identity.facts
    components: dict[str, dict[str, str]] = {}
    for (fact, subject), value in leaves.items():
        if fact.startswith("component/"):
            components.setdefault(subject, {})[fact.removeprefix("component/")] = value
    chassis = next((c for c in components.values() if c.get("type", "").rpartition(":")[2] == "CHASSIS"), {})
    return Facts(
        device,
        at_ns,
        source,
        vendor=chassis.get("mfg-name", ""),
        model=chassis.get("model-name") or chassis.get("part-no") or chassis.get("description", ""),
        os_version=leaves.get(("os_version", ""), "") or chassis.get("software-version", ""),
        booted_at_ns=identity.boot_id,
        serial=chassis.get("serial-no", ""),
        components=tuple(_modules(components, leaves)),
        neighbors=_neighbors(leaves),
    )


def _modules(components: dict[str, dict[str, str]], leaves: dict[tuple[str, str], str]) -> Iterator[Component]:
    """Yield the transceivers with a part or serial number; a transceiver's port is its alias, if reported."""
    for name, component in sorted(components.items()):
        part, serial = component.get("part-no", ""), component.get("serial-no", "")
        if component.get("type", "").rpartition(":")[2] == "TRANSCEIVER" and (part or serial):
            port = leaves.get(("module", name))
            alias = (port,) if port else ()
            yield Component(name, "transceiver", part, serial, component.get("firmware-version", ""), alias)


def _neighbors(leaves: dict[tuple[str, str], str]) -> tuple[Neighbor, ...]:
    """Return the LLDP neighbors that reported their name and their port."""
    names = {subject: value for (fact, subject), value in leaves.items() if fact == "neighbor/system-name"}
    ports = {subject: value for (fact, subject), value in leaves.items() if fact == "neighbor/port-id"}
    both = sorted(names.keys() & ports.keys())
    return tuple(Neighbor(subject.partition("\0")[0], names[subject], ports[subject]) for subject in both)


def silent_after_s(cadence_s: float) -> float:
    """Return the time without a sample after which a connected device is silent."""
    return max(_SILENT_CADENCES * cadence_s, _SILENT_AT_LEAST_S)


class DeviceOutput:
    """The published side of one device."""

    def __init__(
        self, name: str, cadence_s: float, status_every_s: float, emitter: Emitter, metrics: CollectorMetrics,
        clock: Clock,
    ) -> None:  # fmt: skip
        self.name = name
        self.identity = DeviceIdentity()
        self.reachable = False
        self._error = "not connected yet"
        self._cadence_s = cadence_s
        self._emitter = emitter
        self._metrics = metrics
        self._clock = clock
        self._statuses = StatusSchedule(name, cadence_s, status_every_s)

    def emit(self, outputs: Iterable[Output], received_ns: int) -> None:
        """Publish readings and events."""
        for output in outputs:
            if isinstance(output, Reading):
                self._emitter.samples(self.name, output)
                self._statuses.sampled(asyncio.get_running_loop().time())
            else:
                self._emitter.event(self.name, output, received_ns)

    def emit_facts(self) -> None:
        """Publish the facts if they have changed since the last time."""
        if not self.identity.facts_changed:
            return
        self.identity.facts_changed = False
        self._emitter.facts(facts_of(self.name, self._clock.now_ns(), self._emitter.source, self.identity))

    def set_reachable(self, *, reachable: bool, error: str = "") -> None:
        """Log and publish a change of the reachability, or of the reason why the device is unreachable."""
        if reachable == self.reachable and error == self._error:
            return
        log_reachability(_log, self.name, self.reachable, reachable=reachable, error=error)
        self.reachable, self._error = reachable, error
        self._publish_status()

    async def report_status(self, phase: float) -> None:
        """Publish the status when it is due, until cancelled; `phase` (0 to 1) spreads devices over the cadence."""
        await asyncio.sleep(self._cadence_s * phase)
        while True:
            self._publish_status()
            await asyncio.sleep(self._cadence_s)

    def _publish_status(self) -> None:
        error = "" if self.reachable else self._error
        if not self._statuses.is_due(asyncio.get_running_loop().time(), reachable=self.reachable, error=error):
            return
        offset_ns = self.identity.skew.offset_ns
        if self.reachable:
            self._metrics.set("clock_offset_seconds", offset_ns / 1e9, self.name)
        self._emitter.status(
            CollectorStatus(
                self._emitter.collector, self._emitter.run, self._emitter.source, self.name, self._clock.now_ns(),
                self.reachable, error, self.identity.last_sample_at_ns, offset_ns if self.reachable else 0,
                int(self._cadence_s * 1e9),
            )
        )  # fmt: skip
