"""Builds a reading of the device from the cells of one poll, and detects its restarts. Pure; time is an argument.

A cell that is missing or invalid is absent. 32-bit counters continue past their end. sysUpTime counts hundredths of a
second in 32 bits: it wraps to zero after 497 days, which is no restart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collectors.core.columns import CellKey, Layout, Reading
from collectors.core.context import DeviceEvent
from collectors.core.restart_witness import TRAFFIC
from collectors.snmp import mib
from collectors.snmp.ber import Column, Value
from collectors.snmp.mib import Counter
from collectors.snmp.optics import Sensor
from collectors.snmp.port_index import PortIndex, speed_bps
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER

_TICK_NS = 10_000_000
_WRAP = 1 << 32
_SLACK = 1000
"""10 s in ticks: agents answer from caches, and their clocks drift."""
_DRIFT = 0.01
_JITTER = 300
"""3 s in ticks: an agent of several processes may answer slightly out of order; no agent boots within 3 s."""
_QUANTUM_S = 64
"""Without a boot counter, the boot id is the boot time in units of 64 s, so that two runs mostly agree."""


@dataclass
class RestartDetection:
    """The restart detection of one device. `boot_id` is 0 until the device has sent its sysUpTime."""

    boot_id: int = 0
    booted_ns: int = 0
    _ticks: int | None = None
    _at_ns: int = 0
    _counted: int = 0
    _before: tuple[int, int] = 0, 0
    """The boot id and the boot time before the last restart."""
    cells: Mapping[bytes, Column] = field(default_factory=dict)
    """The cells of the last poll, with which a restart is compared."""
    pending: DeviceEvent | None = None
    """A restart that its agent shows; the next cells show whether the device restarted."""

    def observe(self, ticks: int | None, counted: int | None, engine_s: int | None, at_ns: int) -> bool:
        """Record the device's present values; return True if it has restarted since the last call.

        `counted` is snmpEngineBoots, `engine_s` snmpEngineTime: the seconds since the boot, which do not wrap.
        """
        if ticks is None or not 0 <= ticks < _WRAP:
            return False
        counted = counted if counted and counted > 0 else 0
        has_booted = self._is_reset(ticks, at_ns) or bool(self._counted and counted and counted != self._counted)
        is_first = self._ticks is None
        self._ticks, self._at_ns = ticks, at_ns
        if is_first or has_booted:
            self._before = self.boot_id, self.booted_ns
            up_ns = engine_s * 10**9 if engine_s and counted else ticks * _TICK_NS
            self.booted_ns = max(1, at_ns - up_ns)
            self.boot_id = self._number(counted, is_recount=has_booted and counted == self._counted)
            self._counted = counted
        return has_booted

    def was_only_agent(self, cells: Mapping[bytes, Column]) -> bool:
        """Decide the pending restart; return True, and restore the boot id, if the counters of the device went on."""
        event, self.pending = self.pending, None
        if not counters_went_on(self.cells, cells):
            return False
        if event is not None and event.code:
            self.boot_id, self.booted_ns = self._before
        return True

    def _number(self, counted: int, *, is_recount: bool) -> int:
        """Return the agent's boot counter, equal in all runs; with the time if a restart did not change it."""
        seconds = self.booted_ns // 10**9
        if not counted:
            return max(1, seconds // _QUANTUM_S)
        return counted << 34 | (seconds & 0x3FFFFFFFF if is_recount else 0)

    def _is_reset(self, ticks: int, at_ns: int) -> bool:
        if self._ticks is None or ticks >= self._ticks:
            return False
        if self._ticks - ticks <= _JITTER:
            return False
        passed = max(0, at_ns - self._at_ns) // _TICK_NS
        slack = _SLACK + int(passed * _DRIFT)
        return abs(ticks + _WRAP - self._ticks - passed) > slack


_TRAFFIC_COLUMNS = tuple(column for metric in TRAFFIC for one in mib.COUNTERS[metric] for column in one.columns)


def counters_went_on(before: Mapping[bytes, Column], after: Mapping[bytes, Column]) -> bool | None:
    """Return True if most traffic counters above 0 went on, False if most began again; None if none is in both."""
    known = reset = 0
    for column in _TRAFFIC_COLUMNS:
        now = after.get(column, {})
        for row, was in before.get(column, {}).items():
            value = now.get(row)
            if isinstance(was, int) and isinstance(value, int) and was > 0:
                known += 1
                reset += value < was
    return None if not known else reset * 2 < known


_OPER = {1: 1.0, 2: 0.0, 3: 0.0, 6: 0.0, 7: 0.0}
"""ifOperStatus: `unknown` (4) is absent, and so is `dormant` (5), such as a standby member of a LAG, whose lower layers
are up. notPresent (6) is down: it has no module."""
_STATES = (Metric.OPER_UP, Metric.ADMIN_UP, Metric.SPEED_BPS)
_ADMIN = {1: 1.0, 2: 0.0, 3: 0.0}


class LastValues:
    """Extends 32-bit counters to 64 bits while the process runs."""

    def __init__(self) -> None:
        self._last: dict[tuple[bytes, bytes], tuple[int, int]] = {}

    def value(self, column: bytes, row: bytes, raw: int) -> int:
        """Return the extended value of a counter. A decrease by less than half the range is a reset."""
        last, offset = self._last.get((column, row), (raw, 0))
        if raw < last:
            offset = offset + _WRAP if (raw - last) % _WRAP < _WRAP // 2 else 0
        self._last[column, row] = raw, offset
        return offset + raw

    def forget(self, row: bytes | None = None) -> None:
        """Reset the counters of a row, or of all rows."""
        self._last = {key: last for key, last in self._last.items() if row is not None and key[1] != row}


class Composer:
    """Builds readings from the last counters and two layouts: for polls with optics and without."""

    def __init__(self) -> None:
        self._last_values = LastValues()
        self._discontinuity: dict[bytes, Value] = {}
        self._layout_for: tuple[PortIndex | None, Sequence[Sensor]] = None, ()
        self._layouts: dict[bool, Layout] = {}

    def restarted(self) -> None:
        """Reset every counter."""
        self._last_values.forget()
        self._discontinuity = {}

    def compose(
        self, ports: PortIndex, cells: Mapping[bytes, Column], sensors: Sequence[Sensor], sampled_ns: int,
        ended_ns: int,
        boot_id: int,
    ) -> Reading:  # fmt: skip
        """Return a reading with one row for each port that has any value."""
        self._note_discontinuities(cells.get(mib.IF_DISCONTINUITY, {}))
        values: list[float | None] = []
        for (_, counter), rows in ports.chosen.items():
            values += self._counters(counter, rows, cells)
        for row in ports.name:
            values += (
                _OPER.get(_number(cells, mib.IF_OPER_STATUS, row)),
                _ADMIN.get(_number(cells, mib.IF_ADMIN_STATUS, row)),
                speed_bps(cells, row),
            )
        has_optics = bool(sensors) and sensors[0].column in cells  # all sensors' columns are read together
        if has_optics:
            values += [sensor.value(cells) for sensor in sensors]
        layout = self._layout(ports, sensors, has_optics=has_optics)
        return Reading(sampled_ns, ended_ns, boot_id, layout.row, layout.rows_digest, *layout.tables(values))

    def _layout(self, ports: PortIndex, sensors: Sequence[Sensor], *, has_optics: bool) -> Layout:
        """Return the layout of the values, in their order; unchanged until the ports are discovered again."""
        if ports is not self._layout_for[0] or sensors is not self._layout_for[1]:
            self._layout_for, self._layouts = (ports, sensors), {}
        if has_optics not in self._layouts:
            places = [CellKey(ports.name[row], metric) for (metric, _), rows in ports.chosen.items() for row in rows]
            places += [CellKey(name, metric) for name in ports.name.values() for metric in _STATES]
            places += [sensor.cell for sensor in sensors] if has_optics else []
            self._layouts[has_optics] = Layout(places)
        return self._layouts[has_optics]

    def _counters(
        self, counter: Counter, rows: Sequence[bytes], cells: Mapping[bytes, Column]
    ) -> list[float | None]:  # fmt: skip
        columns = [(column, cells.get(column, {})) for column in counter.columns]
        if counter.bits == 64 and len(columns) == 1:
            get = columns[0][1].get
            return [_counter(get(row)) for row in rows]
        return [self._sum(counter.bits, columns, row) for row in rows]

    def _sum(self, bits: int, columns: Sequence[tuple[bytes, Column]], row: bytes) -> int | None:
        total = 0
        for column, values in columns:
            if (value := _counter(values.get(row))) is None:
                return None
            if bits == 32:
                if value >= _WRAP:
                    return None
                value = self._last_values.value(column, row, value)
            total += value
        return total if total < ABSENT_COUNTER else None

    def _note_discontinuities(self, now: Column) -> None:
        for row, value in now.items():
            if row in self._discontinuity and self._discontinuity[row] != value:
                self._last_values.forget(row)
        self._discontinuity = dict(now)


def _counter(value: Value | None) -> int | None:
    return value if isinstance(value, int) and 0 <= value < ABSENT_COUNTER else None


def _number(cells: Mapping[bytes, Column], column: bytes, row: bytes) -> int:
    value = cells.get(column, {}).get(row)
    return value if isinstance(value, int) else -1
