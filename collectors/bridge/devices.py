"""Holds the known devices of all partitions: their columns, states and boots. Pure.

Nothing here selects the message of a value or its number: the fold does so, from the topic alone.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from collectors.bridge import values
from collectors.bridge.left_out import LeftOut, Reason
from collectors.bridge.params import Params
from collectors.bridge.points import LONGEST_SERIES, Point, Scalar
from collectors.bridge.series import LONGEST_NAME, Input, Series, input_of, scope_of, series_of
from collectors.bridge.tables import Kind, Signal
from collectors.bridge.values import gauge, unix_ns
from collectors.core.clock import AHEAD_NS
from collectors.core.columns import CellKey, Layout, Reading
from collectors.core.context import DeviceEvent
from collectors.core.metrics import CollectorMetrics
from collectors.gnmi.device_output import STATE_EVENTS, BootTime, boot_time_ns
from collectors.gnmi.values import number
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject
from streams.wire.models import EventKind

UNKNOWN = -1
NO_ENTRY = -2
FULL = -3
NOT_EXAMINED = -4
OTHERS = -5
_MOST_SERIES = 1_000_000
_MOST_FIELDS = 20_000
"""Limit per series: an mlx5 NIC with 64 channels has about 2,000 statistics."""
_MOST_NEW_FIELDS = 2_000
"""Limit per record of the fields whose names are new to their kind of series: each is searched in all profiles, 0.1 to
0.4 ms. A site's collectors have some hundreds in all."""
_LONGEST_FIELD = 4096
"""Limit in characters: the names of fields are remembered."""
_TICKS = 2**32
"""TimeTicks wrap after 497 days."""
_WRAP_MARGIN = 6_000 * 60
_JITTER = 300
"""3 s in ticks: an agent of several processes may answer slightly out of order."""
_MOST_LAYOUTS = 32
_MAX_DELAY_US = 2**31 - 1
_NEVER_NS = 60 * 10**9
"""No reader writes a value to Kafka this long after the device has sent it, and the next ones at once."""
_STATES = (Metric.OPER_UP, Metric.ADMIN_UP)


class DeviceColumns:
    """The slots of one device while the process runs; `plain` marks counters that need no conversion."""

    def __init__(self, max_ports: int) -> None:
        self.cells: list[CellKey] = []
        self.signals: list[Signal] = []
        self.plain: list[bool] = []
        self.states: list[bool] = []
        self._ranks: list[int] = []
        self._number: dict[tuple[CellKey, int], int] = {}
        self._best: dict[CellKey, int] = {}
        self._rows: dict[str, bool] = {}
        """Maps a port to True if it has values that are not secondary."""
        self._max_ports = max_ports
        self._layouts: dict[tuple[int, ...], tuple[Layout, list[int]]] = {}

    @property
    def rows(self) -> Collection[str]:
        """The ports that have a slot."""
        return self._rows.keys()

    def slot(self, row: str, signal: Signal) -> int | None:
        """Return the slot of a signal at a port, creating it if needed; None past the limit of ports."""
        assert signal.metric is not None
        cell = CellKey(row, signal.metric, signal.lane)
        found = self._number.get((cell, signal.rank))
        if found is not None:
            return found
        if row not in self._rows:
            if len(self._rows) >= self._max_ports:
                return None
            self._rows[row] = False
        if not signal.secondary and not self._rows[row]:
            self._rows[row] = True
            self._layouts.clear()
        self._number[cell, signal.rank] = number = len(self.cells)
        self.cells.append(cell)
        self.signals.append(signal)
        self.plain.append(signal.read is values.counter)
        self.states.append(signal.metric in _STATES)
        self._ranks.append(signal.rank)
        best = self._best.get(cell)
        if best is None or signal.rank > self._ranks[best]:
            self._best[cell] = number
            self._layouts.clear()
        return number

    def layout(self, filled: Mapping[int, float]) -> tuple[Layout, list[int]] | None:
        """Return the layout of a reading, and the slot of each of its cells; None if no value in it is used.

        A source of lower rank is not used once a better one has reported: two counters of one metric differ, and a
        change between them would look like a burst of traffic.
        """
        key = tuple(sorted(filled))
        known = self._layouts.get(key)
        if known is None:
            # Sorted by name: the order in which ports were first seen differs after a restart.
            chosen = sorted((slot for slot in key if self._is_used(slot)), key=self.cells.__getitem__)
            if len(self._layouts) >= _MOST_LAYOUTS:
                self._layouts.clear()
            known = self._layouts[key] = Layout([self.cells[slot] for slot in chosen]), chosen
        return known if known[1] else None

    def _is_used(self, slot: int) -> bool:
        cell = self.cells[slot]
        return self._best[cell] == slot and (self._rows[cell.row] or not self.signals[slot].secondary)


