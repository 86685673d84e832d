"""Combines the readings of rows into one reading of their host. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collectors.core.columns import CellKey, Layout, Reading
from collectors.host.pcie import Values

_NOTABLE_DELAY_US = 1000
_MOST_DELAY_US = 2**31 - 1


@dataclass(frozen=True, slots=True)
class GroupReading:
    """The values of one device, at the middle of its reading."""

    at_ns: int
    values: Values


def merged(rows: Iterable[tuple[str, GroupReading]]) -> dict[str, GroupReading]:
    """Merge the readings of each row, at the time of the first; a row without values is omitted."""
    found: dict[str, GroupReading] = {}
    for row, result in rows:
        if not result.values:
            continue
        before = found.get(row)
        found[row] = (
            result
            if before is None
            else GroupReading(min(before.at_ns, result.at_ns), {**before.values, **result.values})
        )
    return found


class Composer:
    """Caches the layout of the last reading, which is nearly always that of the next."""

    def __init__(self) -> None:
        self._places: tuple[CellKey, ...] = ()
        self._layout = Layout(())

    def compose(self, rows: Mapping[str, GroupReading], received_at_ns: int, boot_id: int) -> Reading:
        """Return one row for each name; there is at least one."""
        ordered = sorted(rows.items())
        places = tuple(CellKey(row, *place) for row, result in ordered for place in sorted(result.values))
        if places != self._places:
            self._places, self._layout = places, Layout(places)
        values = [
            int(result.values[place]) if place[0].counter else float(result.values[place])
            for _, result in ordered
            for place in sorted(result.values)
        ]
        sampled_ns = min(result.at_ns for _, result in ordered)
        delays = tuple(min((result.at_ns - sampled_ns) // 1000, _MOST_DELAY_US) for _, result in ordered)
        return Reading(
            sampled_ns, max(received_at_ns, sampled_ns), boot_id, self._layout.row, self._layout.rows_digest,
            *self._layout.tables(values), delays if max(delays) >= _NOTABLE_DELAY_US else (),
        )  # fmt: skip
