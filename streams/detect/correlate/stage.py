"""correlate: symptoms of one partition's pods to episodes of links, each link one subject whichever end told.

Decides which symptoms concern the same link and when its detectors look at it again. What concerns a whole device is
passed on to `attribute`, which sees the fabric.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from streams.detect.correlate import crowds, links, parts, pod_rails, senders, stifles, storms, uplinks, wires
from streams.detect.correlate.kept import Kept, restored, snapshot
from streams.detect.detectors.congestion_collapse import evaluate as congestion_collapse
from streams.detect.detectors.congestion_incast import evaluate as congestion_incast
from streams.detect.detectors.congestion_incast.attribution import NO_CONCURRENT, ConcurrentSpells
from streams.detect.detectors.congestion_pfc_storm import evaluate as congestion_pfc_storm
from streams.detect.evidence import subjects
from streams.detect.evidence.deadlines import Deadlines
from streams.detect.evidence.link_history import FOREVER, Interval
from streams.detect.evidence.window_history import training_intervals
from streams.detect.params import DetectParams
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.models import (
    CablingReport,
    Episode,
    Message,
    PeerGroup,
    PeerWindow,
    Subject,
    Symptom,
    SymptomsReplaced,
    VersionCensus,
    Window,
)
from streams.wire.stage import Output
from streams.wire.symptoms import Congestion, CongestionState, SymptomKind
from streams.wire.topics import EPISODES

Looked = tuple[list[Episode], int]
"""What was concluded on a name, and when to look again."""


class Correlate:
    """The stage for one partition of pods."""

    name = "correlate"

    def __init__(self, params: DetectParams) -> None:
        self._params = params
        self._topology = Topology(Inventory())
        self._hosts = pod_rails.hosts_by_pod(self._topology)
        self._kept = Kept()
        self._due = Deadlines()
        self._revisions = itertools.count(1)
        self._kinds: tuple[tuple[str, Callable[[str, int], Looked]], ...] = (
            (pod_rails.NAME, self._rails),
            (parts.NAME, self._part),
            (uplinks.NAME, self._uplinks),
            (crowds.NAME, self._crowd),
            (stifles.NAME, self._stifles),
            (storms.NAME, self._storm),
            (wires.NAME, self._wire),
            ("", self._link),
        )

    @property
    def watermark_ns(self) -> int:
        return self._kept.watermark_ns

    def start_epoch(self, epoch: int) -> None:
        self._revisions = itertools.count((epoch << 32) + 1)

    def set_topology(self, topology: Topology) -> list[Output]:
        """What has ends keeps its episodes under another inventory."""
        self._topology, self._hosts = topology, pod_rails.hosts_by_pod(topology)
        kept = self._kept
        renamed = links.rename(kept.links, self._subject)
        renamed += wires.rename(kept.wired, self._subject, kept.watermark_ns)
        renamed += storms.rename(kept.held, self._subject)
        for name in renamed:
            self._due.schedule(name, kept.watermark_ns)
        return []

    def process(self, batch: Sequence[Message]) -> list[Output]:
        """One by one, so that how records were fetched does not decide which revisions there are."""
        return [output for message in batch for output in self._told(message)]

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        """Each link is looked at when it asked to be, however far time jumps: what it said must not depend on that."""
        until_ns = max(self._kept.watermark_ns, watermark_ns)
        outputs: list[Output] = []
        while (due := self._due.pop_due(until_ns)) is not None:
            at_ns, name = due
            self._kept.watermark_ns = max(self._kept.watermark_ns, at_ns)
            outputs += self._look((name,))
        self._kept.watermark_ns = until_ns
        return outputs

    def snapshot(self) -> bytes:
        return snapshot(self._kept)

    def restore(self, data: bytes) -> None:
        self._kept = kept = restored(data)
        named: tuple[tuple[str, Iterable[str]], ...] = (
            ("", kept.links),
            (pod_rails.NAME, kept.rails),
            (storms.NAME, kept.held),
            (uplinks.NAME, kept.uneven),
            (crowds.NAME, kept.crowded),
            (stifles.NAME, kept.stifled),
            (wires.NAME, kept.wired),
            (parts.NAME, {*kept.parts.gpus, *kept.parts.pcie}),
        )
        for prefix, names in named:
            for name in names:
                self._due.schedule(prefix + name, kept.watermark_ns)

    def _told(self, message: Message) -> list[Output]:
        kept = self._kept
        if isinstance(message, Symptom):
            return self._symptom(message) if message.port else self._of_device(message)
        if isinstance(message, SymptomsReplaced):
            subject = self._subject(Port(message.device, message.port))
            return self._congestion(message.state, subject, message)
        if isinstance(message, Window):
            state = links.state_of(kept.links, self._subject(Port(message.device, message.port)))
            return self._look((state.history.subject.id,) if state.minutes.add(message) else ())
        if isinstance(message, PeerWindow) and message.group is PeerGroup.SWITCH_UPLINKS:
            return self._look(uplinks.observe(self._params, kept.uneven, self._topology, self._unsettled, message))
        if isinstance(message, PeerWindow):
            later = pod_rails.observe(self._params, kept.rails, self._topology.pod_of(message.device), message)
            self._look_later(later)
        elif isinstance(message, CablingReport):
            subject = self._subject(Port(message.device, message.port))
            return self._look(wires.observe(kept.wired, subject, message))
        elif isinstance(message, VersionCensus):
            return [Output(EPISODES, message, key="fleet")]
        return []

    def _of_device(self, symptom: Symptom) -> list[Output]:
        kept = self._kept
        kept.hear(symptom)
        outputs = [Output(EPISODES, symptom, key=f"device:{symptom.device}")]
        if symptom.kind is SymptomKind.RESTARTED and kept.restarted(symptom, links.remember_ns(self._params)):
            outputs += self._look(links.ending_at(kept.links, symptom.device))
            outputs += self._look(parts.NAME + part for part in kept.parts.of(symptom.device))
        return outputs

    def _symptom(self, symptom: Symptom) -> list[Output]:
        kept, subject = self._kept, self._subject(Port(symptom.device, symptom.port))
        if isinstance(symptom.payload, Congestion):
            return self._congestion(symptom.payload.state, subject, symptom)
        if symptom.kind in parts.KINDS:
            part = kept.parts.add(symptom, subject)
            return self._look((parts.NAME + part,) if part else ())
        state = links.state_of(kept.links, subject)
        return self._look((subject.id,) if state.history.add(symptom) else ())

    def _congestion(
        self, state: CongestionState, subject: Subject, observed: Symptom | SymptomsReplaced
    ) -> list[Output]:
        kept = self._kept
        if state in congestion_pfc_storm.STATES:
            return self._look(storms.observe(kept.held, subject, observed))
        if state is congestion_incast.STATE:
            self._look_later(crowds.observe(kept.crowded, subject, observed, kept.watermark_ns))
        elif state is congestion_collapse.STATE:
            self._look_later(stifles.observe(kept.stifled, subject, observed, kept.watermark_ns))
            self._blame_again(subject.pod)
        elif state is senders.STATE:
            needed = subject.pod in kept.crowded
            if senders.observe(self._params, kept.slowed, subject, observed, kept.watermark_ns, needed=needed):
                self._blame_again(subject.pod)
        return []

    def _blame_again(self, pod: str) -> None:
        """Who is slowed or stifled beside a crowded port is a part of what is said of it."""
        if pod in self._kept.crowded:
            self._look_later(crowds.again(pod, self._kept.watermark_ns))

    def _look_later(self, later: tuple[str, int] | None) -> None:
        if later is not None:
            name, due_ns = later
            self._due.schedule(name, max(due_ns, self._kept.watermark_ns))

    def _look(self, names: Iterable[str]) -> list[Output]:
        """Let what has each name conclude; what is said, in that order."""
        outputs: list[Output] = []
        for name in names:
            prefix, look = next(kind for kind in self._kinds if name.startswith(kind[0]))
            episodes, due_ns = look(name.removeprefix(prefix), self._kept.watermark_ns)
            if due_ns != FOREVER:
                self._due.schedule(name, due_ns)
            else:
                self._due.cancel(name)
            outputs += [self._output(episode) for episode in episodes]
        return outputs

    def _link(self, name: str, watermark_ns: int) -> Looked:
        return links.look(self._params, self._kept.links, name, self._topology, self._kept.restarts, watermark_ns)

    def _storm(self, name: str, watermark_ns: int) -> Looked:
        return storms.look(self._params, self._kept.held, name, watermark_ns)

    def _wire(self, name: str, watermark_ns: int) -> Looked:
        return wires.look(self._params, self._kept.wired, self._topology, name, watermark_ns)

    def _crowd(self, pod: str, watermark_ns: int) -> Looked:
        kept, beside = self._kept, NO_CONCURRENT
        if pod in kept.slowed or pod in kept.stifled:
            beside = ConcurrentSpells(kept.slowed.get(pod, {}), kept.stifled[pod].links if pod in kept.stifled else {})
        return crowds.look(self._params, kept.crowded, self._topology, pod, beside, watermark_ns)

    def _stifles(self, pod: str, watermark_ns: int) -> Looked:
        keep = pod in self._kept.crowded
        return stifles.look(self._params, self._kept.stifled, self._topology, pod, watermark_ns, keep=keep)

    def _uplinks(self, switch: str, watermark_ns: int) -> Looked:
        is_read = not self._kept.silent.get(switch)
        return uplinks.look(self._params, self._kept.uneven, switch, watermark_ns, is_read=is_read)

    def _part(self, part: str, watermark_ns: int) -> Looked:
        return self._kept.parts.look(self._params, part, self._kept.restarts, watermark_ns)

    def _rails(self, pod: str, watermark_ns: int) -> Looked:
        """Let a pod's rails be compared, as far as all of them were read."""
        own = self._kept.rails.get(pod)
        if own is None:
            return [], FOREVER
        read = [host for host in self._hosts.get(pod, ()) if not self._kept.silent.get(host)]
        return own.look(self._params, self._topology, self._subject, self._unsettled, read, watermark_ns)

    def _unsettled(self, port: Port) -> list[Interval]:
        state = self._kept.links.get(self._topology.subject_id(port))
        return training_intervals(self._params.link, state.history, self._kept.restarts) if state is not None else []

    def _subject(self, port: Port) -> Subject:
        return subjects.port_subject(self._topology, port)

    def _output(self, episode: Episode) -> Output:
        finding = replace(episode.finding, revision=next(self._revisions), inventory_digest=self._topology.digest[:12])
        return Output(EPISODES, replace(episode, finding=finding))
