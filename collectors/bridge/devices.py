"""Holds the known devices of all partitions: their columns, states and boots. Pure.

Nothing here decides on the message of a value, or on its number: the fold does, by the topic alone.
"""

from dataclasses import dataclass, field

from collectors.bridge import paths
from collectors.bridge.device_columns import DeviceColumns
from collectors.bridge.left_out import LeftOut, Reason
from collectors.bridge.points import Point, Scalar
from collectors.bridge.series import LONGEST_NAME, Input, Series, input_of, series_of
from collectors.bridge.tables import Kind, Signal
from collectors.bridge.values import gauge, unix_ns
from collectors.core.context import DeviceEvent
from collectors.core.metrics import CollectorMetrics
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject
from streams.wire.models import EventKind

UNKNOWN = -1
NO_ENTRY = -2
FULL = -3
OTHERS = -4
_MOST_SERIES = 1_000_000
_MOST_FIELDS = 20_000
"""Per series: an mlx5 of 64 channels has some 2,000 statistics."""
_SAME_BOOT_NS = 2_000_000_000
"""Devices that compute their boot time from their uptime vary by up to a second or two between answers."""
_TICKS = 2**32
"""TimeTicks wrap after 497 days."""
_WRAP_MARGIN = 6_000 * 60
_JITTER = 300
"""3 s in ticks: an agent of several processes may answer slightly out of order."""
_EVENTS = {
    (Metric.OPER_UP, 0.0): EventKind.LINK_DOWN,
    (Metric.OPER_UP, 1.0): EventKind.LINK_UP,
    (Metric.ADMIN_UP, 0.0): EventKind.ADMIN_DOWN,
    (Metric.ADMIN_UP, 1.0): EventKind.ADMIN_UP,
}


@dataclass(slots=True)
class Device:
    """One device. Times are event times in ns, except `last_received_ns`, which is local."""

    name: str
    columns: DeviceColumns
    boot_id: int = 0
    boot_seen_ns: int = 0
    uptime: tuple[int, float] = (0, 0.0)
    """The last uptime, with its time first."""
    states: dict[int, tuple[int, float]] = field(default_factory=dict)
    last_sample_at_ns: int = 0
    last_received_ns: int = 0
    last_coarse_ns: int = 0
    """The time of the last reading in whole seconds."""

    def state(self, slot: int, value: float, at_ns: int) -> DeviceEvent | None:
        """Record a state of a port; return an event if it has changed."""
        previous_ns, previous = self.states.get(slot, (0, value))
        if at_ns < previous_ns:
            return None
        self.states[slot] = (at_ns, value)
        cell = self.columns.cells[slot]
        kind = _EVENTS.get((cell.metric, value))
        if previous == value or kind is None:
            return None
        return DeviceEvent(kind, cell.row, at_ns, f"{cell.metric.name.lower()} {value:g}, was {previous:g}")

    def set_boot_time(self, boot_ns: int, at_ns: int) -> DeviceEvent | None:
        """Record a boot time; return a reboot event if it has changed."""
        seen, self.boot_seen_ns = self.boot_seen_ns, boot_ns
        if self.boot_id and abs(boot_ns - seen) <= _SAME_BOOT_NS:
            return None
        previous, self.boot_id = self.boot_id, boot_ns
        if not previous:
            return None
        return DeviceEvent(EventKind.DEVICE_REBOOT, "", at_ns, f"boot-time {boot_ns}, was {seen}", boot_ns)

    def set_uptime(self, uptime: float, at_ns: int) -> DeviceEvent | None:
        """Record an uptime; return a reboot event if it is less than before.

        The unit may be any that the site converts to; a wrap of 32 bits is no reboot. It gives no boot id, which would
        change with every start of the bridge if it were computed from an uptime.
        """
        previous_ns, previous = self.uptime
        if at_ns <= previous_ns:
            return None
        self.uptime = (at_ns, uptime)
        if not previous_ns or previous - uptime <= _JITTER or previous > _TICKS - _WRAP_MARGIN:
            return None
        return DeviceEvent(EventKind.DEVICE_REBOOT, "", at_ns, f"uptime {uptime:g}, was {previous:g}")


class Devices:
    """All devices and series of a process."""

    def __init__(
        self, metrics: CollectorMetrics, *, max_ports: int = 4096, max_devices: int = 50_000, device_tag: str = "",
        names: dict[str, str] | None = None, inputs: dict[str, Input] | None = None,
    ) -> None:  # fmt: skip
        self.metrics = metrics
        self.left_out = LeftOut()
        self.known: dict[str, Device] = {}
        self._series: dict[object, Series] = {}
        self._max_ports = max_ports
        self._max_devices = max_devices
        self._device_tag = device_tag
        self._names = names or {}
        self._inputs = inputs or {}

    def series(self, point: Point, *, is_gnmic: bool) -> Series:
        """Return the series of a point."""
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
        """Return a device, new if it is unknown; None past the limit."""
        found = self.known.get(name)
        if found is None:
            if len(self.known) >= self._max_devices:
                self.metrics.add("out_of_bounds")
                self.left_out.report(Reason.FULL, "devices", lambda: name)
                return None
            found = self.known[name] = Device(name, DeviceColumns(self._max_ports))
        return found

    def forget(self, names: set[str]) -> None:
        """Remove devices, and their series."""
        for name in names:
            self.known.pop(name, None)
        self._series = {key: series for key, series in self._series.items() if series.device not in names}

    def target(self, series: Series, device: Device, field: str, *, store_unknown: bool) -> int:
        """Return the target of a field that is new in its series; `store_unknown`: also if it is unknown.

        UNKNOWN: in all series like this; NO_ENTRY: in this series; FULL: past the limit of ports; OTHERS and below: an
        entry of `series.others`, counted down.
        """
        if len(series.targets) >= _MOST_FIELDS:
            series.targets.clear()
            series.others.clear()
        found = self._target(series, device, field)
        if store_unknown or found != UNKNOWN:
            series.targets[field] = found
        return found

    def _target(self, series: Series, device: Device, field: str) -> int:
        known = series.signal(field)
        if known is None:
            return UNKNOWN
        signal, row = known
        if signal is None or len(row) > LONGEST_NAME:
            return NO_ENTRY
        scope = paths.scope(field) if series.input is Input.GNMIC else ""
        if signal.kind is Kind.VALUE and row and not scope:
            slot = device.columns.slot(row, signal)
            if slot is None:
                self.metrics.add("out_of_bounds", device.name)
                self.left_out.report(Reason.FULL, device.name, lambda: row)
                return FULL
            return slot
        series.others.append((signal, scope))
        return OTHERS - (len(series.others) - 1)


def other(device: Device, signal: Signal, value: Scalar, at_ns: int) -> DeviceEvent | None:
    """Process a boot time or an uptime; raises Reject."""
    if signal.kind is Kind.BOOT_TIME:
        return device.set_boot_time(unix_ns(value), at_ns)
    uptime = gauge(value)
    if uptime is None or uptime < 0:
        raise Reject(f"not an uptime: {str(value)[:40]}")
    return device.set_uptime(uptime, at_ns)
