"""Sends the load to Kafka on time: one slot every few milliseconds, without bursts to catch up.

Events are sent in the slot in which they occur; samples and statuses are batched by partition, as in a collector.

A message counts as sent after Kafka has acknowledged it. A slot that starts late is reported; its messages have the
time at which it started.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from lab.bench.load.fleet import Encoded, Fleet
from lab.bench.load.spec import LoadReport, ReportedFault, Spec
from streams.config.settings import load
from streams.wire.models import Event, Facts, ProbeReport
from streams.wire.topics import COLLECTOR, COLLECTOR_STATUS, EVENTS, FACTS, PROBES, SAMPLES, Topic, encode, partition_of

_MARK_EVERY_S = 1.0
_TOPICS: dict[type, Topic] = {Event: EVENTS, Facts: FACTS, ProbeReport: PROBES}
_BATCH_S = 0.25
"""The collectors' interval (collectors/core/publisher.py); there an event also sends all waiting readings.

Measured at 131,072 GPUs in runs 10 minutes apart: the broker took 2.15 CPU s per million port-samples with a batch
every 50 ms and 1.92 with one every 250 ms; process took 3.10 and 3.36, persist 2.91 and 3.15."""


@dataclass(slots=True)
class SendStats:
    """Counts of acknowledged and refused messages, and the delays of slots."""

    messages: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    bytes: int = 0
    batches: int = 0
    refused: int = 0
    late_s: list[float] = field(default_factory=list)
    waiting: int = 0


class Player:
    """Plays one run of the load."""

    def __init__(self, spec: Spec, fleet: Fleet, devices: Iterable[str]) -> None:
        self._spec = spec
        self._options = load(Path(spec.config)).kafka.of_part(COLLECTOR).client_options()
        self._fleet = fleet
        self._partition = [partition_of(device, spec.partitions) for device in devices]
        self._stats = SendStats()
        self._marks: list[tuple[int, int, int]] = []
        self._began_ns = self._over_ns = 0
        self._producers: list[AIOKafkaProducer] = []
        self._appended_ns: dict[tuple[str, str, int], int] = {}
        """Device, port and time of an event -> the time at which the broker appended it."""
        self._batched: dict[tuple[Topic, int, int], list[Encoded]] = defaultdict(list)

    async def play(self, stop: asyncio.Event) -> None:
        """Send until stopped, wait for messages in flight, and write the report."""
        self._producers = [self._producer() for _ in range(self._spec.senders)]
        try:
            for producer in self._producers:
                await producer.start()
            self._began_ns = time.time_ns()
            self._over_ns = self._began_ns + self._fleet.last_edge_ns
            self._write_report(done=False)
            await self._slots(stop)
            await self._flush(range(self._spec.partitions))
            for producer in self._producers:
                await producer.flush()
        finally:
            for producer in self._producers:
                with suppress(KafkaError):
                    await producer.stop()
        self._write_report(done=True)

    def _producer(self) -> AIOKafkaProducer:
        return AIOKafkaProducer(
            **self._options,
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
        batch_slots = max(1, round(_BATCH_S / self._spec.slot_s))
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
            self._stats.late_s.append(max(0.0, self._since() - due_s))
            await self._apply_faults(due_s)
            now_ns = time.time_ns()
            self._batch(SAMPLES, self._fleet.readings(due_s, now_ns))
            self._batch(COLLECTOR_STATUS, self._fleet.statuses(due_s, now_ns))
            if number % batch_slots == 0:
                await self._flush(range(self._spec.partitions))
            if due_s - marked_s >= _MARK_EVERY_S:
                marked_s = due_s
                self._marks.append((time.time_ns(), self._stats.messages[SAMPLES.name], self._stats.rows))
                self._write_report(done=False)

    def _since(self) -> float:
        return (time.time_ns() - self._began_ns) / 1e9

    async def _apply_faults(self, due_s: float) -> None:
        """Apply the faults' changes until now; each event is sent at once and alone, as a device sends it."""
        for device, message in self._fleet.injected(due_s, time.time_ns()):
            await self._send(_TOPICS[type(message)], device, message)

    async def _send(self, topic: Topic, device: int, message: Event | Facts | ProbeReport) -> None:
        """Send one message at once, after the batched messages of its partition."""
        partition = self._partition[device]
        await self._flush([partition])
        record = encode(topic, message)
        producer = self._producers[self._sender(device)]
        future = await producer.send(record.topic.name, value=record.value, key=record.key, partition=partition)
        self._track(future, topic, 1, 0, len(record.value or b""))
        if isinstance(message, Event):
            future.add_done_callback(partial(self._on_appended, message))

    def _on_appended(self, event: Event, done: "asyncio.Future[Any]") -> None:
        if not done.cancelled() and done.exception() is None:
            self._appended_ns[event.device, event.port, event.at_ns] = done.result().timestamp * 1_000_000

    def _batch(self, topic: Topic, messages: Iterable[Encoded]) -> None:
        for message in messages:
            self._batched[topic, self._sender(message.device), self._partition[message.device]].append(message)

    async def _flush(self, partitions: Collection[int]) -> None:
        """Send the batched messages of these partitions, in one or more batches per sender, topic and partition."""
        for topic, sender, partition in [key for key in self._batched if key[2] in partitions]:
            messages = self._batched.pop((topic, sender, partition))
            producer = self._producers[sender]
            stamp_ms = time.time_ns() // 1_000_000
            batch = producer.create_batch()
            in_batch: list[Encoded] = []
            for message in messages:
                if batch.append(key=message.key, value=message.value, timestamp=stamp_ms) is None:
                    await self._send_batch(producer, topic, partition, batch, in_batch)
                    batch, in_batch = producer.create_batch(), []
                    batch.append(key=message.key, value=message.value, timestamp=stamp_ms)
                in_batch.append(message)
            await self._send_batch(producer, topic, partition, batch, in_batch)

    async def _send_batch(
        self, producer: AIOKafkaProducer, topic: Topic, partition: int, batch: Any, in_batch: list[Encoded]
    ) -> None:
        future = await producer.send_batch(batch, topic.name, partition=partition)
        self._track(future, topic, len(in_batch), sum(m.rows for m in in_batch), sum(len(m.value) for m in in_batch))

    def _track(self, future: "asyncio.Future[Any]", topic: Topic, messages: int, rows: int, size: int) -> None:
        stats = self._stats
        stats.waiting += messages
        stats.batches += 1

        def acknowledged(done: "asyncio.Future[Any]") -> None:
            stats.waiting -= messages
            if done.cancelled() or done.exception() is not None:
                stats.refused += messages
                return
            stats.messages[topic.name] += messages
            stats.rows += rows
            stats.bytes += size

        future.add_done_callback(acknowledged)

    def _write_report(self, *, done: bool) -> None:
        stats = self._stats
        late = sorted(stats.late_s) or [0.0]
        refused = stats.refused + (stats.waiting if done else 0)
        report = LoadReport(
            done, self._began_ns, self._over_ns, dict(stats.messages), stats.rows, stats.bytes, refused,
            late[-1], late[int(len(late) * 0.99)], self._marks if done else [], self._reported_faults() if done else [],
            stats.batches,
        )  # fmt: skip
        scratch = Path(self._spec.report_path).with_suffix(".new")
        scratch.write_bytes(orjson.dumps(report))
        scratch.replace(self._spec.report_path)

    def _reported_faults(self) -> list[ReportedFault]:
        reported = []
        for played in self._fleet.played:
            if played.at_ns and played.fault.truths:
                truth = played.fault.truths[0]
                appended = [self._appended_ns.get((truth.device, truth.port, at_ns), 0) for at_ns in played.at_ns]
                reported.append(
                    ReportedFault(played.fault.kind, truth.condition, truth.device, truth.port, played.at_ns, appended)
                )
        return reported
