"""The load of the pipeline's benchmark through measure and correlate in one process, without Kafka."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from lab.bench.load.fleet import Fleet
from lab.world.fabric_arrays import fabric_arrays
from streams.detect.correlate.stage import Correlate
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.topology import Topology
from streams.wire import topics
from streams.wire.models import Message, Source
from streams.wire.stage import Output

BEGIN_NS = 1_700_000_000 * 10**9
SLOT_S = 0.25
"""As the load generator gathers what it sends."""


@dataclass(slots=True)
class Chain:
    """Both stages, and how many messages of each kind measure has emitted."""

    topology: Topology
    measure: Measure = field(default_factory=lambda: Measure(DetectParams()))
    correlate: Correlate = field(default_factory=lambda: Correlate(DetectParams()))
    emitted: Counter[str] = field(default_factory=Counter)

    def begin(self) -> None:
        """As a worker does it."""
        for stage in (self.measure, self.correlate):
            stage.start_epoch(1)
            stage.set_topology(self.topology)

    def take(self, batch: list[tuple[topics.Topic, bytes]]) -> None:
        """One batch on its way through both."""
        outputs = self.measure.process([topics.decode(topic, value) for topic, value in batch])
        result = [_carried(output) for output in outputs]
        self.correlate.process(result)
        self.correlate.advance_watermark(self.measure.watermark_ns)
        for message in result:
            self.emitted[type(message).__name__] += 1


def _carried(output: Output) -> Message:
    """As it comes out of Kafka."""
    assert output.message is not None
    record = topics.encode(output.topic, output.message, **({"key": output.key} if output.key else {}))
    assert record.value is not None
    return topics.decode(output.topic, record.value, record.headers)


def made(gpus: int, cadence_s: float) -> tuple[Chain, Fleet]:
    """Both stages, ready, and the devices of a fabric that they are to read."""
    inventory = generate(GenerateParams(gpus=gpus))
    runs = {Source.SOURCE_NIC: 1, Source.SOURCE_GNMI: 1}
    chain = Chain(Topology(inventory))
    chain.begin()
    return chain, Fleet(fabric_arrays(inventory), cadence_s, np.random.default_rng(1), runs)


def play(chain: Chain, fleet: Fleet, minute: int, slot_s: float = SLOT_S) -> int:
    """A minute of the load; answers how many ports were read."""
    rows, slots = 0, round(60 / slot_s)
    for slot in range(minute * slots + 1, (minute + 1) * slots + 1):
        until_s = slot * slot_s
        now_ns = BEGIN_NS + ns(until_s)
        read = list(fleet.readings(until_s, now_ns))
        batch = [(topics.SAMPLES, encoded.value) for encoded in read]
        rows += sum(encoded.rows for encoded in read)
        batch += [(topics.COLLECTOR_STATUS, status.value) for status in fleet.statuses(until_s, now_ns)]
        chain.take(batch)
    return rows
