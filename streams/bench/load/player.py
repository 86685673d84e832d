"""Sends the load to Kafka on time: a slot every few milliseconds, nothing made up for in bursts.

Events go out in the slot in which they happen; samples and statuses gather, as in a collector, one batch a partition.

What counts as sent is what Kafka acknowledged. A slot that begins late is late, and said; the times in the messages
are those at which it did begin.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from streams.bench.load.fault_plan import Fault
from streams.bench.load.fleet import Encoded, Fleet, Lived
from streams.bench.load.spec import InjectedFault, LoadReport, Spec
from streams.wire.topics import COLLECTOR_STATUS, EVENTS, SAMPLES, Topic, encode, partition_of

_MARK_EVERY_S = 1.0
_GATHERED_S = 0.25
"""As in collectors (collectors/core/send_batching.py), where an event likewise takes along what was read before it.

At 131,072 GPUs, runs 10 minutes apart: the broker took 2.15 CPU s a million port-samples with a batch every 50 ms,
1.92 with one every 250 ms, while process took 3.10 and 3.36, persist 2.91 and 3.15."""


@dataclass(slots=True)
class SendStats:
    """What was acknowledged, what was refused, and how late slots began."""

    messages: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    bytes: int = 0
    batches: int = 0
    refused: int = 0
    late_s: list[float] = field(default_factory=list)
    waiting: int = 0


class Player:
    """One run of the load."""

    def __init__(self, spec: Spec, fleet: Fleet, devices: Iterable[str], faults: list[Fault]) -> None:
        self._spec = spec
        self._fleet = fleet
        self._partition = [partition_of(device, spec.partitions) for device in devices]
        self._faults = [Lived(fault) for fault in faults]
        self._changes = sorted(
            (spec.warm_s + at_s, lived, number)
            for lived, fault in enumerate(faults)
            for number, at_s in enumerate(fault.changes)
        )
        self._tally = SendStats()
        self._marks: list[tuple[int, int, int]] = []
        self._began_ns = self._over_ns = 0
        self._last_s = max((at_s for at_s, _, _ in self._changes), default=0.0)
        self._producers: list[AIOKafkaProducer] = []
        self._held: dict[tuple[Topic, int, int], list[Encoded]] = defaultdict(list)

    async def play(self, stop: asyncio.Event) -> None:
        """Send until told to stop, wait for what is under way, and write what was sent."""
        self._producers = [self._producer() for _ in range(self._spec.senders)]
        try:
            for producer in self._producers:
                await producer.start()
            self._began_ns = time.time_ns()
            self._over_ns = self._began_ns + round(self._last_s * 1e9)
            self._say(done=False)
            await self._slots(stop)
            await self._let_go(range(self._spec.partitions))
            for producer in self._producers:
                await producer.flush()
        finally:
            for producer in self._producers:
                with suppress(KafkaError):
                    await producer.stop()
        self._say(done=True)

    def _producer(self) -> AIOKafkaProducer:
        return AIOKafkaProducer(
            bootstrap_servers=self._spec.bootstrap.split(","),
            acks="all",
            enable_idempotence=True,
            compression_type=None if self._spec.compression == "none" else self._spec.compression,
            max_batch_size=2 << 20,
            max_request_size=8 << 20,
        )

    def _sender(self, device: int) -> int:
        return device % len(self._producers)

    async def _slots(self, stop: asyncio.Event) -> None:
        number, marked_s = 0, 0.0
        gathered = max(1, round(_GATHERED_S / self._spec.slot_s))
        while not stop.is_set():
            number += 1
            due_s = number * self._spec.slot_s
            ahead_s = due_s - self._since()
            if ahead_s > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), ahead_s)
                    return
            else:
                await asyncio.sleep(0)
            self._tally.late_s.append(max(0.0, self._since() - due_s))
            await self._happen(due_s)
            now_ns = time.time_ns()
            self._hold(SAMPLES, self._fleet.readings(due_s, now_ns))
            self._hold(COLLECTOR_STATUS, self._fleet.statuses(due_s, now_ns))
            if number % gathered == 0:
                await self._let_go(range(self._spec.partitions))
            if due_s - marked_s >= _MARK_EVERY_S:
                marked_s = due_s
                self._marks.append((time.time_ns(), self._tally.messages[SAMPLES.name], self._tally.rows))
                self._say(done=False)

    def _since(self) -> float:
        return (time.time_ns() - self._began_ns) / 1e9

    async def _happen(self, due_s: float) -> None:
        """What the faults change by now; events go out at once, each alone, as a device tells them."""
        while self._changes and self._changes[0][0] <= due_s:
            _, which, number = self._changes.pop(0)
            lived = self._faults[which]
            now_ns = time.time_ns()
            lived.at_ns.append(now_ns)
            for device, event in self._fleet.change(lived.fault, number, now_ns):
                await self._let_go([self._partition[device]])
                record = encode(EVENTS, event)
                future = await self._producers[self._sender(device)].send(
                    record.topic.name, value=record.value, key=record.key, partition=self._partition[device]
                )
                self._follow(future, EVENTS, 1, 0, len(record.value or b""))

    def _hold(self, topic: Topic, messages: Iterable[Encoded]) -> None:
        for message in messages:
            self._held[topic, self._sender(message.device), self._partition[message.device]].append(message)

    async def _let_go(self, partitions: Collection[int]) -> None:
        """Send what was gathered for these: a batch of each sender, topic and partition, several where one is full."""
        for topic, sender, partition in [key for key in self._held if key[2] in partitions]:
            own = self._held.pop((topic, sender, partition))
            producer = self._producers[sender]
            stamp_ms = time.time_ns() // 1_000_000
            batch = producer.create_batch()
            taken: list[Encoded] = []
            for message in own:
                if batch.append(key=message.key, value=message.value, timestamp=stamp_ms) is None:
                    await self._hand_over(producer, topic, partition, batch, taken)
                    batch, taken = producer.create_batch(), []
                    batch.append(key=message.key, value=message.value, timestamp=stamp_ms)
                taken.append(message)
            await self._hand_over(producer, topic, partition, batch, taken)

    async def _hand_over(
        self, producer: AIOKafkaProducer, topic: Topic, partition: int, batch: Any, taken: list[Encoded]
    ) -> None:
        future = await producer.send_batch(batch, topic.name, partition=partition)
        self._follow(future, topic, len(taken), sum(m.rows for m in taken), sum(len(m.value) for m in taken))

    def _follow(self, future: "asyncio.Future[Any]", topic: Topic, messages: int, rows: int, size: int) -> None:
        tally = self._tally
        tally.waiting += messages
        tally.batches += 1

        def acknowledged(done: "asyncio.Future[Any]") -> None:
            tally.waiting -= messages
            if done.cancelled() or done.exception() is not None:
                tally.refused += messages
                return
            tally.messages[topic.name] += messages
            tally.rows += rows
            tally.bytes += size

        future.add_done_callback(acknowledged)

    def _say(self, *, done: bool) -> None:
        tally = self._tally
        late = sorted(tally.late_s) or [0.0]
        refused = tally.refused + (tally.waiting if done else 0)
        said = LoadReport(
            done, self._began_ns, self._over_ns, dict(tally.messages), tally.rows, tally.bytes, refused,
            late[-1], late[int(len(late) * 0.99)], self._marks if done else [], self._told() if done else [],
            tally.batches,
        )  # fmt: skip
        scratch = Path(self._spec.report_path).with_suffix(".new")
        scratch.write_bytes(orjson.dumps(said))
        scratch.replace(self._spec.report_path)

    def _told(self) -> list[InjectedFault]:
        told = []
        for lived in self._faults:
            if lived.at_ns:
                device, port = self._fleet.end_of(lived.fault)
                told.append(InjectedFault(lived.fault.kind.value, device, port, lived.at_ns))
        return told
