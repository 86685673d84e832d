"""Sends the fabric's messages to Kafka and records which of them Kafka acknowledged.

It does what a collector with a spool does: a message stays in order in memory until it is acknowledged, and is sent
again with the same identity after an error.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from lab.chaos.fabric import CADENCE_S, Fabric
from streams.config.kafka import KafkaSettings
from streams.fabric.inventory import Link
from streams.runtime.topic_writer import inventory_records, publish
from streams.wire.models import Event, Message, Samples
from streams.wire.topics import COLLECTOR_STATUS, EVENTS, SAMPLES, Record, Topic, encode

_STATUS_EVERY = 10
_LOG_EVENTS = 6
_BATCH = 400
_RETRY_S = 0.3
_DELIVERY_S = 20.0


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a message: what a spool sends again has the same one."""

    topic: str
    device: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """One acknowledged message: its number of rows, and the time of the acknowledgement."""

    rows: int
    at_s: float


@dataclass
class Ledger:
    """The messages that were offered, and those that Kafka acknowledged."""

    offered: int = 0
    acknowledged: dict[Identity, Acknowledged] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Pending:
    record: Record
    identity: Identity | None
    rows: int


class Load:
    """Offers readings and events at a constant rate while it runs."""

    def __init__(self, kafka: KafkaSettings, fabric: Fabric, seed: int) -> None:
        self.ledger = Ledger()
        self.fabric = fabric
        self._kafka = kafka
        self._rng = random.Random(seed)
        self._pending: deque[_Pending] = deque()
        self._stopped = False
        self._is_counting = True

    @property
    def pending(self) -> int:
        """The number of messages in the ledger that are not acknowledged yet."""
        return sum(1 for one in self._pending if one.identity is not None)

    async def publish_inventory(self) -> None:
        """Publish the inventory, effective from now on."""
        await publish(self._kafka, inventory_records(self.fabric.inventory, time.time_ns()))

    def change_link(self, choose: Callable[[Fabric], Link], *, down: bool) -> None:
        """Change the state of a link now."""
        for event in self.fabric.change(choose(self.fabric), time.time_ns(), down=down):
            self._offer(EVENTS, event)

    def stop_counting(self) -> None:
        """Offer on, so that no device becomes silent, what is no longer in the ledger."""
        self._is_counting = False

    def stop(self) -> None:
        """Offer nothing more; `run` returns when all is acknowledged."""
        self._stopped = True

    async def run(self) -> None:
        """Offer and send until stopped and everything is acknowledged; it can run again then."""
        self._stopped, self._is_counting = False, True
        await asyncio.gather(self._offer_readings(), self._send_pending())

    async def _offer_readings(self) -> None:
        next_s, turn = time.monotonic(), 0
        while not self._stopped:
            for device in self.fabric.devices:
                now_ns = time.time_ns()
                self._offer(SAMPLES, self.fabric.samples(device, now_ns))
                if turn % _STATUS_EVERY == 0:
                    self._offer(COLLECTOR_STATUS, self.fabric.status(device, now_ns))
            for _ in range(_LOG_EVENTS):
                self._offer(EVENTS, self.fabric.log_event(self._rng.choice(self.fabric.devices), time.time_ns()))
            turn += 1
            next_s += CADENCE_S
            await asyncio.sleep(max(0.0, next_s - time.monotonic()))

    def _offer(self, topic: Topic, message: Message) -> None:
        identity, rows = None, 0
        if self._is_counting and isinstance(message, Samples | Event):
            identity = Identity(topic.name, message.device, message.sequence)
            rows = len(message.row) if isinstance(message, Samples) else 1
            self.ledger.offered += 1
        self._pending.append(_Pending(encode(topic, message), identity, rows))

    async def _send_pending(self) -> None:
        while not (self._stopped and not self._pending):
            producer = AIOKafkaProducer(
                **self._kafka.client_options(), acks="all", enable_idempotence=True, linger_ms=5,
                request_timeout_ms=5000, metadata_max_age_ms=2000,
            )  # fmt: skip
            with suppress(KafkaError, OSError, TimeoutError):
                try:
                    await producer.start()
                    while not (self._stopped and not self._pending):
                        await asyncio.wait_for(self._send_batch(producer), _DELIVERY_S)
                        await asyncio.sleep(0.05)
                finally:
                    with suppress(KafkaError, OSError, TimeoutError):
                        await asyncio.wait_for(producer.stop(), 5)
            await asyncio.sleep(_RETRY_S)

    async def _send_batch(self, producer: AIOKafkaProducer) -> None:
        """Send the oldest messages; remove them only when all of them are acknowledged."""
        batch = [self._pending[i] for i in range(min(_BATCH, len(self._pending)))]
        deliveries = [
            await producer.send(
                one.record.topic.name, one.record.value, key=one.record.key,
                partition=one.record.partition(self._kafka.partitions), headers=list(one.record.headers),
            )
            for one in batch
        ]  # fmt: skip
        results = await asyncio.gather(*deliveries, return_exceptions=True)
        now_s = time.monotonic()
        for one, result in zip(batch, results, strict=True):
            if not isinstance(result, BaseException) and one.identity is not None:
                self.ledger.acknowledged.setdefault(one.identity, Acknowledged(one.rows, now_s))
        error = next((result for result in results if isinstance(result, BaseException)), None)
        if error is not None:
            raise error
        for _ in batch:
            self._pending.popleft()
