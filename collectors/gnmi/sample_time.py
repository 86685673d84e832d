"""Dates the sampled values of one connection: by the device if its timestamps are send times, else by their arrival.

Arista EOS dates each leaf by its last change (its default), also in SAMPLE mode: the counters of an idle port are dated
days ago, and a sample of one port has many times. A sampled value holds when it is sent. Pure.
"""

from collections.abc import Callable

_NEVER_S = 30
"""No device sends one sample over this time, or samples for this time without a newer timestamp."""
_BURSTS = 3
"""The number of consecutive readings with consistent times after which timestamps count as send times again."""


class SampleTime:
    """Distinguishes send times from times of changes. `is_of_change` is True while timestamps are no send times."""

    def __init__(self, cadence_ns: int) -> None:
        self.is_of_change = False
        self._bound_ns = max(3 * cadence_ns, _NEVER_S * 10**9)
        self._age_ns: int | None = None
        """The age of the first sample of the present reading, at its arrival."""
        self._newest_ns = self._newest_received_ns = 0
        self._settled_ns = 0
        """Messages with the newest timestamp show nothing further until this time of arrival."""
        self._consistent = 0
        self._has_advanced = False

    def is_settled(self, device_ns: int, before_ns: int, received_ns: int) -> bool:
        """Return True if `add` concludes nothing from the timestamp of a message; `before_ns` is the arrival before."""
        return device_ns == self._newest_ns and before_ns <= received_ns <= self._settled_ns

    def add(self, device_ns: int, received_ns: int, is_sampled: Callable[[], bool]) -> bool:
        """Process the timestamp of a message; return True if it shows that timestamps are no send times.

        `is_sampled` returns whether the message has sampled values: a state sent on change has the time of its change.
        """
        age_ns = received_ns - device_ns
        is_apart = self._age_ns is not None and abs(age_ns - self._age_ns) > self._bound_ns
        is_newer = device_ns > self._newest_ns
        is_stuck = not is_newer and received_ns - self._newest_received_ns > self._bound_ns
        if (is_apart or is_stuck) and self._newest_ns and is_sampled():
            is_new, self.is_of_change = not self.is_of_change, True
            self._consistent = 0
            if is_stuck:
                self._newest_ns, self._newest_received_ns = device_ns, received_ns
            return is_new
        if is_newer:
            self._newest_ns, self._newest_received_ns = device_ns, received_ns
            self._has_advanced = True
        if self._age_ns is None and is_sampled():
            self._age_ns = age_ns
        if self._age_ns is not None:
            expected_ns = self._newest_ns + self._age_ns
            is_early = received_ns < expected_ns - self._bound_ns
            self._settled_ns = 0 if is_early else min(self._newest_received_ns, expected_ns) + self._bound_ns
        return False

    def end_reading(self) -> None:
        """Begin another reading, whose times are compared with each other."""
        self._consistent = self._consistent + 1 if self._has_advanced else 0
        if self._consistent >= _BURSTS:
            self.is_of_change = False
        self._age_ns, self._has_advanced, self._settled_ns = None, False, 0
