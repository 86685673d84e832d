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
from collectors.core.device_share import DeviceShare
from collectors.core.metrics import CollectorMetrics
from collectors.core.poll import StatusSchedule, log_reachability
from collectors.core.restart_witness import counters_continue
from collectors.gnmi.params import StreamParams
from collectors.gnmi.values import number, unix_ns
from streams.fabric.catalogue import Metric
from streams.instrument.clock import Clock
from streams.wire.bounds import MAX_TIME_NS
from streams.wire.models import CollectorStatus, Component, EventKind, Facts, Neighbor, RowKind, Source

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


_EARLIEST_NS = 946_684_800 * 10**9
"""2000-01-01: a boot time before this is an uptime, or in another unit."""
_WITNESS_READINGS = 3
"""A new boot time is reported after this many readings without a counter in common with those before."""


def boot_time_ns(value: object) -> int | None:
    """Return a boot time in ns; None for one that no reader would accept, and for an uptime.

    Some devices send hundredths of a second, which are below the milliseconds of this century.
    """
    found = number(value) if isinstance(value, int | float | str | bytes) else None
    if found is None:
        return None
    if 10**11 <= found < 10**12 // 2:
        found *= 10
    at_ns = unix_ns(found)
    return at_ns if at_ns is not None and _EARLIEST_NS <= at_ns <= MAX_TIME_NS else None


@dataclass(slots=True, kw_only=True)
class BootTime:
    """The boot id of one device in ns: its boot time as first reported, until its counters show that it restarted.

    A boot time is the clock minus the uptime, so that it moves with a stepped clock.
    """

    boot_id: int = 0
    boot_seen_ns: int = 0
    _before: Reading | None = None
    """The last reading before the restart that is possible since."""
    _newest: Reading | None = None
    _continued: bool | None = None
    """True if the counters went on since `_before`; None if unknown."""
    _readings: int = 0
    _pending: DeviceEvent | None = None
    """A reboot that no reading has confirmed yet."""

    def may_have_restarted(self) -> None:
        """Record that the device may restart before its next reading: its connection ended."""
        if self._newest is not None:
            self._before, self._newest = self._newest, None
        self._continued, self._readings = None, 0

    def set_boot_time(self, boot_ns: int, at_ns: int) -> DeviceEvent | None:
        """Record a reported boot time; return the reboot that it and the counters show."""
        seen, self.boot_seen_ns = self.boot_seen_ns, boot_ns
        if self.boot_id and abs(boot_ns - seen) <= _SAME_BOOT_NS:
            return None
        if not self.boot_id:
            self.boot_id = boot_ns
            return None
        # Dated at its observation: a switch takes minutes to boot, and an event dated at the boot would be late.
        return self.restart_reported(
            DeviceEvent(EventKind.DEVICE_REBOOT, "", at_ns, f"boot-time {boot_ns}, was {seen}", boot_ns)
        )

    def restart_reported(self, event: DeviceEvent) -> DeviceEvent | None:
        """Return a reported reboot if no reading can confirm it; else the next readings decide."""
        self._pending = event
        return self._decide(is_last=self._before is None and self._newest is None)

    def add_reading(self, reading: Reading) -> DeviceEvent | None:
        """Record a reading; return the reboot that it confirms."""
        if self._before is not None and self._continued is None:
            self._continued = counters_continue(self._before, reading)
            self._readings += 1
        self._newest = reading
        return self._decide(is_last=self._readings >= _WITNESS_READINGS) if self._pending is not None else None

    def _decide(self, *, is_last: bool) -> DeviceEvent | None:
        """Return the pending reboot, unless the counters went on, or a reading is awaited."""
        event, continued = self._pending, self._continued
        if self._before is None and self._newest is not None:
            continued = True  # its first connection, which no restart survives
        if event is None or (continued is None and not is_last):
            return None
        self._pending, self._before = None, None
        if continued:
            return None
        self.boot_id = event.code or self.boot_id
        return event


@dataclass(slots=True)
class DeviceIdentity(BootTime):
    """The identity of one device. `facts` is keyed by (fact, subject)."""

    facts: dict[tuple[str, str], str] = field(default_factory=dict)
    facts_changed: bool = False
    skew: ClockSkew = field(default_factory=ClockSkew)
    last_sample_at_ns: int = 0
    last_received_ns: int = 0
    """The local time of the newest sample, by which a silent device is detected."""
    reboot: DeviceEvent | None = None
    """A reboot that the newest reading confirmed and that is not published yet."""

    def add_boot_time(self, value: object, at_ns: int) -> DeviceEvent | None:
        """Process a boot time as the device sends it; return the reboot that it shows."""
        if (boot_ns := boot_time_ns(value)) is None:
            return None
        before = self.boot_id
        event = self.set_boot_time(boot_ns, at_ns)
        self.facts_changed |= self.boot_id != before
        return event

    def add_sample(self, reading: Reading) -> int:
        """Record a reading; return its boot id."""
        self.last_sample_at_ns, self.last_received_ns = reading.sampled_at_ns, reading.received_at_ns
        if (event := self.add_reading(reading)) is not None:
            self.reboot, self.facts_changed = event, True
        return self.boot_id

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
    """The published side of one device, and its share, which outlives connections too."""

    def __init__(
        self, name: str, params: StreamParams, emitter: Emitter, metrics: CollectorMetrics, clock: Clock,
        share: DeviceShare | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.share = share or DeviceShare(name, params.max_updates_per_s, metrics)
        self.identity = DeviceIdentity()
        self.reachable = False
        self._error = "not connected yet"
        self._cadence_s = params.cadence_s
        self._emitter = emitter
        self._metrics = metrics
        self._clock = clock
        self._statuses = StatusSchedule(name, params.cadence_s, params.status_every_s)

    def emit(self, outputs: Iterable[Output], received_ns: int, row_kind: RowKind = RowKind.ROW_KIND_PORT) -> None:
        """Publish readings and events."""
        for output in outputs:
            if isinstance(output, Reading):
                self._emitter.samples(self.name, output, row_kind)
                self._statuses.sampled(asyncio.get_running_loop().time())
            else:
                self._emitter.event(self.name, output, received_ns)
        if (reboot := self.identity.reboot) is not None:
            self.identity.reboot = None
            self._emitter.event(self.name, reboot, received_ns)

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
        if self.reachable:
            self.identity.may_have_restarted()
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
        now_s = asyncio.get_running_loop().time()
        error = self.share.report(now_s) if self.reachable else self._error
        if not self._statuses.is_due(now_s, reachable=self.reachable, error=error):
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
