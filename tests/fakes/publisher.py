"""A publisher that stores its records, as the messages that consumers would read."""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from streams.wire.topics import Record, decode

if TYPE_CHECKING:
    from streams.wire.models import Message

Kind = TypeVar("Kind")


class RecordingPublisher:
    """Accepts every record, or refuses all once `is_full`; acknowledges them while `acknowledges` is set."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.messages: list[Message] = []
        self.is_full = False
        self.acknowledges = asyncio.Event()
        self.acknowledges.set()
        self._came = asyncio.Event()

    def offer(self, record: Record, rows: int = 0) -> bool:
        """Accept the record, unless full."""
        if self.is_full:
            return False
        self.records.append(record)
        if record.value is not None:
            self.messages.append(decode(record.topic, record.value, record.headers))
        self._came.set()
        return True

    async def settled(self) -> None:
        """Return when the records are acknowledged."""
        await self.acknowledges.wait()

    def of(self, kind: type[Kind], device: str | None = None) -> list[Kind]:
        """Return the messages of a kind, of one device or of all, in order of arrival."""
        return list(self._of(kind, device))

    def _of(self, kind: type[Kind], device: str | None) -> Iterator[Kind]:
        for message in self.messages:
            if isinstance(message, kind) and (device is None or getattr(message, "device", None) == device):
                yield message

    async def until(self, holds: Callable[[], bool], within_s: float = 60.0) -> None:
        """Wait until the condition is true; raise TimeoutError if it is not in time."""
        async with asyncio.timeout(within_s):
            while not holds():
                self._came.clear()
                await self._came.wait()
