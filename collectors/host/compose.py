"""From what each row said to one reading of their host. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collectors.core.columns import CellKey, Layout, Reading
from collectors.host.pcie import Values
from streams.fabric.catalogue import CATALOGUE

_NOTABLE_DELAY_US = 1000
_MOST_DELAY_US = 2**31 - 1


@dataclass(frozen=True, slots=True)
class GroupReading:
    """What one device said, at the middle of the asking."""

    at_ns: int
    values: Values


def merged(rows: Iterable[tuple[str, GroupReading]]) -> dict[str, GroupReading]:
    """One for each row: what several told of it, at the time of the first; a row that said nothing is none."""
    found: dict[str, GroupReading] = {}
    for row, said in rows:
        if not said.values:
            continue
        before = found.get(row)
        found[row] = (
            said if before is None else GroupReading(min(before.at_ns, said.at_ns), {**before.values, **said.values})
        )
    return found


class Composer:
    """Keeps the layout of the last reading, which is nearly always that of the next."""

    def __init__(self) -> None:
        self._places: tuple[CellKey, ...] = ()
        self._layout = Layout(())

    def compose(self, rows: Mapping[str, GroupReading], received_at_ns: int, boot_id: int) -> Reading:
        """One row for each name; there is one at least."""
        ordered = sorted(rows.items())
        places = tuple(CellKey(row, *place) for row, said in ordered for place in sorted(said.values))
        if places != self._places:
            self._places, self._layout = places, Layout(places)
        values = [
            int(said.values[place]) if CATALOGUE[place[0]].counter else float(said.values[place])
            for _, said in ordered
            for place in sorted(said.values)
        ]
        sampled_ns = min(said.at_ns for _, said in ordered)
        delays = tuple(min((said.at_ns - sampled_ns) // 1000, _MOST_DELAY_US) for _, said in ordered)
        return Reading(
            sampled_ns, max(received_at_ns, sampled_ns), boot_id, self._layout.row, self._layout.rows_digest,
            *self._layout.tables(values), delays if max(delays) >= _NOTABLE_DELAY_US else (),
        )  # fmt: skip
