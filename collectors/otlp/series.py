"""Reads the points of one metric of one sender: finds the slot of each series, and its value. Pure.

A plain metric, whose values are taken as they are, costs one look-up a point. The others have a cell for each series.
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from collectors.bridge.tables import Kind, Signal
from collectors.otlp.cell import LIMIT, Cell, Total, begins_again
from collectors.otlp.paths import PathRule
from collectors.otlp.points import (
    AT,
    DOUBLE,
    DOUBLE_AT,
    DOUBLE_FROM,
    INTEGER,
    INTEGER_AT,
    INTEGER_FROM,
    REST_AT,
    REST_FROM,
    START,
    Point,
    attributes,
    in_order,
    split,
)  # fmt: skip
from collectors.otlp.readings import Readings
from collectors.otlp.tables import Place, TableRule
from streams.wire.errors import Reject
from streams.wire.models import RowKind

_NOTHING = -1
"""The slot of a series that is not collected."""
_CELL = -2
"""The slot of a series that has a cell."""
_U64 = 2**64
_MOST_CELLS = 200_000
"""Limit of remembered series of one metric, including those that are not collected."""

Batches = defaultdict[Readings, defaultdict[int, dict[int, float]]]
"""The values of a request, by the readings they belong to, time and slot."""


def new_batches() -> Batches:
    """Return an empty collection of values."""
    return defaultdict(lambda: defaultdict(dict))


class Refused:
    """The points of a request that are not stored, and the first reason."""

    def __init__(self) -> None:
        self.count = 0
        self.reason = ""

    def add(self, reason: str, count: int = 1) -> None:
        """Add points."""
        self.count += count
        self.reason = self.reason or reason


class Owner(Protocol):
    """The device of a series."""

    units: dict[str, float]
    """The units that it has sent, by name."""

    def readings(self, kind: RowKind) -> Readings:
        """Return the readings of a kind of row."""
        ...

    def total(self, readings: Readings, slot: int) -> Total:
        """Return the sum of the series of a slot."""
        ...

    def remembers(self) -> bool:
        """Take room for one more series; return False, and count it, past the limit."""
        ...

    def left_out(self) -> None:
        """Count a series past the limit of ports."""
        ...


class MetricSeries:
    """All series of one metric of one sender."""

    def __init__(
        self,
        rules: Sequence[TableRule | PathRule],
        owner: Owner | None,
        owner_of: Callable[[Mapping[str, str], Sequence[str]], Owner],
        *,
        is_delta: bool,
    ) -> None:
        """`owner` is the device of all points, None if they may differ.

        `owner_of` returns the device of a point by its attributes and the names of those that identify it; it raises
        Reject for a point of none or another.
        """
        self._rules = rules
        self._owner_of = owner_of
        self._is_delta = is_delta
        self._slots: dict[bytes, int] = {}
        self._cells: dict[bytes, tuple[tuple[Cell, Owner], ...]] = {}
        self._keys: dict[bytes, bytes] = {}
        """The key of each series, by its attributes in order: they may come in any order."""
        self._starts: dict[int, int] = {}
        self._left_out = 0
        first = rules[0]
        self._is_counter = False
        self._plain: tuple[Owner, Readings] | None = None
        if owner is not None and len(rules) == 1 and isinstance(first, TableRule) and first.is_plain and not is_delta:
            self._plain = owner, owner.readings(first.row_kind)
            self._is_counter = first.rule.metric.counter

    def add(self, points: Iterable[bytes], into: Batches, refused: Refused) -> int:
        """Add the values of points; points that cannot be read are refused.

        Return the number of values that are not collected, such as those whose attributes name no port.
        """
        self._left_out = 0
        if self._plain is not None:
            self._add_plain(points, *self._plain, into, refused)
            return self._left_out
        for data in points:
            try:
                self._add_cells(split(data), into)
            except Reject as error:
                refused.add(str(error))
        return self._left_out

    def _add_plain(  # noqa: PLR0915 — one loop: a call a point costs more than the point
        self, points: Iterable[bytes], owner: Owner, readings: Readings, into: Batches, refused: Refused
    ) -> None:
        """Add values without conversion. The first lines are `split`, inlined: they are half of a point's cost."""
        slots, starts, is_counter = self._slots, self._starts, self._is_counter
        times = into[readings]
        before_ns, batch = -1, {}
        value: float
        for data in points:
            try:
                head, second, start_ns = data[0], data[9], 0
                if head == AT and second == INTEGER:
                    at_ns, value = INTEGER_AT(data)
                    rest = data[REST_AT:]
                elif head == AT and second == DOUBLE:
                    at_ns, value = DOUBLE_AT(data)
                    rest = data[REST_AT:]
                elif head == START and second == AT and (kind := data[18]) in (INTEGER, DOUBLE):
                    start_ns, at_ns, value = INTEGER_FROM(data) if kind == INTEGER else DOUBLE_FROM(data)
                    rest = data[REST_FROM:]
                else:
                    raise IndexError
                slot = slots[rest]
                if slot < 0 or (start_ns and starts.get(slot, 0) != start_ns):
                    raise IndexError
                if is_counter:
                    value = int(value)
                    if not 0 <= value < LIMIT:
                        raise ValueError
                elif isinstance(value, int):
                    value = float(value - _U64 if value >= LIMIT else value)
            except (IndexError, KeyError, ValueError, OverflowError, struct.error):
                try:
                    self._add_slow(split(data), owner, readings, into)
                except Reject as error:
                    refused.add(str(error))
                continue
            if at_ns != before_ns:
                before_ns, batch = at_ns, times[at_ns]
            batch[slot] = value

    def _add_slow(self, point: Point, owner: Owner, readings: Readings, into: Batches) -> None:
        """Add a point of a plain metric that is new, unusual or wrong."""
        slot = self._slots.get(point.rest)
        if slot is None:
            point = point._replace(rest=self._key(point.rest))
            slot = self._slots.get(point.rest)
        if slot is None:
            slot = self._find_slot(point.rest, owner, readings)
        if slot == _NOTHING:
            self._left_out += point.value is not None
            return
        known_ns = self._starts.setdefault(slot, point.start_ns)
        is_reset = self._is_counter and begins_again(known_ns, point, readings.newest_ns)
        if slot != _CELL and not is_reset:
            cell = Cell(readings, slot, self._rules[0].rule, Total())
            found = cell.value(point, 1.0, is_delta=False)
            if found is not None:
                into[readings][point.at_ns][slot] = found if not self._is_counter else int(point.value or 0)
            return
        if slot != _CELL:  # the counter began again: its value alone may not show it
            cell = Cell(readings, slot, self._rules[0].rule, Total())
            if (last := readings.last_value(slot)) is not None:
                cell.resume(int(last), known_ns)
            self._cells[point.rest], self._slots[point.rest] = ((cell, owner),), _CELL
        self._add_cells(point, into)

    def _find_slot(self, rest: bytes, owner: Owner, readings: Readings) -> int:
        found, known = attributes(rest)
        slot = _NOTHING
        if found.has_value and (place := self._rules[0].place(found.texts)) is not None:
            self._owner_of(found.texts, ())
            slot = self._slot(owner, readings, self._rules[0], place)
        if known == rest and owner.remembers():
            self._slots[rest] = slot
            self._keys[in_order(rest)] = rest
        return slot

    def _key(self, rest: bytes) -> bytes:
        """Return the rest of a point in the order in which its series was first seen."""
        return self._keys.get(in_order(rest), rest)

    def _slot(self, owner: Owner, readings: Readings, rule: TableRule | PathRule, place: Place) -> int:
        signal = place.signal or Signal(Kind.VALUE, rule.rule.metric, lane=place.lane)
        slot = readings.columns.slot(place.row, signal)
        if slot is None:
            owner.left_out()
            return _NOTHING
        return slot

    def _add_cells(self, point: Point, into: Batches) -> None:
        cells = self._cells.get(point.rest)
        if cells is None:
            cells = self._find_cells(self._key(point.rest))
        if not cells:
            self._left_out += point.value is not None
        for cell, owner in cells:
            unit = owner.units.get(cell.rule.unit) if cell.rule.unit else 1.0
            value = cell.value(point, unit, is_delta=self._is_delta)
            if value is not None:
                into[cell.readings][point.at_ns][cell.slot] = value

    def _find_cells(self, rest: bytes) -> tuple[tuple[Cell, Owner], ...]:
        if (remembered := self._cells.get(rest)) is not None:
            return remembered
        found, known = attributes(rest)
        if known != rest:
            return self._find_cells(self._key(known))
        has_text = False
        cells: list[tuple[Cell, Owner]] = []
        for rule in self._rules if found.has_value else ():
            if (place := rule.place(found.texts)) is None:
                continue
            owner = self._owner_of(found.texts, rule.device)
            readings = owner.readings(rule.row_kind)
            has_text = place.text is not None
            if (slot := self._slot(owner, readings, rule, place)) != _NOTHING and (has_text or owner.remembers()):
                total = owner.total(readings, slot) if rule.rule.parts else Total()
                read = None if place.signal is None else place.signal.read
                cells.append((Cell(readings, slot, rule.rule, total, read, place.text), owner))
        if len(self._cells) < _MOST_CELLS and not has_text:  # each text is a series of its own
            self._cells[rest] = tuple(cells)
            self._keys[in_order(rest)] = rest
        return tuple(cells)
