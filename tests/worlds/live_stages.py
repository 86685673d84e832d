"""The four stages as they run live: messages in order of arrival, wrong clocks, stages killed and restored."""

import random
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from streams.decide.params import DecideParams
from streams.decide.stage import Decide
from streams.detect.attribute.stage import Attribute
from streams.detect.correlate.stage import Correlate
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.topology import Topology
from streams.replay.driver import event_time
from streams.runtime.event_time import dated_by_arrival, event_time_ns
from streams.wire.models import (
    IDLE_NS,
    CollectorStatus,
    Event,
    Facts,
    Finding,
    Message,
    Progress,
    Remediation,
    Samples,
    Status,
)
from streams.wire.stage import Output, PreviewingStage, RecoverableStage, Stage
from streams.wire.topics import EPISODES, FINDINGS, PORT_STATES, SUMMARIES, SYMPTOMS
from tests.worlds.small_fabric import topology

READER = {SYMPTOMS: 1, SUMMARIES: 1, EPISODES: 2, FINDINGS: 3, PORT_STATES: 3}
MAKE: tuple[Callable[[], Stage], ...] = (
    lambda: Measure(DetectParams()), lambda: Correlate(DetectParams()), lambda: Attribute(DetectParams()),
    lambda: Decide(DecideParams()),
)  # fmt: skip


class LiveStages:
    """One owner of each stage, and what they published."""

    def __init__(self, top: Topology) -> None:
        self._top = top
        self._epochs = [1] * len(MAKE)
        self.stages = [make() for make in MAKE]
        self.published: list[Finding | Remediation] = []
        self._watermark_ns = 0
        for stage in self.stages:
            stage.start_epoch(1)
            self._pass_on(stage.set_topology(top))
            if isinstance(stage, RecoverableStage):
                self._pass_on(stage.recover([]))

    def process(self, message: Message) -> None:
        """One message arrives."""
        self._pass_on(self.stages[0].process([message]))
        watermark = self.stages[0].watermark_ns
        if IDLE_NS > watermark > self._watermark_ns:
            self._advance(watermark)

    def preview(self, event: Event) -> None:
        """One event arrives before the first stage has processed what arrived before it."""
        stage = self.stages[0]
        assert isinstance(stage, PreviewingStage)
        self._pass_on(stage.preview([event]))

    def tick(self, now_ns: int) -> None:
        """Advance the arrival clock of the first stage."""
        self._pass_on(self.stages[0].advance_watermark(now_ns))
        watermark = self.stages[0].watermark_ns
        if IDLE_NS > watermark > self._watermark_ns:
            self._advance(watermark)

    def end(self, at_ns: int) -> None:
        """Advance the watermark after the last message."""
        self._pass_on(self.stages[0].process([Progress("test", 0, 1, at_ns)]))
        self._advance(at_ns)

    def _advance(self, watermark_ns: int) -> None:
        self._watermark_ns = watermark_ns
        for stage in self.stages[1:]:
            self._pass_on(stage.advance_watermark(watermark_ns))

    def take_over(self, number: int) -> None:
        """Replace a stage by a successor that restores its snapshot."""
        self._replace(number, self.stages[number].snapshot())

    def lose_state(self, number: int) -> None:
        """Replace a stage by a successor without state."""
        self._replace(number, None)

    def restore(self, number: int, state: bytes) -> None:
        """Replace a stage by a successor with the state of a snapshot."""
        self._replace(number, state)

    def _replace(self, number: int, state: bytes | None) -> None:
        self._epochs[number] += 1
        successor = MAKE[number]()
        successor.start_epoch(self._epochs[number])
        if state is not None:
            successor.restore(state)
        self.stages[number] = successor
        self._pass_on(successor.set_topology(self._top))
        if isinstance(successor, RecoverableStage):
            self._pass_on(successor.recover([]))

    def _pass_on(self, outputs: list[Output]) -> None:
        for output in outputs:
            message = output.message
            if message is None:
                continue
            if isinstance(message, Finding | Remediation) and output.topic.retention_s is not None:
                self.published.append(message)
            if (reader := READER.get(output.topic)) is not None:
                self._pass_on(self.stages[reader].process([message]))


def run(
    messages: Iterable[Message], top: Topology, killed: Collection[tuple[int, int]] = ()
) -> list[Finding | Remediation]:
    """Return all that is published for messages in order of arrival.

    `killed` are (number of processed messages, number of the stage).
    """
    live = LiveStages(top)
    last_ns = 0
    for number, message in enumerate(messages):
        for at, stage in killed:
            if at == number:
                live.take_over(stage)
        last_ns = max(last_ns, event_time(message)[0])
        live.process(message)
    live.end(last_ns + ns(DetectParams().lateness_s))
    return live.published


