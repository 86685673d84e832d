"""What a collector works with while it runs, handed to it by whoever runs it: the process, or a test."""

import random
from dataclasses import dataclass, field

from collectors.core.clock import SystemClock
from collectors.core.emitter import Emitter, draw_run
from collectors.core.metrics import CollectorMetrics
from collectors.core.publisher import Publisher
from collectors.core.spec import Core
from streams.instrument.clock import Clock
from streams.wire.models import Source


@dataclass(frozen=True, slots=True)
class CollectorContext:
    """Where what was read goes, under which name, and where counts, time and chance come from."""

    publisher: Publisher
    collector: str
    counts: CollectorMetrics = field(default_factory=CollectorMetrics)
    run: int = field(default_factory=draw_run)
    chance: random.Random = field(default_factory=random.Random)
    clock: Clock = field(default_factory=SystemClock)
    core: Core = field(default_factory=Core)
    """What the process was told; without Kafka in it nothing is shared out."""

    def emitter(self, source: Source) -> Emitter:
        """The Emitter of a source: make one a process, for it numbers the messages."""
        return Emitter(self.publisher, self.collector, self.run, source)
