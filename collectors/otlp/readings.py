"""Gathers the values of one device into readings. Pure.

A reading ends at a gap in the device's times, at its maximum length, or when its senders wait. Several values of one
series in a reading are high-frequency telemetry: the newest is published, and the largest depth of a queue, which shows
a burst that is shorter than the reading.
"""

from collections.abc import Iterator, Mapping

from collectors.bridge.devices import DeviceColumns, reading_of
from collectors.bridge.tables import Kind, Signal
from collectors.core.columns import Reading
from collectors.core.context import DeviceEvent
from collectors.gnmi.device_output import STATE_EVENTS
from collectors.otlp.params import Params
from streams.fabric.catalogue import Metric
from streams.wire.models import RowKind

_DEPTHS = (Metric.QUEUE_DEPTH_BYTES, Metric.QUEUE_WATERMARK_BYTES)
_SEVERAL = 2
Batches = Mapping[int, dict[int, float]]
"""The values of each time, by slot."""


class Readings:
    """The values of one device and one kind of row."""

    def __init__(self, device: str, kind: RowKind, params: Params) -> None:
        self.device, self.kind = device, kind
        self.columns = DeviceColumns(params.max_ports)
        self.latest: dict[int, float] = {}
        """The last published value of each slot."""
        self.replaced = 0
        """The readings whose time was ahead and replaced since the last look."""
        self._gap_ns = int(params.gap_s * 1e9)
        self._span_ns = int(params.span_s * 1e9)
        self._window: list[tuple[int, dict[int, float]]] = []
        self._states: list[int] = []
        self._depths: list[int] = []
        self._seen = 0
        """The slots that are in `_states` and `_depths` if they belong there."""
        self._first_ns = self._last_ns = self._received_ns = 0

    @property
    def newest_ns(self) -> int:
        """The time of the last values."""
        return self._last_ns

    def last_value(self, slot: int) -> float | None:
        """Return the last value of a slot, published or not."""
        return next((batch[slot] for _, batch in reversed(self._window) if slot in batch), self.latest.get(slot))

    @property
    def is_gathering(self) -> bool:
        """True if values wait for the end of their reading."""
        return bool(self._window)

    def add(self, batches: Batches, received_ns: int) -> Iterator[Reading | DeviceEvent]:
        """Add the values of a request; yield the readings that are complete, with the events in them."""
        for at_ns in sorted(batches):
            if self._window and (
                abs(at_ns - self._last_ns) > self._gap_ns or abs(at_ns - self._first_ns) > self._span_ns
            ):
                yield from self.end()
            if not self._window:
                self._first_ns = at_ns
            self._window.append((at_ns, batches[at_ns]))
            self._last_ns, self._received_ns = at_ns, received_ns

    def end(self) -> Iterator[Reading | DeviceEvent]:
        """Yield the reading of all values that wait, and its events."""
        window, self._window = sorted(self._window, key=lambda one: one[0]), []
        if not window:
            return
        yield from self._events(window)
        values: dict[int, float] = {}
        for _, batch in window:
            values.update(batch)
        if len(window) > 1:
            self._add_peaks(window, values)
        found = reading_of(self.columns, values, self._row_times(window), self._received_ns, 0)
        self.latest.update(values)
        if found is not None:
            self.replaced += found[1]
            yield found[0]

    def _add_peaks(self, window: list[tuple[int, dict[int, float]]], values: dict[int, float]) -> None:
        """Add the largest depth of each queue, as its watermark, if the reading has several."""
        for slot in self._depths:
            found = [batch[slot] for _, batch in window if slot in batch]
            if len(found) < _SEVERAL:
                continue
            cell = self.columns.cells[slot]
            peak = self.columns.slot(cell.row, Signal(Kind.VALUE, Metric.QUEUE_WATERMARK_BYTES, lane=cell.lane))
            if peak is not None:
                values[peak] = max(values.get(peak, 0.0), *found)

    def _row_times(self, window: list[tuple[int, dict[int, float]]]) -> Mapping[str, int]:
        """Return the newest time of each row."""
        if window[0][0] == window[-1][0]:
            return dict.fromkeys(self.columns.rows, window[0][0])
        cells = self.columns.cells
        found: dict[str, int] = {}
        for at_ns, batch in window:
            found.update(dict.fromkeys({cells[slot].row for slot in batch}, at_ns))
        return found

    def _events(self, window: list[tuple[int, dict[int, float]]]) -> Iterator[DeviceEvent]:
        """Yield the changes of the ports' states."""
        columns = self.columns
        for slot in range(self._seen, len(columns.cells)):
            if columns.states[slot]:
                self._states.append(slot)
            elif columns.cells[slot].metric in _DEPTHS:
                self._depths.append(slot)
        self._seen = len(columns.cells)
        states = {slot: self.latest.get(slot) for slot in self._states}
        for at_ns, batch in window:
            for slot in states.keys() & batch.keys():
                before, value = states[slot], batch[slot]
                states[slot] = value
                cell = columns.cells[slot]
                kind = STATE_EVENTS.get((cell.metric, value))
                if kind is not None and before is not None and before != value:
                    text = f"{cell.metric.name.lower()} {value:g}, was {before:g}"
                    yield DeviceEvent(kind, cell.row, min(at_ns, self._received_ns), text)
