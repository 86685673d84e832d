"""How far a device's clock is from ours, as told by the times in what it sends. Pure.

A message comes after it was stamped, by its delay, or long after: a value that has not changed for days may carry the
time of its change. So the least delayed message of the last minute or two tells the most. What follows from it is
DESIGN 2.1: a time more than a second ahead of ours is replaced by ours, one that is behind is the device's own affair.
"""

AHEAD_NS = 1_000_000_000
_WINDOW_NS = 60_000_000_000


class ClockSkew:
    """One for a device."""

    def __init__(self) -> None:
        self._before_ns: int | None = None
        self._best_ns: int | None = None
        self._until_ns = 0

    @property
    def offset_ns(self) -> int:
        """Its clock minus ours, short by the smallest delay seen; 0 where it never said a time."""
        known = [offset for offset in (self._before_ns, self._best_ns) if offset is not None]
        return max(known, default=0)

    def add(self, device_ns: int, received_ns: int) -> None:
        """What the device says that it is, and what it was here."""
        offset_ns = device_ns - received_ns
        if received_ns >= self._until_ns:
            self._before_ns = self._best_ns
            self._best_ns, self._until_ns = offset_ns, received_ns + _WINDOW_NS
        elif self._best_ns is None or offset_ns > self._best_ns:
            self._best_ns = offset_ns
