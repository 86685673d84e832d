"""Builds a reading of the device from the cells of one poll. Pure; time is an argument.

A cell that is missing or invalid is absent. 32-bit counters continue past their end.
"""

from collections.abc import Mapping, Sequence

from collectors.core.columns import CellKey, Layout, Reading
from collectors.snmp import mib
from collectors.snmp.ber import Column, Value
from collectors.snmp.mib import Counter
from collectors.snmp.optics import Sensor
from collectors.snmp.port_index import PortIndex, speed_bps
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER

_WRAP = 1 << 32
_OPER = {1: 1.0, 2: 0.0, 3: 0.0, 5: 0.0, 6: 0.0, 7: 0.0}
"""ifOperStatus: only `up` carries traffic; `unknown` (4) is absent. notPresent (6) is down: it has no module."""
_STATES = (Metric.OPER_UP, Metric.ADMIN_UP, Metric.SPEED_BPS)
_ADMIN = {1: 1.0, 2: 0.0, 3: 0.0}


class LastValues:
    """Extends 32-bit counters to 64 bits, as long as the process runs."""

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
        """Reset the counters of a row, or all."""
        self._last = {key: last for key, last in self._last.items() if row is not None and key[1] != row}


class Composer:
    """Builds readings from the last counters and two layouts: of polls with optics, and without."""

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
        has_optics = bool(sensors) and sensors[0].column in cells  # the columns of all are read together
        if has_optics:
            values += [sensor.value(cells) for sensor in sensors]
        layout = self._layout(ports, sensors, has_optics=has_optics)
        return Reading(sampled_ns, ended_ns, boot_id, layout.row, layout.rows_digest, *layout.tables(values))

    def _layout(self, ports: PortIndex, sensors: Sequence[Sensor], *, has_optics: bool) -> Layout:
        """Return the cells of the values above, in their order; the same until the ports are discovered again."""
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