@dataclass(slots=True)
class Device(BootTime):
    """One device. Times are event times in ns, except `last_received_ns`, which is local."""

    name: str
    columns: DeviceColumns
    uptime: tuple[int, float] = (0, 0.0)
    """The time of the last uptime, and the uptime."""
    states: dict[int, tuple[int, float]] = field(default_factory=dict)
    last_sample_at_ns: int = 0
    last_received_ns: int = 0
    last_coarse_ns: int = 0
    """The time of the last reading in whole seconds."""
    has_send_times: bool = False
    """True if values of it were dated at about the time of their record."""

    def add_reading(self, reading: Reading) -> DeviceEvent | None:
        """Record a reading; return the reboot that it confirms. One that began before the report is no witness."""
        if self._pending is not None and reading.sampled_at_ns < self._pending.at_ns:
            self._before = reading
            return None
        return BootTime.add_reading(self, reading)

    def sample_ns(self, at_ns: int, record_ns: int) -> int:
        """Return the time at which a sampled value holds: that of its record if it is dated by its last change.

        Arista EOS dates each leaf by its last change. If no value is dated at the time of its record, the records were
        written later, and their times are no evidence.
        """
        if record_ns - at_ns <= _NEVER_NS or not record_ns:
            self.has_send_times |= abs(record_ns - at_ns) <= _NEVER_NS
            return at_ns
        return record_ns if self.has_send_times else at_ns

    def state(self, slot: int, value: float, at_ns: int) -> DeviceEvent | None:
        """Record a state of a port; return an event if it has changed."""
        previous_ns, previous = self.states.get(slot, (0, value))
        if at_ns < previous_ns:
            return None
        self.states[slot] = (at_ns, value)
        cell = self.columns.cells[slot]
        kind = STATE_EVENTS.get((cell.metric, value))
        if previous == value or kind is None:
            return None
        return DeviceEvent(kind, cell.row, at_ns, f"{cell.metric.name.lower()} {value:g}, was {previous:g}")

    def set_uptime(self, uptime: float, at_ns: int) -> DeviceEvent | None:
        """Record an uptime; return a reboot event if it is less than before, and no counters can confirm it.

        The unit may be any that the site converts to; a wrap of 32 bits is no reboot. The event has no boot id: one
        computed from an uptime would change with every start of the bridge.
        """
        previous_ns, previous = self.uptime
        if at_ns <= previous_ns:
            return None
        self.uptime = (at_ns, uptime)
        if not previous_ns or previous - uptime <= _JITTER or previous > _TICKS - _WRAP_MARGIN:
            return None
        self.may_have_restarted()
        return self.restart_reported(
            DeviceEvent(EventKind.DEVICE_REBOOT, "", at_ns, f"uptime {uptime:g}, was {previous:g}")
        )


_TOO_LONG = Series("", {}, None, "", "")


class Devices:
    """All devices and series of a process."""

    def __init__(self, params: Params, metrics: CollectorMetrics) -> None:
        self.metrics = metrics
        self.left_out = LeftOut()
        self.known: dict[str, Device] = {}
        self._series: dict[object, Series] = {}
        self._params = params
        self._new_fields = 0

    def begin_record(self) -> None:
        """Give the next record its limit of new fields."""
        self._new_fields = 0

    def series(self, point: Point, *, is_gnmic: bool) -> Series:
        """Return the series of a point."""
        found = self._series.get(point.key)
        if found is None:
            if len(point.name) + sum(len(tag) + len(value) for tag, value in point.tags.items()) > LONGEST_SERIES:
                return _TOO_LONG
            if len(self._series) >= _MOST_SERIES:
                self._series.clear()
            source = Input.GNMIC if is_gnmic else input_of(point.name, point.tags, self._params.inputs)
            found = self._series[point.key] = series_of(
                point.name, point.tags, source, self._params.device_tag, self._params.devices
            )  # fmt: skip
        return found

    def device(self, name: str) -> Device | None:
        """Return the device, creating it if needed; None past the limit."""
        found = self.known.get(name)
        if found is None:
            if len(self.known) >= self._params.max_devices:
                self.metrics.add("out_of_bounds")
                self.left_out.report(Reason.FULL, "devices", lambda: name)
                return None
            found = self.known[name] = Device(name, DeviceColumns(self._params.max_ports))
        return found

    def forget(self, names: set[str]) -> None:
        """Remove devices and their series."""
        for name in names:
            self.known.pop(name, None)
        self._series = {key: series for key, series in self._series.items() if series.device not in names}

    def target(self, series: Series, device: Device, field: str, *, store_unknown: bool) -> int:
        """Return the target of a field that is new in its series; `store_unknown` also stores UNKNOWN.

        UNKNOWN applies to all series of this kind, NO_ENTRY to this series, FULL means past the limit of ports,
        NOT_EXAMINED past the record's limit of new fields. OTHERS and lower numbers are entries of `series.others`,
        counted down.
        """
        if not series.knows(field):
            self._new_fields += 1
            if self._new_fields > _MOST_NEW_FIELDS or len(field) > _LONGEST_FIELD:
                self.left_out.report(Reason.TOO_MUCH, f"{series.device} fields", lambda: field)
                return NOT_EXAMINED
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
        scope = scope_of(field) if series.input is Input.GNMIC else ""
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
    """Process a boot time or an uptime; raises Reject. A boot time that is an uptime is one."""
    if signal.kind is Kind.BOOT_TIME:
        is_text = isinstance(value, str) and number(value) is None
        if (boot_ns := boot_time_ns(unix_ns(value) if is_text else value)) is not None:
            device.may_have_restarted()
            return device.set_boot_time(boot_ns, at_ns)
    uptime = gauge(value)
    if uptime is None or uptime < 0:
        raise Reject(f"not an uptime: {str(value)[:40]}")
    return device.set_uptime(uptime, at_ns)


