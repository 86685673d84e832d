"""What repeats from message to message of Samples, remembered: the columns of a table and the names of the rows.

Reading 24 columns and 128 names anew costs more than reading all values. Equal columns and equal names come back as the
same tuples, so that whoever groups messages can compare by identity. What is remembered is bounded, whatever is sent.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streams.fabric.catalogue import CATALOGUE, Metric

_METRICS = {int(metric): metric for metric in Metric}

_MAX_LAYOUTS = 1024
_MAX_COLUMNS = 4096
"""A layout of more is read anew each time: the catalogue's metrics times 32 lanes are fewer."""

_MAX_ENTRIES = 1 << 17
"""Six times the sources of the largest published fabric, 21,504."""

_MAX_CHARACTERS = 64 << 20
"""Of names kept: 786,432 ports with names of 20 characters, none shared, are a quarter."""


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """The columns of one table, of those that this version knows; `kept` are their places where some are not known."""

    metric: tuple[Metric, ...]
    index: tuple[int, ...]
    known_columns: tuple[int, ...] | None
    counters: bool
    gauges: bool
    """Whether it may stand in the table of counters, and in that of gauges."""


class ColumnLayoutCache:
    """Layouts by the numbers on the wire."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...]], ColumnLayout] = {}

    def get(self, numbers: tuple[int, ...], index: tuple[int, ...]) -> ColumnLayout:
        """The layout of these columns; the same object for the same columns."""
        if (layout := self._known.get((numbers, index))) is None:
            layout = _layout(numbers, index)
            if len(numbers) <= _MAX_COLUMNS:
                if len(self._known) >= _MAX_LAYOUTS:
                    self._known.clear()
                self._known[numbers, index] = layout
        return layout


def _layout(numbers: tuple[int, ...], index: tuple[int, ...]) -> ColumnLayout:
    known = [i for i, number in enumerate(numbers) if number in _METRICS]
    metrics = tuple(_METRICS[numbers[i]] for i in known)
    return ColumnLayout(
        metrics,
        tuple(index[i] for i in known),
        None if len(known) == len(numbers) else tuple(known),
        all(CATALOGUE[metric].counter for metric in metrics),
        not any(CATALOGUE[metric].counter for metric in metrics),
    )


class RowNameCache:
    """Row names by who sent them and the digest that they sent; each distinct list of names is kept once."""

    def __init__(self, max_entries: int = _MAX_ENTRIES, max_characters: int = _MAX_CHARACTERS) -> None:
        self._most_entries, self._most_characters = max_entries, max_characters
        self._by_digest: dict[tuple[str, int, int, int, int], tuple[str, ...]] = {}
        self._interned: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._characters = 0

    def get(self, device: str, source: int, row_kind: int, digest: int, names: Sequence[str]) -> tuple[str, ...]:
        """The names as a tuple, without reading them where the digest (0: none was sent) says that they are known.

        A digest that stays while the names change is a producer's mistake; the number of names and the two at the ends
        are compared, so that what grows, shrinks or shifts is read anew all the same.
        """
        count = len(names)
        if not digest or not count:
            return self._intern(names)
        key = (device, source, row_kind, digest, count)
        known = self._by_digest.get(key)
        if known is not None and known[0] == names[0] and known[-1] == names[-1]:
            return known
        rows = self._intern(names)
        if len(self._by_digest) >= self._most_entries:
            self._by_digest.clear()
        if rows in self._interned:
            self._by_digest[key] = rows
        return rows

    def _intern(self, names: Iterable[str]) -> tuple[str, ...]:
        rows = tuple(names)
        if (known := self._interned.get(rows)) is not None:
            return known
        size = sum(map(len, rows)) + len(rows)
        if self._characters + size > self._most_characters or len(self._interned) >= self._most_entries:
            self._by_digest.clear()
            self._interned.clear()
            self._characters = 0
        if size <= self._most_characters:
            self._interned[rows] = rows
            self._characters += size
        return rows