def in_order(messages: Iterable[Message]) -> list[Message]:
    """Return the messages in event time order, as in a backtest."""
    return sorted(messages, key=event_time)


def shuffled(
    messages: Sequence[Message], within_s: float, chance: random.Random, *, keep_order: bool = True
) -> list[Message]:
    """Return the messages with random delays, a tenth of them twice; a duplicate arrives after the first.

    With `keep_order`, the samples of one device and source arrive in the order in which they were read, as from one
    sender over one partition. Without it nothing is in order, as from a bridge or during a takeover of a target.
    """
    late: list[tuple[float, int, Message]] = []
    newest: dict[tuple[object, ...], float] = {}
    for number, message in enumerate(in_order(messages)):
        at = event_time(message)[0] + chance.uniform(0, within_s) * 1e9
        if keep_order and isinstance(message, Samples):
            key = (message.device, message.source)
            at = newest[key] = max(at, newest.get(key, 0.0) + 1)
        late.append((at, number, message))
        if chance.random() < 0.1:
            late.append((at + chance.uniform(0, within_s) * 1e9, number, message))
    return [message for _, _, message in sorted(late, key=lambda item: item[:2])]


def final_findings(published: Iterable[Finding | Remediation]) -> list[Finding]:
    """Return the last revisions that were not retracted, without ids and revisions, sorted."""
    newest = {one.id: one for one in published if isinstance(one, Finding)}
    parents = {one.id: f"{one.condition.name} {one.subject.id}" for one in newest.values()}
    plain = (
        replace(one, id="", revision=0, parent_id=parents.get(one.parent_id, one.parent_id))
        for one in newest.values()
        if one.status is not Status.RETRACTED
    )
    return sorted(plain, key=repr)


def histories(published: Iterable[Finding | Remediation]) -> dict[str, list[Finding | Remediation]]:
    """Return by id all that was published, in order, without the numbers of the revisions."""
    found: dict[str, list[Finding | Remediation]] = {}
    for one in published:
        numbered: Finding | Remediation = replace(one, revision=0)
        if isinstance(numbered, Remediation):  # its memory has the revisions of its findings
            numbered = replace(numbered, memory=re.sub(r'"revision":\d+', '"revision":0', numbered.memory))
        found.setdefault(one.id, []).append(numbered)
    return found


Offset = Callable[[str, float], float]
"""(device, seconds after the first message): how far the clock is ahead, in seconds."""

DELAY_NS = ns(0.2)


@dataclass
class Played:
    """The stages at the end, and the last revision of each finding."""

    live: LiveStages
    findings: list[Finding]


def play_live(
    messages: Iterable[Message],
    offset: Offset,
    *,
    collector: Offset | None = None,
    top: Topology | None = None,
    take_over: tuple[float, int] | None = None,
    lose_state_at: float | None = None,
) -> Played:
    """Play messages in order of arrival; devices date their samples by their own clocks.

    Collectors have the right time unless given another; the first stage learns each second how late it is.
    `take_over` is the second at which a successor takes over a stage, by its number; at `lose_state_at` the first
    stage begins without state.
    """
    live = LiveStages(top or topology())
    first_ns = ticked_ns = 0
    for message in messages:
        at_ns = event_time_ns(message)
        assert at_ns is not None
        first_ns = first_ns or at_ns
        arrived_ns = at_ns + DELAY_NS
        while ticked_ns and ticked_ns + ns(1) < arrived_ns:
            ticked_ns += ns(1)
            live.tick(ticked_ns)
        ticked_ns = ticked_ns or arrived_ns
        t = (at_ns - first_ns) / 1e9
        if take_over is not None and t >= take_over[0]:
            live.take_over(take_over[1])
            take_over = None
        if lose_state_at is not None and t >= lose_state_at:
            live.lose_state(0)
            lose_state_at = None
        live.process(dated_by_arrival(_by_own_clocks(message, t, offset, collector), arrived_ns))
    newest = {one.id: one for one in live.published if isinstance(one, Finding)}
    return Played(live, [one for one in newest.values() if one.status is not Status.RETRACTED])


def _by_own_clocks(message: Message, t: float, offset: Offset, collector: Offset | None) -> Message:
    """Return a message as sent: with the times of wrong clocks."""
    match message:
        case Samples(device=device, sampled_at_ns=at, received_at_ns=received):
            by_collector = 0 if collector is None else ns(collector(device, t))
            return replace(message, sampled_at_ns=at + ns(offset(device, t)), received_at_ns=received + by_collector)
        case Event(device=device, at_ns=at):
            return replace(message, at_ns=at + ns(offset(device, t)))
        case Facts(device=device, observed_at_ns=at):
            return replace(message, observed_at_ns=at + ns(offset(device, t)))
        case CollectorStatus(device=device, at_ns=at):
            return replace(message, at_ns=at + (0 if collector is None else ns(collector(device, t))))
        case _:
            return message