@dataclass(slots=True)
class SampleWindow:
    """The values of a device in a unit by slot, the newest time of each port, and the first and last time of all.

    Times are by the device's clock, not corrected; `received_ns` is local.
    """

    device: Device
    first_ns: int
    last_ns: int
    received_ns: int
    values: dict[int, float] = field(default_factory=dict)
    row_at_ns: dict[str, int] = field(default_factory=dict)
    is_coarse: bool = False
    """True if any of the times is in whole seconds."""

    def is_apart(self, at_ns: int, gap_ns: int, span_ns: int) -> bool:
        """Return True if a time belongs to another reading."""
        return abs(at_ns - self.last_ns) > gap_ns or abs(at_ns - self.first_ns) > span_ns

    def repeats(self, found: list[tuple[int, float]], at_ns: int) -> bool:
        """Return True if one of the values is already present with another time."""
        values, cells, row_at_ns = self.values, self.device.columns.cells, self.row_at_ns
        row = ""
        is_other = False
        for slot, _ in found:
            if cells[slot].row is not row:
                row = cells[slot].row
                is_other = row_at_ns.get(row, at_ns) != at_ns
            if is_other and slot in values:
                return True
        return False

    def put(self, found: list[tuple[int, float]], at_ns: int, received_ns: int) -> None:
        """Add the values of a point."""
        self.values.update(found)
        self.last_ns = at_ns
        self.received_ns = max(self.received_ns, received_ns)
        cells, row_at_ns = self.device.columns.cells, self.row_at_ns
        row = ""
        for slot, _ in found:
            if cells[slot].row is not row:
                row = cells[slot].row
                row_at_ns[row] = at_ns

    def drop_counters(self) -> int:
        """Remove the counters; return their number."""
        cells = self.device.columns.cells
        remaining = {slot: value for slot, value in self.values.items() if not cells[slot].metric.counter}
        dropped, self.values = len(self.values) - len(remaining), remaining
        return dropped

    def reading(self) -> tuple[Reading, bool] | None:
        """Return the reading, and True if its time was replaced by the local one; None if it has no used value."""
        return reading_of(self.device.columns, self.values, self.row_at_ns, self.received_ns, self.device.boot_id)


def reading_of(
    columns: DeviceColumns, values: Mapping[int, float], row_at_ns: Mapping[str, int], received_ns: int, boot_id: int
) -> tuple[Reading, bool] | None:
    """Return the reading of these values, and True if a time was ahead and replaced; None if it has no used value."""
    found = columns.layout(values)
    if found is None:
        return None
    layout, chosen = found
    counters, gauges = layout.tables([values[slot] for slot in chosen])
    latest_ns = received_ns + AHEAD_NS
    times = [row_at_ns[row] for row in layout.row]
    is_ahead = max(times) > latest_ns
    if is_ahead:
        times = [at_ns if at_ns <= latest_ns else received_ns for at_ns in times]
    sampled_at_ns = min(times)
    delays: tuple[int, ...] = ()
    if max(times) - sampled_at_ns >= 1000:
        delays = tuple(min((at_ns - sampled_at_ns) // 1000, _MAX_DELAY_US) for at_ns in times)
    reading = Reading(
        sampled_at_ns, received_ns, boot_id, layout.row, layout.rows_digest, counters, gauges, delays
    )  # fmt: skip
    return reading, is_ahead
