"""Runs the stages in memory, connected to each other, over history; on Kafka the same stages run.

Decides only the order of messages: (time, device, source). A stage's outputs reach the next stage before time advances.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from streams.detect.measure.source_clock import CLOCK_AHEAD_NS
from streams.fabric.topology import Topology
from streams.wire.models import (
    IDLE_NS,
    CollectorStatus,
    Control,
    Event,
    Facts,
    Finding,
    Message,
    ProbeReport,
    Progress,
    Remediation,
    Samples,
    Source,
)
from streams.wire.stage import Output, RecoverableStage, Stage
from streams.wire.topics import EPISODES, EVENTS, FINDINGS, PORT_STATES, REMEDIATIONS, SUMMARIES, SYMPTOMS


@dataclass(frozen=True, slots=True)
class Stages:
    """One instance of each stage, as `streams.config` composes them."""

    measure: Stage
    correlate: Stage
    attribute: Stage
    decide: Stage


def event_time(message: Message) -> tuple[int, str, int]:
    """Return the sort key of a backtest: (time, device, source)."""
    match message:
        case Samples(sampled_at_ns=at, received_at_ns=received, device=device, source=source):
            # A device with a clock ahead is ordered by arrival, as in the live pipeline.
            return (received if at > received + CLOCK_AHEAD_NS else at), device, source
        case Event(at_ns=at, received_at_ns=received, device=device, source=source) if received:
            return (received if at > received + CLOCK_AHEAD_NS else at), device, source
        case Event(at_ns=at, device=device, source=source) | CollectorStatus(at_ns=at, device=device, source=source):
            return at, device, source
        case ProbeReport(end_ns=at, received_at_ns=received, device=device):
            return min(at, received) if received else at, device, Source.SOURCE_PROBE
        case Facts(observed_at_ns=at, device=device, source=source):
            return at, device, source
        case Control(at_ns=at):
            return at or 0, "", 0
        case _:
            raise TypeError(f"a recording cannot have a {type(message).__name__}")


GRAIN_NS = 100_000_000
"""In the live pipeline progress advances each 100 ms (DESIGN 2.1); a backtest has the same granularity."""

_MAX_BATCH = 1024
"""The largest batch of messages of one moment, which limits the memory."""

Conclusion = Finding | Remediation


def drive(stages: Stages, topology: Topology, messages: Iterable[Message], lateness_ns: int) -> Iterator[Conclusion]:
    """Yield every revision of findings and remediations, in the order of emission.

    At the end the watermark advances only to the last time plus the lateness, so open findings stay open.
    """
    driver = Driver(stages, topology)
    for batch in batches(sorted(messages, key=event_time)):
        yield from driver.process(batch)
    yield from driver.end(lateness_ns)


def batches(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Yield sorted messages in batches of one grain of event time; a control is for another stage and so a batch."""
    batch: list[Message] = []
    until_ns = 0
    for message in messages:
        at_ns, is_control = event_time(message)[0], isinstance(message, Control)
        if batch and (is_control or at_ns >= until_ns or len(batch) == _MAX_BATCH):
            yield batch
            batch = []
        if not batch:
            until_ns = at_ns + GRAIN_NS
        batch.append(message)
        if is_control:
            yield batch
            batch = []
    if batch:
        yield batch


class Driver:
    """The stages of one configuration, connected to each other."""

    def __init__(self, stages: Stages, topology: Topology) -> None:
        self._stages = stages
        self._consumers = {
            SYMPTOMS: stages.correlate,
            SUMMARIES: stages.correlate,
            EPISODES: stages.attribute,
            FINDINGS: stages.decide,
            PORT_STATES: stages.decide,
            EVENTS: stages.measure,
        }
        self._conclusions: list[Conclusion] = []
        self._watermark_ns = 0
        self._last_ns = 0
        for stage in (stages.measure, stages.correlate, stages.attribute, stages.decide):
            stage.start_epoch(1)
            self._forward(stage.set_topology(topology))
            if isinstance(stage, RecoverableStage):
                self._forward(stage.recover([]))

    def process(self, batch: Sequence[Message]) -> list[Conclusion]:
        """Return the conclusions from the messages of one grain of event time; a control is a separate batch."""
        self._last_ns = max(self._last_ns, event_time(batch[-1])[0])
        if isinstance(batch[0], Control):
            self._forward(self._stages.decide.process(batch))
        else:
            self._forward(self._stages.measure.process(batch))
            self._advance()
        return self._drain()

    def end(self, lateness_ns: int) -> list[Conclusion]:
        """Return the conclusions after the lateness has passed since the last message."""
        end_ns = self._last_ns + lateness_ns
        self._forward(self._stages.measure.process([Progress("replay", 0, 1, end_ns)]))
        self._advance(end_ns)
        return self._drain()

    def _drain(self) -> list[Conclusion]:
        conclusions, self._conclusions = self._conclusions, []
        return conclusions

    def _forward(self, outputs: list[Output]) -> None:
        """Pass each stage's outputs to the following stages."""
        for output in outputs:
            if output.message is None:
                continue
            if output.topic in (FINDINGS, REMEDIATIONS) and isinstance(output.message, Finding | Remediation):
                self._conclusions.append(output.message)
            if (consumer := self._consumers.get(output.topic)) is not None:
                self._forward(consumer.process([output.message]))

    def _advance(self, idle_ns: int = 0) -> None:
        """Advance the stages in order to the watermark of the first one, or to `idle_ns` if it is idle."""
        watermark = self._stages.measure.watermark_ns
        watermark = idle_ns if watermark == IDLE_NS else watermark
        if watermark <= self._watermark_ns:
            return
        self._watermark_ns = watermark
        for stage in (self._stages.correlate, self._stages.attribute, self._stages.decide):
            self._forward(stage.advance_watermark(watermark))
