"""Makes calls that may block, in threads beside the event loop that do not prevent the process from exiting.

A driver may block a caller for as long as its firmware sleeps. A call that is still blocked is not repeated.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from collectors.core.tasks import in_thread

Answer = TypeVar("Answer")


class ThreadCalls(Generic[Answer]):
    """Calls by name, each made by one thread at a time."""

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._asked: dict[str, asyncio.Future[Answer]] = {}

    @property
    def hung(self) -> frozenset[str]:
        """The calls that have not returned yet."""
        return frozenset(name for name, future in self._asked.items() if not future.done())

    async def call(self, questions: Iterable[tuple[str, Callable[[], Answer]]]) -> dict[str, Answer]:
        """Return the results that arrive within the deadline, by name; a late result is dropped."""
        hung = self.hung
        self._asked = {name: future for name, future in self._asked.items() if name in hung}
        asked = {name: in_thread(question, "railsight-host") for name, question in questions if name not in hung}
        self._asked |= asked
        if asked:
            await asyncio.wait(asked.values(), timeout=self._deadline_s)
        return {name: future.result() for name, future in asked.items() if future.done()}
