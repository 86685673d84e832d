"""Where the values of a device go: a slot for each place and rank, and the layouts of what comes together. Pure."""

from collections.abc import Mapping

from collectors.bridge import values
from collectors.bridge.signals import Signal
from collectors.core.columns import CellKey, Layout
from streams.fabric.catalogue import Metric

_MOST_LAYOUTS = 32
_STATES = (Metric.OPER_UP, Metric.ADMIN_UP)


class DeviceColumns:
    """The slots of one device, for the life of the process; `plain` says which are counters in their own unit."""

    def __init__(self, max_ports: int) -> None:
        self.places: list[CellKey] = []
        self.signals: list[Signal] = []
        self.plain: list[bool] = []
        self.states: list[bool] = []
        self._ranks: list[int] = []
        self._number: dict[tuple[CellKey, int], int] = {}
        self._best: dict[CellKey, int] = {}
        self._rows: set[str] = set()
        self._max_ports = max_ports
        self._layouts: dict[tuple[int, ...], tuple[Layout, list[int]]] = {}

    def slot(self, row: str, signal: Signal) -> int | None:
        """The slot of a signal at a port, new where it has none; None past the bound of ports."""
        assert signal.metric is not None
        place = CellKey(row, signal.metric, signal.lane)
        found = self._number.get((place, signal.rank))
        if found is not None:
            return found
        if row not in self._rows:
            if len(self._rows) >= self._max_ports:
                return None
            self._rows.add(row)
        self._number[place, signal.rank] = number = len(self.places)
        self.places.append(place)
        self.signals.append(signal)
        self.plain.append(signal.read is values.counter)
        self.states.append(signal.metric in _STATES)
        self._ranks.append(signal.rank)
        best = self._best.get(place)
        if best is None or signal.rank > self._ranks[best]:
            self._best[place] = number
            self._layouts.clear()
        return number

    def layout(self, filled: Mapping[int, float]) -> tuple[Layout, list[int]] | None:
        """The layout of a reading, and the slot of each of its places; None where nothing in it counts.

        A witness of lower rank is left out once a better one was heard: two counters of one metric differ, and to
        change over would be a burst that never was.
        """
        key = tuple(sorted(filled))
        known = self._layouts.get(key)
        if known is None:
            # By name: in which order ports were first met is not the same after a restart.
            chosen = sorted((s for s in key if self._best[self.places[s]] == s), key=self.places.__getitem__)
            if len(self._layouts) >= _MOST_LAYOUTS:
                self._layouts.clear()
            known = self._layouts[key] = Layout([self.places[slot] for slot in chosen]), chosen
        return known if known[1] else None
