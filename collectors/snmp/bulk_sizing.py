"""How much a request asks for: as few requests as are needed, and none whose answer gets lost. Pure.

Each request has a cost of its own, so large ones are cheap; but an answer beyond one frame comes in fragments, and
there are networks that drop fragments. Where a large answer does not come, a small one is asked for, and large ones are
left alone for a while, each time for twice as long.
"""

ONE_FRAME = 50
"""Values whose answer stays near one Ethernet frame: some 24 bytes each (measured on ifTable and ifXTable)."""
_FIRST_PAUSE, _LONGEST_PAUSE = 8, 1024
"""Of walks. A poll is some 10: after a single loss one poll is dearer, where fragments never come 1 in 100 waits."""
_COLUMNS, _WIDEST = 5, 10
"""Of a group. Wider ones bring fewer rows a request, and more in vain where columns differ in length."""


class BulkSize:
    """Of the requests to one device."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._pause, self._left = _FIRST_PAUSE, 0

    @property
    def values(self) -> int:
        """How many values to ask for."""
        return min(self._wanted, ONE_FRAME) if self._left else self._wanted

    def was_lost(self) -> None:
        """No answer came to a request of more than one frame, but one to a smaller."""
        if not self._left:
            self._left = self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def walked(self) -> None:
        """A walk is through."""
        self._left = max(0, self._left - 1)

    def was_too_big(self, values: int) -> None:
        """The device says so: as many are not asked for again."""
        self._wanted = min(self._wanted, max(1, values // 2))


def repetitions(rows: int, most: int) -> int:
    """How many rows to ask for, where so many are expected and a request may bring `most`.

    As even as it goes: of 65 rows by 20, four requests of 17 bring 3 in vain, four of 20 would bring 15.
    """
    if rows <= 0:
        return most
    return -(-rows // -(-rows // most))


def columns(count: int, rows: int, most: int) -> int:
    """How many of so many columns to ask for at once, for the fewest requests; `rows` is 0 where nobody knows.

    31 columns of 65 rows by 100 are 22 requests by 3 columns, 28 by 5, 31 by 1. Of equals the narrowest: it brings
    least in vain.
    """
    if not rows:
        return _COLUMNS
    widths = range(1, min(count, most, _WIDEST) + 1)
    return min(widths, key=lambda wide: -(-count // wide) * -(-rows // (most // wide)), default=1)
