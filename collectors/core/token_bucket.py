"""Limits a rate, with a burst. Pure; time is any monotonic clock."""


class TokenBucket:
    """Admits `rate_s` events a second, and up to `burst` at once."""

    __slots__ = ("_burst", "_rate_s", "_tokens", "_updated_s")

    def __init__(self, rate_s: float, burst: float, now_s: float) -> None:
        self._rate_s, self._burst = rate_s, burst
        self._tokens, self._updated_s = burst, now_s

    def admits(self, now_s: float) -> bool:
        """Return True and count one more event if it is within the rate."""
        elapsed_s, self._updated_s = max(0.0, now_s - self._updated_s), now_s
        self._tokens = min(self._burst, self._tokens + elapsed_s * self._rate_s)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
