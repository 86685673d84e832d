"""The dependencies of a running collector, supplied by its process or by a test."""

import random
import time
from dataclasses import dataclass, field

from collectors.core.clock import SystemClock
from collectors.core.emitter import Emitter, draw_run
from collectors.core.metrics import CollectorMetrics
from collectors.core.publisher import Publisher
from collectors.core.spec import Core
from streams.health.health import Health
from streams.health.params import HealthParams
from streams.instrument.clock import Clock
from streams.wire.models import Source


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

    def emitter(self, source: Source) -> Emitter:
        """Return the Emitter of a source; create one per process, because it numbers the messages."""
        emitter = Emitter(self.publisher, self.collector, self.run, source)
        self.emitters.append(emitter)
        return emitter

    def end(self, device: str | None = None) -> None:
        """Publish that this process ends in order, or that it reads one device no longer."""
        for emitter in self.emitters:
            emitter.end(self.clock.now_ns(), device)
