"""Gathers the values of one device that belong to one reading. Pure."""

from dataclasses import dataclass, field

from collectors.bridge.devices import Device
from collectors.core.columns import Reading

AHEAD_NS = 1_000_000_000
"""DESIGN 2.1: a device whose clock is ahead must not affect others."""
_MAX_DELAY_US = 2**31 - 1


@dataclass(slots=True)
class SampleWindow:
    """The values of a device in a unit, by slot, the time of each port's newest, and the first and last of all.

    Times are the device's own, not corrected; `received_ns` is local.
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
        """Return True if one of the values is already present, with another time."""
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
        """Return the reading, and whether its time was replaced by the local one; None if it has no used value."""
        found = self.device.columns.layout(self.values)
        if found is None:
            return None
        layout, chosen = found
        counters, gauges = layout.tables([self.values[slot] for slot in chosen])
        latest_ns = self.received_ns + AHEAD_NS
        times = [self.row_at_ns[row] for row in layout.row]
        is_ahead = max(times) > latest_ns
        if is_ahead:
            times = [at_ns if at_ns <= latest_ns else self.received_ns for at_ns in times]
        sampled_at_ns = min(times)
        delays: tuple[int, ...] = ()
        if max(times) - sampled_at_ns >= 1000:
            delays = tuple(min((at_ns - sampled_at_ns) // 1000, _MAX_DELAY_US) for at_ns in times)
        reading = Reading(
            sampled_at_ns, self.received_ns, self.device.boot_id, layout.row, layout.rows_digest, counters, gauges,
            delays,
        )  # fmt: skip
        return reading, is_ahead
