"""Generates the fabric of a run and its messages, and records which messages Kafka acknowledged.

The fabric has thirty-two host links, each of which goes down in about every tenth sequence. Every port that is up
carries the same traffic, and only the links of `Truth` go down, so that any other open finding at the end is a breach.
The load behaves like a collector with a spool: a message stays in order in memory until it is acknowledged, and is sent
again with the same identity after an error.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from lab.world.fabric_arrays import rows_digest
from streams.config.kafka import KafkaSettings
from streams.fabric.catalogue import Metric
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.ids import link_id
from streams.fabric.inventory import Inventory, Link
from streams.runtime.topic_io import inventory_records, publish
from streams.wire.models import (
    NO_INDEX,
    CollectorStatus,
    Event,
    EventKind,
    Message,
    RowKind,
    Samples,
    Source,
    Table,
)
from streams.wire.topics import COLLECTOR_STATUS, EVENTS, SAMPLES, Record, Topic, encode

COLLECTOR = "chaos"
CADENCE_S = 0.5
_BYTES_PER_READING = 5_000_000_000
_COUNTERS = (Metric.RX_BYTES, Metric.TX_BYTES)
_GAUGES = (Metric.OPER_UP, Metric.ADMIN_UP)


@dataclass
class Truth:
    """The links of the run that go down: one early and permanently, one for a while, one after the last fault."""

    stays_down: Link
    recovers: Link
    down_at_end: Link
    begun_ns: int
    """The start of the sequence; no finding of these links is older."""
    clock_device: str
    """A device without these links, whose clock a fault may change."""


@dataclass
class Fabric:
    """The devices with their counters and the states of their links."""

    run: int
    inventory: Inventory = field(
        default_factory=lambda: generate(GenerateParams(gpus=64, radix=16, rails=2, gpus_per_host=4, jobs=1))
    )
    down: set[str] = field(default_factory=set)
    """The ids of the links that are down now."""
    clock_offset_ns: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ports: dict[str, list[tuple[str, Link]]] = {}
        for link in self.inventory.links:
            ports.setdefault(link.a_device, []).append((link.a_port, link))
            ports.setdefault(link.z_device, []).append((link.z_port, link))
        self._ports = {device: sorted(of, key=lambda port: port[0]) for device, of in ports.items()}
        self._sources = {
            device.name: Source.SOURCE_NIC if device.kind == "host" else Source.SOURCE_GNMI
            for device in self.inventory.devices
        }
        self._sequences: dict[tuple[str, str], int] = {}
        self._octets: dict[str, npt.NDArray[np.uint64]] = {}
        """Device -> the bytes of each of its ports; a port that is down counts none."""
        self._host_links = [link for link in self.inventory.links if link.role == "host-link"]
        self._used = 0
        self.truth = self.next_truth(0)

    def next_truth(self, at_ns: int) -> Truth:
        """Select the links of the next sequence: the next ones, each in another part of the fabric."""
        links, used = self._host_links, self._used
        self._used += 1
        third = len(links) // 3
        chosen = [links[(used + third * number) % len(links)] for number in range(3)]
        hosts = {link.a_device for link in chosen}
        clock_device = next(link.a_device for link in links if link.a_device not in hosts)
        self.truth = Truth(chosen[0], chosen[1], chosen[2], at_ns, clock_device)
        return self.truth

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of all devices."""
        return tuple(self._ports)

    def samples(self, device: str, at_ns: int) -> Samples:
        """Return the next reading of a device."""
        ports = self._ports[device]
        rows = tuple(port for port, _ in ports)
        up = np.array([subject_id(link) not in self.down for _, link in ports], np.float64)
        octets = self._octets.get(device, np.zeros(len(rows), np.uint64))
        self._octets[device] = octets = octets + up.astype(np.uint64) * np.uint64(_BYTES_PER_READING)
        counters = np.tile(octets, (len(_COUNTERS), 1))
        return Samples(
            device=device,
            source=self._sources[device],
            collector=COLLECTOR,
            collector_run=self.run,
            sequence=self._next("samples", device),
            sampled_at_ns=at_ns + self.clock_offset_ns.get(device, 0),
            received_at_ns=at_ns,
            boot_id=1,
            row_kind=RowKind.ROW_KIND_PORT,
            row=rows,
            rows_digest=rows_digest(rows),
            counters=Table(_COUNTERS, (NO_INDEX,) * len(_COUNTERS), counters),
            gauges=Table(_GAUGES, (NO_INDEX,) * len(_GAUGES), np.vstack([up, np.ones(len(rows))])),
        )

    def status(self, device: str, at_ns: int) -> CollectorStatus:
        """Return the status of a device that answers."""
        return CollectorStatus(
            COLLECTOR, self.run, self._sources[device], device, at_ns, reachable=True,
            last_sample_at_ns=at_ns, cadence_ns=round(CADENCE_S * 1e9),
        )  # fmt: skip

    def log_event(self, device: str, at_ns: int) -> Event:
        """Return an event that no detector uses, for counting."""
        return self._event(device, "", EventKind.LOG, at_ns)

    def change(self, link: Link, at_ns: int, *, down: bool) -> Iterator[Event]:
        """Change a link's state; yield the events of both ends."""
        (self.down.add if down else self.down.discard)(subject_id(link))
        kind = EventKind.LINK_DOWN if down else EventKind.LINK_UP
        for end in (link.a, link.z):
            yield self._event(end.device, end.port, kind, at_ns)

    def _event(self, device: str, port: str, kind: EventKind, at_ns: int) -> Event:
        return Event(
            device, port, kind, at_ns, at_ns, self._sources[device],
            collector=COLLECTOR, collector_run=self.run, sequence=self._next("events", device),
        )  # fmt: skip

    def _next(self, kind: str, device: str) -> int:
        number = self._sequences[kind, device] = self._sequences.get((kind, device), 0) + 1
        return number


def subject_id(link: Link) -> str:
    """Return the subject id of a host link, whose first end is the host."""
    return link_id(link.a, link.z)


_STATUS_EVERY = 10
_LOG_EVENTS = 6
_BATCH = 400
_RETRY_S = 0.3
_DELIVERY_S = 20.0


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a message, which stays the same when a spool sends it again."""

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
    """The offered messages, and the messages that Kafka acknowledged."""

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
        """Continue to offer messages, so that no device becomes silent, without adding them to the ledger."""
        self._is_counting = False

    def stop(self) -> None:
        """Offer no more messages; `run` returns when all are acknowledged."""
        self._stopped = True

    async def run(self) -> None:
        """Offer and send until stopped and everything is acknowledged; can be called again afterwards."""
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
