"""The stages bound to each other in memory: the same folds that run on Kafka, driven from history.

Decides only the order: (time, device, source); what each stage says reaches the next before time moves on.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from streams.detect.measure.liveness import CLOCK_AHEAD_NS
from streams.fabric.topology import Topology
from streams.wire.models import (
    IDLE_NS,
    CollectorStatus,
    Control,
    Event,
    Facts,
    Finding,
    Message,
    Progress,
    Remediation,
    Samples,
)
from streams.wire.stage import Output, Stage
from streams.wire.topics import EPISODES, FINDINGS, REMEDIATIONS, SUMMARIES, SYMPTOMS


@dataclass(frozen=True, slots=True)
class Stages:
    """One of each, as `streams.config` composes them."""

    measure: Stage
    correlate: Stage
    attribute: Stage
    decide: Stage


def event_time(message: Message) -> tuple[int, str, int]:
    """The order of a backtest: (time, device, source)."""
    match message:
        case Samples(sampled_at_ns=at, received_at_ns=received, device=device, source=source):
            # A device whose clock is ahead is dated by arrival: it comes when it came, as it does live.
            return (received if at > received + CLOCK_AHEAD_NS else at), device, source
        case Event(at_ns=at, received_at_ns=received, device=device, source=source) if received:
            return (received if at > received + CLOCK_AHEAD_NS else at), device, source
        case Event(at_ns=at, device=device, source=source) | CollectorStatus(at_ns=at, device=device, source=source):
            return at, device, source
        case Facts(observed_at_ns=at, device=device, source=source):
            return at, device, source
        case Control(at_ns=at):
            return at or 0, "", 0
        case _:
            raise TypeError(f"a recording holds no {type(message).__name__}")


GRAIN_NS = 100_000_000
"""Live progress goes on each 100 ms (DESIGN 2.1): a finding of a backtest is dated no more finely, and no less."""

_MOST_MESSAGES = 1024
"""Devices that are all read at one moment come in batches of this many: a bound on what is held at once."""

Conclusion = Finding | Remediation


def drive(stages: Stages, topology: Topology, messages: Iterable[Message], lateness_ns: int) -> Iterator[Conclusion]:
    """Every revision of findings and remediations, in the order in which they are said.

    Ends by advancing the watermark to the last time plus the lateness, no further: what is open stays open.
    """
    driver = Driver(stages, topology)
    for batch in batches(sorted(messages, key=event_time)):
        yield from driver.process(batch)
    yield from driver.end(lateness_ns)


def batches(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Messages that are in order, a grain of event time at once; of another reader (controls) by themselves."""
    batch: list[Message] = []
    until_ns = 0
    for message in messages:
        at_ns, apart = event_time(message)[0], isinstance(message, Control)
        if batch and (apart or at_ns >= until_ns or len(batch) == _MOST_MESSAGES):
            yield batch
            batch = []
        if not batch:
            until_ns = at_ns + GRAIN_NS
        batch.append(message)
        if apart:
            yield batch
            batch = []
    if batch:
        yield batch


class Driver:
    """The stages of one configuration, bound to each other."""

    def __init__(self, stages: Stages, topology: Topology) -> None:
        self._stages = stages
        self._reader = {
            SYMPTOMS: stages.correlate,
            SUMMARIES: stages.correlate,
            EPISODES: stages.attribute,
            FINDINGS: stages.decide,
        }
        self._said: list[Conclusion] = []
        self._watermark_ns = 0
        self._last_ns = 0
        for stage in (stages.measure, stages.correlate, stages.attribute, stages.decide):
            stage.start_epoch(1)
            self._pass_on(stage.set_topology(topology))

    def process(self, batch: Sequence[Message]) -> list[Conclusion]:
        """What is said of the messages of one grain of event time; a control comes by itself."""
        self._last_ns = max(self._last_ns, event_time(batch[-1])[0])
        if isinstance(batch[0], Control):
            self._pass_on(self._stages.decide.process(batch))
        else:
            self._pass_on(self._stages.measure.process(batch))
            self._advance()
        return self._taken()

    def end(self, lateness_ns: int) -> list[Conclusion]:
        """What is said when the lateness after the last message has passed."""
        end_ns = self._last_ns + lateness_ns
        self._pass_on(self._stages.measure.process([Progress("replay", 0, 1, end_ns)]))
        self._advance(end_ns)
        return self._taken()

    def _taken(self) -> list[Conclusion]:
        said, self._said = self._said, []
        return said

    def _pass_on(self, outputs: list[Output]) -> None:
        """Give a stage's outputs to the next, and theirs to the one after."""
        for output in outputs:
            if output.message is None:
                continue
            if output.topic in (FINDINGS, REMEDIATIONS) and isinstance(output.message, Finding | Remediation):
                self._said.append(output.message)
            if (reader := self._reader.get(output.topic)) is not None:
                self._pass_on(reader.process([output.message]))

    def _advance(self, idle_ns: int = 0) -> None:
        """Let event time come to where the first stage is, one stage after the other; to `idle_ns` where it is idle."""
        watermark = self._stages.measure.watermark_ns
        watermark = idle_ns if watermark == IDLE_NS else watermark
        if watermark <= self._watermark_ns:
            return
        self._watermark_ns = watermark
        for stage in (self._stages.correlate, self._stages.attribute, self._stages.decide):
            self._pass_on(stage.advance_watermark(watermark))
