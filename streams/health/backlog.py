"""Detects input that is not processed although records wait."""

from collections.abc import Callable, Set


class Backlog:
    """The time for which each input has not moved while it had records to read."""

    def __init__(self, stuck_s: float, now_s: Callable[[], float]) -> None:
        self._stuck_s = stuck_s
        self._now_s = now_s
        self._last: dict[str, tuple[int, float]] = {}

    def problem(self, name: str, position: int, *, is_waiting: bool) -> str:
        """Return the problem of an input, empty if it moved within the limit or nothing waits.

        `position` is any number that changes with each processed record; `is_waiting` is whether records wait and
        nothing outside of the process prevents their processing.
        """
        stuck_s = self.stuck_s(name, position, is_waiting=is_waiting)
        return f"{name} processed no record for {stuck_s:.0f} s though records wait" if stuck_s else ""

    def stuck_s(self, name: str, position: int, *, is_waiting: bool) -> float:
        """Return the time for which an input or a step of work has not moved; 0 within the limit."""
        now_s = self._now_s()
        known, since_s = self._last.get(name, (position, now_s))
        if not is_waiting or position != known:
            since_s = now_s
        self._last[name] = position, since_s
        stuck_s = now_s - since_s
        return stuck_s if stuck_s > self._stuck_s else 0.0

    def retain(self, names: Set[str]) -> None:
        """Forget all inputs but these: the others belong to another process now."""
        self._last = {name: last for name, last in self._last.items() if name in names}
