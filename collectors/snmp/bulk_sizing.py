"""Sizes GETBULK requests: as few as possible, and none whose answer is lost. Pure.

Each request has a cost of its own, so large ones are cheap; but an answer larger than one frame is fragmented, and
some networks drop fragments. If a large answer does not arrive, a small one is requested, and large ones are not used
for a while, each time for twice as long.
"""

ONE_FRAME = 50
"""Values whose answer is about one Ethernet frame: some 24 bytes each (measured on ifTable and ifXTable)."""
_FIRST_PAUSE, _LONGEST_PAUSE = 8, 1024
"""Numbers of walks. A poll is some 10: a single loss costs one poll more; if fragments never arrive, 1 in 100 waits."""
_COLUMNS, _WIDEST = 5, 10
"""Columns of a group. Wider ones return fewer rows per request, and more unused cells if columns differ in length."""


class BulkSize:
    """The request size of one device."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._pause, self._left = _FIRST_PAUSE, 0

    @property
    def values(self) -> int:
        """The number of values to request."""
        return min(self._wanted, ONE_FRAME) if self._left else self._wanted

    def was_lost(self) -> None:
        """Record that a request of more than one frame had no answer, but a smaller one had."""
        if not self._left:
            self._left = self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def walked(self) -> None:
        """Record that a walk has finished."""
        self._left = max(0, self._left - 1)

    def was_too_big(self, values: int) -> None:
        """Record that the device refused so many values; fewer are requested from now on."""
        self._wanted = min(self._wanted, max(1, values // 2))


def repetitions(rows: int, most: int) -> int:
    """Return the number of rows to request, if so many are expected and a request may return `most`.

    As even as possible: of 65 rows by 20, four requests of 17 return 3 unused rows, four of 20 would return 15.
    """
    if rows <= 0:
        return most
    return -(-rows // -(-rows // most))


def columns(count: int, rows: int, most: int) -> int:
    """Return the number of columns to request together for the fewest requests; `rows` is 0 if unknown.

    31 columns of 65 rows by 100 are 22 requests by 3 columns, 28 by 5, 31 by 1. Of equals the narrowest is chosen: it
    returns the fewest unused cells.
    """
    if not rows:
        return _COLUMNS
    widths = range(1, min(count, most, _WIDEST) + 1)
    return min(widths, key=lambda wide: -(-count // wide) * -(-rows // (most // wide)), default=1)
