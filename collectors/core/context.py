"""The dependencies of a running collector, supplied by its process or by a test, and the identity of its messages."""

import asyncio
import contextlib
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field, replace

from collectors.core.clock import SystemClock
from collectors.core.columns import Reading
from collectors.core.metrics import CollectorMetrics
from collectors.core.params import Core
from collectors.core.poll import StatusSchedule
from collectors.core.publisher import Publisher
from streams.health.health import Health, HealthParams
from streams.instrument.clock import Clock
from streams.wire.models import CollectorStatus, Event, EventKind, Facts, RowKind, Samples, Source
from streams.wire.topics import COLLECTOR_STATUS, EVENTS, FACTS, SAMPLES, encode

ENDED = "the collector ended, or has this target no longer"


def draw_run() -> int:
    """Return a random number for this run of the process; never 0."""
    return int.from_bytes(os.urandom(8), "little") | 1


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """An event that a device reported, before the Emitter adds its identity."""

    kind: EventKind
    port: str
    at_ns: int
    detail: str = ""
    code: int = 0


class Emitter:
    """Numbers and publishes the messages of one collector's process."""

    def __init__(self, publisher: Publisher, collector: str, run: int, source: Source) -> None:
        self._publisher = publisher
        self.collector = collector
        self.run = run
        self.source = source
        self._sequence: Counter[tuple[str, str]] = Counter()
        self._statuses: dict[str, CollectorStatus] = {}
        """The newest status of each device."""

    def samples(self, device: str, reading: Reading, row_kind: RowKind = RowKind.ROW_KIND_PORT) -> Samples:
        """Publish one reading of a device."""
        samples = Samples(
            device, self.source, self.collector, self.run, self._next(device, "samples"), reading.sampled_at_ns,
            reading.received_at_ns, reading.boot_id, row_kind, reading.row, reading.rows_digest, reading.counters,
            reading.gauges, reading.row_delay_us,
        )  # fmt: skip
        self._publisher.offer(encode(SAMPLES, samples), rows=len(reading.row))
        return samples

    def event(self, device: str, device_event: DeviceEvent, received_at_ns: int) -> None:
        """Publish an event of a device."""
        event = Event(
            device, device_event.port, device_event.kind, device_event.at_ns, received_at_ns, self.source,
            self.collector, self.run, self._next(device, "events"), device_event.detail, device_event.code,
        )  # fmt: skip
        self._publisher.offer(encode(EVENTS, event))

    def facts(self, facts: Facts) -> None:
        """Publish the facts of a device, with the run of this process."""
        self._publisher.offer(encode(FACTS, replace(facts, collector_run=self.run)))

    def status(self, status: CollectorStatus) -> None:
        """Publish the reachability of a device."""
        self._statuses[status.device] = status
        self._publisher.offer(encode(COLLECTOR_STATUS, status))

    def end(self, at_ns: int, device: str | None = None) -> None:
        """Publish that this collector ended in order, or stopped reading one device: its silence is no failure."""
        for name in list(self._statuses) if device is None else [device]:
            if (last := self._statuses.pop(name, None)) is not None:
                ended = replace(last, at_ns=at_ns, reachable=False, error=ENDED, ended=True)
                self._publisher.offer(encode(COLLECTOR_STATUS, ended))

    def _next(self, device: str, kind: str) -> int:
        self._sequence[device, kind] += 1
        return self._sequence[device, kind]


class StatusReporter:
    """Publishes the status of one device when it is due, with the time of the device's last sample."""

    def __init__(self, emitter: Emitter, device: str, cadence_s: float, every_s: float, clock: Clock) -> None:
        self._emitter = emitter
        self._device = device
        self._cadence_s = cadence_s
        self._schedule = StatusSchedule(device, cadence_s, every_s)
        self._clock = clock
        self.last_sample_ns = 0

    def sampled(self, at_ns: int) -> None:
        """Record that a sample was sent, which implies that the device is reachable."""
        self.last_sample_ns = at_ns
        self._schedule.sampled(asyncio.get_running_loop().time())

    def report(self, *, reachable: bool, error: str = "", unknown_lines: int = 0) -> None:
        """Publish the status if it changed, or if one is due; a new number of lines is no change."""
        if self._schedule.is_due(asyncio.get_running_loop().time(), reachable=reachable, error=error):
            emitter = self._emitter
            emitter.status(
                CollectorStatus(
                    emitter.collector, emitter.run, emitter.source, self._device, self._clock.now_ns(), reachable,
                    error, self.last_sample_ns, 0, int(self._cadence_s * 1e9), unknown_lines=unknown_lines,
                )
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class CollectorContext:
    """The publisher, the collector's name, and the sources of metrics, time and randomness."""

    publisher: Publisher
    collector: str
    metrics: CollectorMetrics = field(default_factory=CollectorMetrics)
    run: int = field(default_factory=draw_run)
    rng: random.Random = field(default_factory=random.Random)
    clock: Clock = field(default_factory=SystemClock)
    health: Health = field(default_factory=lambda: Health(HealthParams(), time.monotonic))
    core: Core = field(default_factory=Core)
    """Settings of the process; without Kafka in it, targets are not shared."""
    emitters: list[Emitter] = field(default_factory=list)
    at_end: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """Unwound after the publisher has sent its buffer."""

    def emitter(self, source: Source) -> Emitter:
        """Return the Emitter of a source. Create one per process, because it numbers the messages."""
        emitter = Emitter(self.publisher, self.collector, self.run, source)
        self.emitters.append(emitter)
        return emitter

    def end(self, device: str | None = None) -> None:
        """Publish that this process ended in order, or that it no longer reads one device."""
        for emitter in self.emitters:
            emitter.end(self.clock.now_ns(), device)
