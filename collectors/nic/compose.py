"""Combines the readings of ports into one reading of their host. Pure."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from collectors.core.columns import CellKey, Layout, Reading
from collectors.nic.reading import PortReading

if TYPE_CHECKING:
    from collectors.nic.metric_sources import Slot

_NOTABLE_DELAY_US = 1000
"""Rows read within a millisecond count as simultaneous: nothing is measured at a finer resolution."""


class Composer:
    """Caches the layout of the last reading, which is nearly always that of the next."""

    def __init__(self) -> None:
        self._key: tuple[tuple[str, tuple[Slot, ...]], ...] = ()
        self._layout = Layout(())

    def compose(self, readings: Mapping[str, PortReading], boot_id: int) -> Reading:
        """Return one row for each name; the time of a row is the middle of its own reading."""
        ordered = sorted(readings.items())
        key = tuple((name, reading.slots) for name, reading in ordered)
        if key != self._key:
            self._key = key
            self._layout = Layout([CellKey(name, metric, lane) for name, slots in key for metric, lane in slots])
        sampled_ns = min(reading.middle_ns for _, reading in ordered)
        delays = tuple((reading.middle_ns - sampled_ns) // 1000 for _, reading in ordered)
        tables = self._layout.tables([value for _, reading in ordered for value in reading.values])
        return Reading(
            sampled_ns, max(reading.ended_ns for _, reading in ordered), boot_id, self._layout.row,
            self._layout.rows_digest, *tables, delays if max(delays) >= _NOTABLE_DELAY_US else (),
        )  # fmt: skip
