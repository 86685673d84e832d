"""Caches values that repeat in messages of Samples: the columns of a table and the names of the rows.

Decoding 24 columns and 128 names costs more than decoding all values. Equal columns and equal names are returned as the
same tuples, so that code that groups messages can compare by identity. The caches are bounded for any input.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streams.fabric.catalogue import Metric
from streams.wire.bounds import MAX_COLUMNS, MAX_INDEX, cleaned_names
from streams.wire.errors import Reject

_METRICS = {int(metric): metric for metric in Metric}

_MAX_LAYOUTS = 1024
_MAX_ENTRIES = 1 << 17
"""The most entries: six times the sources of the largest published fabric, 21,504."""

_MAX_CHARACTERS = 64 << 20
"""The most cached characters: 786,432 ports with distinct names of 20 characters take a quarter."""


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """The known columns of one table; `known_columns` are their indexes if the table has unknown columns."""

    metric: tuple[Metric, ...]
    index: tuple[int, ...]
    known_columns: tuple[int, ...] | None
    counters: bool
    gauges: bool
    """`counters` and `gauges` are True if the layout is valid for that table."""


class ColumnLayoutCache:
    """A cache of layouts by the numbers on the wire."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...]], ColumnLayout] = {}

    def get(self, numbers: tuple[int, ...], index: tuple[int, ...]) -> ColumnLayout:
        """Return the layout of these columns; the same object for the same columns."""
        if (layout := self._known.get((numbers, index))) is None:
            if len(numbers) > MAX_COLUMNS or not (min(index, default=0) >= -1 and max(index, default=0) <= MAX_INDEX):
                raise Reject(
                    f"Samples with {len(numbers)} columns: beyond {MAX_COLUMNS}, or an index beyond {MAX_INDEX}"
                )
            if len(self._known) >= _MAX_LAYOUTS:
                self._known.clear()
            layout = self._known[numbers, index] = _layout(numbers, index)
        return layout


def _layout(numbers: tuple[int, ...], index: tuple[int, ...]) -> ColumnLayout:
    known = [i for i, number in enumerate(numbers) if number in _METRICS]
    metrics = tuple(_METRICS[numbers[i]] for i in known)
    return ColumnLayout(
        metrics,
        tuple(index[i] for i in known),
        None if len(known) == len(numbers) else tuple(known),
        all(metric.counter for metric in metrics),
        not any(metric.counter for metric in metrics),
    )


class RowNameCache:
    """A cache of row names by sender and digest; stores each distinct list of names once."""

    def __init__(self, max_entries: int = _MAX_ENTRIES, max_characters: int = _MAX_CHARACTERS) -> None:
        self._most_entries, self._most_characters = max_entries, max_characters
        self._by_digest: dict[tuple[str, int, int, int, int], tuple[str, ...]] = {}
        self._interned: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._characters = 0

    def get(self, device: str, source: int, row_kind: int, digest: int, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names as a tuple, without decoding them if their digest is cached (0: no digest was sent).

        A correct producer changes the digest with the names. Comparing the number of names and the first and last ones
        still detects names that a faulty producer added, removed or shifted.
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
        rows = cleaned_names("Samples.row", rows)
        size = sum(map(len, rows)) + len(rows)
        if self._characters + size > self._most_characters or len(self._interned) >= self._most_entries:
            self._by_digest.clear()
            self._interned.clear()
            self._characters = 0
        if size <= self._most_characters:
            self._interned[rows] = rows
            self._characters += size
        return rows
