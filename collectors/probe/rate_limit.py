"""Limits how often each source and all sources together are answered. Pure: the time is an argument."""

from collections import OrderedDict
from typing import Generic, TypeVar

Key = TypeVar("Key")


class TokenBucket:
    """Admits `rate_s` events a second, and up to `burst` at once."""

    __slots__ = ("_burst", "_rate_s", "_tokens", "_updated_s")

    def __init__(self, rate_s: float, burst: float, now_s: float) -> None:
        self._rate_s, self._burst = rate_s, burst
        self._tokens, self._updated_s = burst, now_s

    def admits(self, now_s: float) -> bool:
        """Return whether one more event is within the rate, and count it."""
        elapsed_s, self._updated_s = max(0.0, now_s - self._updated_s), now_s
        self._tokens = min(self._burst, self._tokens + elapsed_s * self._rate_s)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class KeyedBuckets(Generic[Key]):
    """One bucket for each key; beyond `max_keys` the one that was used longest ago is dropped."""

    def __init__(self, rate_s: float, burst: float, max_keys: int) -> None:
        self._rate_s, self._burst, self._max_keys = rate_s, burst, max_keys
        self._buckets: OrderedDict[Key, TokenBucket] = OrderedDict()

    def admits(self, key: Key, now_s: float) -> bool:
        """Return whether one more event of a key is within its rate, and count it."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(self._rate_s, self._burst, now_s)
            if len(self._buckets) > self._max_keys:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(key)
        return bucket.admits(now_s)
