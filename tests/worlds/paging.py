"""The messages of the small fabric as they arrive live, late and out of order, and the pages that follow.

Arrival has a clock of its own, as for the runner and the notifier; the stages are driven as they are live.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.notify.notifier import Notifier
from streams.notify.params import NotifyParams
from streams.replay.driver import Stages
from streams.wire.models import IDLE_NS, Event, EventKind, Finding, Message, Source, Status
from streams.wire.stage import Output
from streams.wire.topics import EPISODES, FINDINGS, PORT_STATES, SUMMARIES, SYMPTOMS
from tests.worlds.observations import NIC, T0, at, samples
from tests.worlds.small_world import SmallWorld, stages

CADENCE_S = 10


def arrivals(
    world: SmallWorld, until: float, chance: random.Random, readers: Iterable[str] = ()
) -> Iterator[tuple[float, Message]]:
    """Yield (arrival, message): hosts by their NICs, with an event for each change; switches by gNMI.

    A message arrives up to 2 s after it was read, one in twenty up to 15 s.
    """
    for device, cables in world.topology.links_of.items():
        if readers and device not in readers:
            continue
        is_host = world.topology.devices[device].kind == "host"
        phase = chance.uniform(0, CADENCE_S)
        ports = [cable.lower if cable.lower.device == device else cable.upper for cable in cables]
        for step in range(int((until - phase) // CADENCE_S) + 1):
            t = phase + step * CADENCE_S
            if world.is_silent(device, t):
                continue
            states: dict[str, float | None] = {port.port: float(world.fabric.is_up(port, at(t))) for port in ports}
            source = NIC if is_host else Source.SOURCE_GNMI
            boot_id = world.boot_id(device, t)
            made = samples(device, t, {Metric.OPER_UP: states}, source=source, boot_id=boot_id, sequence=step)
            yield t + _delay(chance), made
        if is_host:
            for port in ports:
                for at_ns, is_up in world.fabric.transitions(port):
                    t = at_ns / 1e9 - T0
                    if t <= until and not world.is_silent(device, t):
                        kind = EventKind.LINK_UP if is_up else EventKind.LINK_DOWN
                        yield t + _delay(chance), Event(*port, kind, at_ns, at_ns, Source.SOURCE_HOST)


def _delay(chance: random.Random) -> float:
    return chance.uniform(3, 15) if chance.random() < 0.05 else chance.uniform(0, 2)


@dataclass
class PublishedFindings:
    """The published findings and their pages."""

    revisions: list[Finding] = field(default_factory=list)
    pages: dict[str, float] = field(default_factory=dict)
    """By finding id, when it paged."""

    @property
    def last(self) -> list[Finding]:
        """Return the newest revision of each finding that was not retracted."""
        newest = {f.id: f for f in self.revisions}
        return [f for f in newest.values() if f.status is not Status.RETRACTED]

    @property
    def roots(self) -> list[Finding]:
        """Return the findings without a parent."""
        return [f for f in self.last if not f.parent_id]

    def children(self, parent: Finding) -> list[Finding]:
        own = [f for f in self.last if f.parent_id == parent.id]
        return [*own, *(below for f in own for below in self.children(f))]

    @property
    def paged(self) -> list[Finding]:
        """Return the last revisions of the findings that paged."""
        return [f for f in self.last if f.id in self.pages]


class PagedPipeline:
    """The four stages and the notifier, by the arrival clock."""

    def __init__(self, top: Topology, own: Stages | None = None) -> None:
        self._stages = own or stages()
        self._reader = {
            SYMPTOMS: self._stages.correlate, SUMMARIES: self._stages.correlate,
            EPISODES: self._stages.attribute, FINDINGS: self._stages.decide, PORT_STATES: self._stages.decide,
        }  # fmt: skip
        self._notifier = Notifier(NotifyParams(cluster="test"))
        self.published = PublishedFindings()
        self._now = 0.0
        self._paused: tuple[float, float] = (0, 0)
        for stage in (self._stages.measure, self._stages.correlate, self._stages.attribute, self._stages.decide):
            stage.start_epoch(1)
            self._pass_on(stage.set_topology(top))

    def run(
        self, messages: Iterable[tuple[float, Message]], until: float, paused: tuple[float, float] = (0, 0)
    ) -> PublishedFindings:
        """Process each message at its arrival; the clock ticks each second, but not in `paused`, as without workers."""
        self._paused = paused
        second = 0.0
        for arrival, message in sorted(messages, key=lambda m: m[0]):
            while second < arrival:
                self._tick(second)
                second += 1
            self._now = arrival
            self._pass_on(self._stages.measure.process([message]))
        while second <= until:
            self._tick(second)
            second += 1
        return self.published

    def _tick(self, second: float) -> None:
        if self._paused[0] <= second < self._paused[1]:
            return
        self._now = second
        self._pass_on(self._stages.measure.advance_watermark(at(second)))
        watermark_ns = self._stages.measure.watermark_ns
        if watermark_ns not in (0, IDLE_NS):
            for stage in (self._stages.correlate, self._stages.attribute, self._stages.decide):
                self._pass_on(stage.advance_watermark(watermark_ns))
        alerts = self._notifier.due(at(second))
        self._notifier.posted(alerts, at(second))
        for alert in alerts:
            if alert.labels.get("page") == "true" and alert.ends_at_ns > at(second):
                self.published.pages.setdefault(alert.labels["finding_id"], second)

    def _pass_on(self, outputs: list[Output]) -> None:
        for output in outputs:
            if output.message is None:
                continue
            if isinstance(output.message, Finding):
                self.published.revisions.append(output.message)
                self._notifier.process(output.message, at(self._now))
            if (reader := self._reader.get(output.topic)) is not None:
                self._pass_on(reader.process([output.message]))
