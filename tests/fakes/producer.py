"""An aiokafka producer without brokers: a log in memory, with failures that a test sets."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Metadata:
    """The result of a delivery."""

    offset: int
    timestamp: int = -1
    timestamp_type: int = 0
    """1: the time at which the broker appended the record, as our topics have it."""


@dataclass
class FakeProducer:
    """Stores the sent records. Calls of `send` are numbered from 0."""

    fail: dict[int, BaseException] = field(default_factory=dict)
    """Deliveries that fail after they were accepted."""
    refuse: dict[int, BaseException] = field(default_factory=dict)
    """Calls that raise at once."""
    log: dict[tuple[str, int], list[tuple[bytes, bytes | None]]] = field(default_factory=lambda: defaultdict(list))
    calls: int = 0
    append_ms: int | None = None
    """The clock of the brokers; None: they return no time."""

    async def open_transactions(self, transactional_id: str) -> "FakeProducer":
        return self

    async def send(
        self, topic: str, value: bytes | None, *, key: bytes, partition: int, headers: Sequence[tuple[str, bytes]]
    ) -> "asyncio.Future[Metadata]":
        """Accept a record and return the future of its delivery."""
        call = self.calls
        self.calls += 1
        if call in self.refuse:
            raise self.refuse[call]
        delivery: asyncio.Future[Metadata] = asyncio.get_running_loop().create_future()
        if call in self.fail:
            delivery.set_exception(self.fail[call])
        else:
            self.log[topic, partition].append((key, value))
            offset, at_ms = len(self.log[topic, partition]) - 1, self.append_ms
            delivery.set_result(Metadata(offset) if at_ms is None else Metadata(offset, at_ms, 1))
        return delivery
