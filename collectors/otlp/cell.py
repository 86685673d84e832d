"""Converts the values of one series, and joins parts, deltas and resets to one counter. Pure."""

import math

from collectors.bridge.values import Reader
from collectors.otlp.points import Point
from collectors.otlp.readings import Readings
from collectors.otlp.tables import Rule
from streams.wire.errors import Reject

LIMIT = 2**63
"""No counter reaches it; a larger number is a negative one."""
_SETTLED_NS = 1_000_000_000
_GAP_NS = 1_000_000_000
"""A delta that begins this long after the end of the last one has a gap before it (choice)."""
_REPEATED_NS = 300_000_000_000
"""A delta that is older than the last one by less is repeated: a Collector repeats a request for 5 minutes."""


def begins_again(start_ns: int, point: Point, last_ns: int) -> bool:
    """Return whether a later start time shows a reset after the last point.

    Some senders write a start shortly before the time of each point, or the time of the point before: neither is one.
    """
    return 0 < start_ns < point.start_ns and last_ns < point.start_ns < point.at_ns - _SETTLED_NS


class Total:
    """The sum of the series that add up to one counter."""

    __slots__ = ("value",)

    def __init__(self, value: int = 0) -> None:
        self.value = value


class Cell:
    """One series: its slot, and what is known of its last point."""

    __slots__ = (
        "_is_counter", "_last", "_last_ns", "_read", "_share", "_start_ns", "_text", "_total", "readings", "rule",
        "slot",
    )  # fmt: skip

    def __init__(
        self, readings: Readings, slot: int, rule: Rule, total: Total, read: Reader | None = None,
        text: str | None = None,
    ) -> None:  # fmt: skip
        """`read` converts the value, or the text if the series has one."""
        self.readings, self.slot, self.rule = readings, slot, rule
        self._read, self._text = read, text
        self._is_counter = readings.columns.cells[slot].metric.counter
        self._total = total
        self._last: int | None = None
        self._share = self._start_ns = self._last_ns = 0

    def resume(self, last: int, start_ns: int) -> None:
        """Continue a series whose last value was published without a cell."""
        self._last = self._share = self._total.value = last
        self._start_ns = start_ns

    def value(self, point: Point, unit: float | None, *, is_delta: bool) -> float | None:
        """Return the metric's value; None if it is absent. `unit` is None if it is unknown. Raises Reject."""
        value, rule = point.value, self.rule
        if value is None:
            raise Reject("a point has no value")
        if self._read is not None:
            if self._is_counter and isinstance(value, float) and value.is_integer():
                value = int(value)  # gnmic's numbers of JSON, which may be above 2^53
            found = self._read(value if self._text is None else self._text)
            if found is None:
                return None
            value = found
        if rule.states:
            return rule.states.get(f"{value:g}")
        if not math.isfinite(value):
            if self._is_counter:
                raise Reject(f"a counter is {value}")
            return None  # the power of absent light is infinite
        if unit is None:
            return None
        if unit != 1.0 or rule.factor != 1.0:  # an integer stays one
            value *= unit * rule.factor
        if not self._is_counter:
            return 0.0 if value < rule.zero_below else float(value)
        if not 0 <= value < LIMIT:
            raise Reject(f"a counter is {point.value}")
        return self._counted(int(value), point, is_delta=is_delta)

    def _counted(self, number: int, point: Point, *, is_delta: bool) -> int:
        """Return the counter: the sum of all parts, which also grows at a reset that its value does not show.

        A gap between deltas, and a lower cumulative value, lower the counter: `measure` detects a reset.
        """
        before, last = self._share, self._last
        if is_delta and 0 <= self._last_ns - point.at_ns < _REPEATED_NS:
            return self._total.value
        if is_delta:
            is_continued = last is not None and abs(point.start_ns - self._last_ns) <= _GAP_NS
            self._share = before + number if is_continued else number
        elif last is None:
            # A part that is seen after the first reading begins at 0: its value is no growth.
            self._share = 0 if self.rule.parts and self.slot in self.readings.latest else number
        elif begins_again(self._start_ns, point, self._last_ns) and number >= last:
            self._share = before + number
        else:
            self._share = before + number - last if number >= last else number
        self._start_ns = max(self._start_ns, point.start_ns)
        self._last, self._last_ns = number, point.at_ns
        self._total.value += self._share - before
        return self._total.value
