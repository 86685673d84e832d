"""The stages bound to each other in memory: the same folds that run on Kafka, driven from history.

Decides only the order: (time, device, source); what each stage says reaches the next before time moves on.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

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
        case Samples(sampled_at_ns=at, device=device, source=source):
            return at, device, source
        case Event(at_ns=at, device=device, source=source) | CollectorStatus(at_ns=at, device=device, source=source):
            return at, device, source
        case Facts(observed_at_ns=at, device=device, source=source):
            return at, device, source
        case Control(at_ns=at):
            return at or 0, "", 0
        case _:
            raise TypeError(f"a recording holds no {type(message).__name__}")


def drive(
    stages: Stages, topology: Topology, messages: Iterable[Message], lateness_ns: int
) -> Iterator[Finding | Remediation]:
    """Every revision of findings and remediations, in the order in which they are said.

    Ends by advancing the watermark to the last time plus the lateness, no further: what is open stays open.
    """
    driver = _Driver(stages)
    for stage in (stages.measure, stages.correlate, stages.attribute, stages.decide):
        stage.begin(1)
        driver.pass_on(stage.adopt(topology))
    last_ns = 0
    for message in sorted(messages, key=event_time):
        last_ns = max(last_ns, event_time(message)[0])
        if isinstance(message, Control):
            driver.pass_on(stages.decide.process([message]))
        else:
            driver.pass_on(stages.measure.process([message]))
            driver.advance()
        yield from driver.said()
    driver.pass_on(stages.measure.process([Progress("replay", 0, 1, last_ns + lateness_ns)]))
    driver.advance(last_ns + lateness_ns)
    yield from driver.said()


class _Driver:
    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._reader = {
            SYMPTOMS: stages.correlate,
            SUMMARIES: stages.correlate,
            EPISODES: stages.attribute,
            FINDINGS: stages.decide,
        }
        self._said: list[Finding | Remediation] = []
        self._watermark_ns = 0

    def said(self) -> list[Finding | Remediation]:
        """What was said since the last call."""
        said, self._said = self._said, []
        return said

    def pass_on(self, outputs: list[Output]) -> None:
        """Give a stage's outputs to the next, and theirs to the one after."""
        for output in outputs:
            if output.message is None:
                continue
            if output.topic in (FINDINGS, REMEDIATIONS) and isinstance(output.message, Finding | Remediation):
                self._said.append(output.message)
            if (reader := self._reader.get(output.topic)) is not None:
                self.pass_on(reader.process([output.message]))

    def advance(self, idle_ns: int = 0) -> None:
        """Let event time come to where the first stage is, one stage after the other; to `idle_ns` where it is idle."""
        watermark = self._stages.measure.watermark_ns
        watermark = idle_ns if watermark == IDLE_NS else watermark
        if watermark <= self._watermark_ns:
            return
        self._watermark_ns = watermark
        for stage in (self._stages.correlate, self._stages.attribute, self._stages.decide):
            self.pass_on(stage.advance(watermark))
