"""Manages deadlines by key: each key has one time of its next evaluation, the last that was scheduled."""

import heapq


class Deadlines:
    """Keys in the order of their deadlines."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._at: dict[str, int] = {}

    def schedule(self, name: str, due_ns: int) -> None:
        """Set the deadline of a key; later pops skip heap entries with an old deadline."""
        if self._at.get(name) != due_ns:
            self._at[name] = due_ns
            heapq.heappush(self._heap, (due_ns, name))

    def cancel(self, name: str) -> None:
        """Remove the deadline of a key, so that only new observations evaluate it."""
        self._at.pop(name, None)

    def pop_all(self, until_ns: int) -> dict[str, None]:
        """Return the keys that are due, in order, and remove their deadlines."""
        due: dict[str, None] = {}
        while (first := self.pop_due(until_ns)) is not None:
            self.cancel(first[1])
            due[first[1]] = None
        return due

    def pop_due(self, until_ns: int) -> tuple[int, str] | None:
        """Return the first key that is due, with its deadline, which stays until another is scheduled."""
        while self._heap and self._heap[0][0] <= until_ns:
            due_ns, name = heapq.heappop(self._heap)
            if self._at.get(name) == due_ns:
                return due_ns, name
        return None
