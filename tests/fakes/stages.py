"""Small stages with countable results, for tests of the runner."""

from collections.abc import Sequence

import orjson

from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.errors import Reject
from streams.wire.models import (
    IDLE_NS,
    Event,
    Message,
    Progress,
    Symptom,
)
from streams.wire.stage import Output
from streams.wire.symptoms import CounterGrowth, GpuXid
from streams.wire.topics import Topic

BLOCK = 10
"""Events of a device for one output."""


class CountingStage:
    """Counts events by device; emits one Symptom for every tenth of a device with the id (device, block).

    Its symptoms have the running sum of all codes, so a lost or repeated event changes every later symptom.
    Its watermark is the newest time of any event.
    """

    def __init__(self, topic: Topic, name: str = "measure") -> None:
        self.name = name
        self._topic = topic
        self.epoch = 0
        self._watermark_ns = 0
        self._counts: dict[str, list[int]] = {}
        self.topology_digests: list[str] = []
        self.ticks: list[int] = []

    @property
    def watermark_ns(self) -> int:
        return self._watermark_ns or IDLE_NS

    def start_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def set_topology(self, topology: Topology) -> list[Output]:
        self.topology_digests.append(topology.digest)
        return []

    def process(self, batch: Sequence[Message]) -> list[Output]:
        outputs = []
        for event in batch:
            if not isinstance(event, Event):
                continue
            counts = self._counts.setdefault(event.device, [0, 0])
            counts[0] += 1
            counts[1] += event.code
            self._watermark_ns = max(self._watermark_ns, event.at_ns)
            if counts[0] % BLOCK == 0:
                payload = GpuXid(counts[1], False, self.topology_digests[-1])  # a number and a text
                emitted = Symptom(event.device, str(counts[0] // BLOCK), payload, event.at_ns)
                outputs.append(Output(self._topic, emitted, event.device))
        return outputs

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        self.ticks.append(watermark_ns)
        return []

    def snapshot(self) -> bytes:
        return orjson.dumps([self._watermark_ns, self._counts])

    def restore(self, data: bytes) -> None:
        try:
            self._watermark_ns, self._counts = orjson.loads(data)
        except ValueError as error:
            raise Reject(f"not a count: {error}") from error


class WindowStage:
    """Counts symptoms by device and window, as the second stage of a chain.

    Emits one Symptom for every device and second of event time, once the watermark has passed it.
    """

    def __init__(self, topic: Topic, name: str = "correlate", window_ns: int = 1_000_000_000) -> None:
        self.name = name
        self._topic = topic
        self._window_ns = window_ns
        self.epoch = 0
        self._watermark_ns = 0
        self._open: dict[str, list[str]] = {}
        self.late = 0
        self.topology_digests: list[str] = []

    @property
    def watermark_ns(self) -> int:
        return self._watermark_ns

    def start_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def set_topology(self, topology: Topology) -> list[Output]:
        self.topology_digests.append(topology.digest)
        return []

    def process(self, batch: Sequence[Message]) -> list[Output]:
        for message in batch:
            assert not isinstance(message, Progress), "the runner passed a Progress to the stage"
            assert isinstance(message, Symptom)
            if message.at_ns <= self._watermark_ns:
                self.late += 1
                continue
            seen = self._open.setdefault(f"{message.at_ns // self._window_ns}/{message.device}", [])
            if message.port not in seen:
                seen.append(message.port)
        return []

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        if watermark_ns <= self._watermark_ns:
            return []
        self._watermark_ns = watermark_ns
        outputs = []
        for key in sorted(self._open, key=lambda key: (int(key.partition("/")[0]), key)):
            window, _, device = key.partition("/")
            end_ns = (int(window) + 1) * self._window_ns
            if end_ns <= watermark_ns:
                seen = self._open.pop(key)
                emitted = Symptom(device, window, CounterGrowth(Metric.LINK_DOWN_EVENTS, len(seen)), end_ns)
                outputs.append(Output(self._topic, emitted, device))
        return outputs

    def snapshot(self) -> bytes:
        return orjson.dumps([self._watermark_ns, self._open, self.late])

    def restore(self, data: bytes) -> None:
        try:
            self._watermark_ns, self._open, self.late = orjson.loads(data)
        except ValueError as error:
            raise Reject(f"not a window: {error}") from error


def count_of(symptom: Symptom) -> int:
    """Return the number that a symptom of one of these stages carries."""
    payload = symptom.payload
    assert isinstance(payload, GpuXid | CounterGrowth)
    return payload.xid if isinstance(payload, GpuXid) else payload.growth
