"""What is known of the devices that were heard of, over all partitions: their boards, states and boots. Pure.

Nothing here decides which message a value goes to, or its number: that is the fold's, by the topic alone.
"""

from dataclasses import dataclass, field

from collectors.bridge import paths
from collectors.bridge.device_columns import DeviceColumns
from collectors.bridge.points import Point, Scalar
from collectors.bridge.series import Input, Series, input_of, series_of
from collectors.bridge.signals import Kind, Signal
from collectors.bridge.values import gauge, unix_ns
from collectors.core.emitter import DeviceEvent
from collectors.core.metrics import CollectorMetrics
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject
from streams.wire.models import EventKind

UNKNOWN = -1
FULL = -2
OTHERS = -3
_MOST_SERIES = 1_000_000
_MOST_FIELDS = 20_000
"""Of one series: an mlx5 of 64 channels has some 2,000 statistics."""
_SAME_BOOT_NS = 2_000_000_000
"""Devices that reckon their boot time from their uptime differ by up to a second or two between answers."""
_TICKS = 2**32
"""TimeTicks wrap after 497 days."""
_WRAP_MARGIN = 6_000 * 60
_JITTER = 300
"""3 s in ticks: an agent of several processes may answer a little out of order."""
_EVENTS = {
    (Metric.OPER_UP, 0.0): EventKind.LINK_DOWN,
    (Metric.OPER_UP, 1.0): EventKind.LINK_UP,
    (Metric.ADMIN_UP, 0.0): EventKind.ADMIN_DOWN,
    (Metric.ADMIN_UP, 1.0): EventKind.ADMIN_UP,
}


@dataclass(slots=True)
class Device:
    """One device. Times are event times in ns, but for `heard_ns`, which is ours."""

    name: str
    columns: DeviceColumns
    boot_id: int = 0
    boot_seen_ns: int = 0
    uptime: tuple[int, float] = (0, 0.0)
    """When it was said, and what."""
    states: dict[int, tuple[int, float]] = field(default_factory=dict)
    last_sample_at_ns: int = 0
    last_received_ns: int = 0

    def state(self, slot: int, value: float, at_ns: int) -> DeviceEvent | None:
        """A state of a port; what happened, where it is another than before."""
        before_ns, before = self.states.get(slot, (0, value))
        if at_ns < before_ns:
            return None
        self.states[slot] = (at_ns, value)
        place = self.columns.places[slot]
        kind = _EVENTS.get((place.metric, value))
        if before == value or kind is None:
            return None
        return DeviceEvent(kind, place.row, at_ns, f"{place.metric.name.lower()} {value:g}, was {before:g}")

    def booted(self, boot_ns: int, at_ns: int) -> DeviceEvent | None:
        """The device says when it started; what happened, where that is another time than before."""
        seen, self.boot_seen_ns = self.boot_seen_ns, boot_ns
        if self.boot_id and abs(boot_ns - seen) <= _SAME_BOOT_NS:
            return None
        before, self.boot_id = self.boot_id, boot_ns
        if not before:
            return None
        return DeviceEvent(EventKind.DEVICE_REBOOT, "", at_ns, f"boot-time {boot_ns}, was {seen}", boot_ns)

    def is_up_for(self, uptime: float, at_ns: int) -> DeviceEvent | None:
        """The device says for how long it is up; what happened, where that is less than before.

        Whatever unit the site had it converted to; a wrap of its 32 bits is none. It makes no boot id: reckoned from
        an uptime, one would jump with every start of ours.
        """
        before_ns, before = self.uptime
        if at_ns <= before_ns:
            return None
        self.uptime = (at_ns, uptime)
        if not before_ns or before - uptime <= _JITTER or before > _TICKS - _WRAP_MARGIN:
            return None
        return DeviceEvent(EventKind.DEVICE_REBOOT, "", at_ns, f"uptime {uptime:g}, was {before:g}")


class Devices:
    """All devices and series of a process."""

    def __init__(
        self, metrics: CollectorMetrics, *, max_ports: int = 4096, max_devices: int = 50_000, device_tag: str = "",
        names: dict[str, str] | None = None, inputs: dict[str, Input] | None = None,
    ) -> None:  # fmt: skip
        self.metrics = metrics
        self.known: dict[str, Device] = {}
        self._series: dict[object, Series] = {}
        self._max_ports = max_ports
        self._max_devices = max_devices
        self._device_tag = device_tag
        self._names = names or {}
        self._inputs = inputs or {}

    def series(self, point: Point, *, is_gnmic: bool) -> Series:
        """The series of a point."""
        found = self._series.get(point.key)
        if found is None:
            if len(self._series) >= _MOST_SERIES:
                self._series.clear()
            source = Input.GNMIC if is_gnmic else input_of(point.name, point.tags, self._inputs)
            found = self._series[point.key] = series_of(
                point.name, point.tags, source, self._device_tag, self._names
            )  # fmt: skip
        return found

    def device(self, name: str) -> Device | None:
        """A device, new where nothing is known of it; None past the bound."""
        found = self.known.get(name)
        if found is None:
            if len(self.known) >= self._max_devices:
                self.metrics.add("out_of_bounds")
                return None
            found = self.known[name] = Device(name, DeviceColumns(self._max_ports))
        return found

    def forget(self, names: set[str]) -> None:
        """Nothing more is said of these."""
        for name in names:
            self.known.pop(name, None)
        self._series = {key: series for key, series in self._series.items() if series.device not in names}

    def target(self, series: Series, device: Device, field: str, *, keeps: bool) -> int:
        """Where a field goes that was not met before in its series; `keeps` says to remember also that it is nothing.

        UNKNOWN: nothing; FULL: past the bound of ports; OTHERS and below: an entry of `series.others`, counted down.
        """
        if len(series.targets) >= _MOST_FIELDS:
            series.targets.clear()
            series.others.clear()
        found = self._target(series, device, field)
        if keeps or found != UNKNOWN:
            series.targets[field] = found
        return found

    def _target(self, series: Series, device: Device, field: str) -> int:
        signal = series.signal(field)
        if signal is None:
            return UNKNOWN
        scope = paths.scope(field) if series.input is Input.GNMIC else ""
        if signal.kind is Kind.VALUE and series.row and not scope:
            slot = device.columns.slot(series.row, signal)
            if slot is None:
                self.metrics.add("out_of_bounds", device.name)
                return FULL
            return slot
        series.others.append((signal, scope))
        return OTHERS - (len(series.others) - 1)


def other(device: Device, signal: Signal, value: Scalar, at_ns: int) -> DeviceEvent | None:
    """What a boot time or an uptime says; raises Reject."""
    if signal.kind is Kind.BOOT_TIME:
        return device.booted(unix_ns(value), at_ns)
    uptime = gauge(value)
    if uptime is None or uptime < 0:
        raise Reject(f"no uptime: {str(value)[:40]}")
    return device.is_up_for(uptime, at_ns)
