"""When what has a name is looked at next: each name has one time, the last that it asked for."""

import heapq


class Deadlines:
    """Names in the order in which they are due."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._at: dict[str, int] = {}

    def schedule(self, name: str, due_ns: int) -> None:
        """Look at it again then; an entry of the heap that is no longer the name's time is passed over."""
        if self._at.get(name) != due_ns:
            self._at[name] = due_ns
            heapq.heappush(self._heap, (due_ns, name))

    def cancel(self, name: str) -> None:
        """It waits for nothing but what it may be told."""
        self._at.pop(name, None)

    def pop_due(self, until_ns: int) -> tuple[int, str] | None:
        """The first that is due by then, with its time; it keeps that time until it asks for another."""
        while self._heap and self._heap[0][0] <= until_ns:
            due_ns, name = heapq.heappop(self._heap)
            if self._at.get(name) == due_ns:
                return due_ns, name
        return None
