"""Assigns the values of a device to slots, one for each cell and rank, with the layouts of readings. Pure."""

from collections.abc import Mapping

from collectors.bridge import values
from collectors.bridge.tables import Signal
from collectors.core.columns import CellKey, Layout
from streams.fabric.catalogue import Metric

_MOST_LAYOUTS = 32
_STATES = (Metric.OPER_UP, Metric.ADMIN_UP)


class DeviceColumns:
    """The slots of one device, as long as the process runs; `plain` marks counters that need no conversion."""

    def __init__(self, max_ports: int) -> None:
        self.cells: list[CellKey] = []
        self.signals: list[Signal] = []
        self.plain: list[bool] = []
        self.states: list[bool] = []
        self._ranks: list[int] = []
        self._number: dict[tuple[CellKey, int], int] = {}
        self._best: dict[CellKey, int] = {}
        self._rows: dict[str, bool] = {}
        """By port: whether it has values that are not secondary."""
        self._max_ports = max_ports
        self._layouts: dict[tuple[int, ...], tuple[Layout, list[int]]] = {}

    def slot(self, row: str, signal: Signal) -> int | None:
        """Return the slot of a signal at a port, new if it has none; None past the limit of ports."""
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
