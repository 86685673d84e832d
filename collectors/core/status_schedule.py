"""When a collector says whether it reaches a target: at each change and each doubt, and rarely while samples say it.

What is said is a CollectorStatus; composing and sending it is the caller's. Time is given, by a clock that only
grows.
"""

from zlib import crc32

EVERY_S = 60.0
"""A target is covered where its newest status is two or three of these old at most."""

_UNHEARD_CADENCES = 1.5
"""One late sample is no doubt. A collector that lives has said so within the last cadence when `measure` judges a
silence, after three cadences at least; of one that died the newest word is then more than half of that old."""
_AGAIN_CADENCES = 0.5
"""Looks come about once a cadence, some a little early."""


class StatusSchedule:
    """One target's. Ask `is_due` about once a cadence and at each change; what is due then counts as said."""

    def __init__(self, device: str, cadence_s: float, every_s: float = EVERY_S) -> None:
        self._cadence_s = cadence_s
        self._every_s = every_s
        self._phase = crc32(device.encode()) / 2**32
        """Of a fabric's targets that are reached together, few have their next turn together."""
        self._said: tuple[bool, str] | None = None
        self._said_s = self._turn_s = self._sampled_s = float("-inf")

    def sampled(self, now_s: float) -> None:
        """A sample of the target went out, which says as much as a status."""
        self._sampled_s = now_s

    def is_due(self, now_s: float, *, reachable: bool, error: str = "") -> bool:
        """Whether to say it now."""
        says = reachable, error
        is_first = self._said is None
        changed = says != self._said
        in_doubt = not reachable or now_s - self._sampled_s > _UNHEARD_CADENCES * self._cadence_s
        again = in_doubt and now_s - self._said_s >= _AGAIN_CADENCES * self._cadence_s
        if not (changed or again or now_s >= self._turn_s):
            return False
        if is_first:
            self._turn_s = now_s + self._every_s * self._phase
        elif now_s >= self._turn_s:
            self._turn_s += self._every_s * (1 + (now_s - self._turn_s) // self._every_s)
        self._said, self._said_s = says, now_s
        return True
