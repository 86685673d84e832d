"""Asks what may not answer, in a thread beside the event loop that does not keep the process from ending.

A driver may keep whoever asks it for as long as its firmware sleeps. What still waits for an answer is not asked again.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from collectors.core.threads import in_thread

Answer = TypeVar("Answer")


class ThreadCalls(Generic[Answer]):
    """Questions by name, each asked by one thread at a time."""

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._asked: dict[str, asyncio.Future[Answer]] = {}

    @property
    def hung(self) -> frozenset[str]:
        """Who was asked and has not answered yet."""
        return frozenset(name for name, future in self._asked.items() if not future.done())

    async def call(self, questions: Iterable[tuple[str, Callable[[], Answer]]]) -> dict[str, Answer]:
        """The answers that come in time, by name; an answer that came too late is nobody's."""
        hung = self.hung
        self._asked = {name: future for name, future in self._asked.items() if name in hung}
        asked = {name: in_thread(question, "railsight-host") for name, question in questions if name not in hung}
        self._asked |= asked
        if asked:
            await asyncio.wait(asked.values(), timeout=self._deadline_s)
        return {name: future.result() for name, future in asked.items() if future.done()}
