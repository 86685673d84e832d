"""correlate: symptoms of one partition's pods to episodes of links, each link one subject whichever end told.

Decides which symptoms concern the same link and when its detectors look at it again. What concerns a whole device is
passed on to `attribute`, which sees the fabric.
"""

import heapq
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import orjson
from pydantic import TypeAdapter, ValidationError

from streams.detect import congestion_incast, congestion_pfc_storm, link_degrading, link_down, link_flap
from streams.detect.correlate import crowds, parts, storms, uplinks, wires
from streams.detect.correlate.parts import Parts
from streams.detect.correlate.pod_rails import PodRails, hosts_by_pod
from streams.detect.episode import State, forget
from streams.detect.link import FOREVER, History, Interval
from streams.detect.minutes import Minutes, unsettled
from streams.detect.params import FLAP_PRESETS, DetectParams, ns
from streams.fabric.ids import Port, port_id
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.errors import Reject
from streams.wire.models import (
    Cabling,
    Census,
    Endpoint,
    Episode,
    Message,
    Rails,
    Source,
    Subject,
    Symptom,
    SymptomKind,
    Window,
)
from streams.wire.stage import Output
from streams.wire.topics import EPISODES


@dataclass(slots=True)
class LinkState:
    """One link: what was observed, and what each detector has said."""

    history: History
    flap: State = ()
    down: State = ()
    minutes: Minutes = field(default_factory=Minutes)
    degrading: State = ()


@dataclass(slots=True)
class Kept:
    """What a snapshot holds."""

    watermark_ns: int = 0
    links: dict[str, LinkState] = field(default_factory=dict)
    restarts: dict[str, list[Interval]] = field(default_factory=dict)
    rails: dict[str, PodRails] = field(default_factory=dict)
    held: storms.Storms = field(default_factory=dict)
    uneven: uplinks.Uneven = field(default_factory=dict)
    crowded: crowds.Crowds = field(default_factory=dict)
    silent: dict[str, list[Source]] = field(default_factory=dict)
    """Device -> its sources that are silent."""
    wired: wires.Wires = field(default_factory=dict)
    parts: Parts = field(default_factory=Parts)


_KEPT = TypeAdapter(Kept)
_POD = "rails of "
"""Before a pod's name, where what is due are its rails and not a link."""
_PART = "part "
"""Before `host/part`."""


class Correlate:
    """The stage for one partition of pods."""

    name = "correlate"

    def __init__(self, params: DetectParams) -> None:
        self._params = params
        self._topology = Topology(Inventory())
        self._hosts = hosts_by_pod(self._topology)
        self._kept = Kept()
        self._due: list[tuple[int, str]] = []
        self._due_of: dict[str, int] = {}
        self._revisions = itertools.count(1)
        windows = (FLAP_PRESETS[name].window_s for name in params.flap.presets)
        self._horizon_ns = ns(max(*windows, params.flap.quiet_s) + params.flap.quiet_s + 2 * params.lateness_s)

    @property
    def watermark_ns(self) -> int:
        return self._kept.watermark_ns

    def begin(self, epoch: int) -> None:
        self._revisions = itertools.count((epoch << 32) + 1)

    def adopt(self, topology: Topology) -> list[Output]:
        """Links keep their episodes under another inventory; the new subject lists the old id."""
        self._topology, self._hosts = topology, hosts_by_pod(topology)
        for subject_id in list(self._kept.links):
            state = self._kept.links[subject_id]
            now = self._subject(Port(state.history.ends()[0].device, state.history.ends()[0].port))
            if now.id == subject_id:
                state.history.subject = replace(now, former_ids=state.history.subject.former_ids)
                continue
            del self._kept.links[subject_id]
            now = replace(now, former_ids=(*state.history.subject.former_ids, subject_id))
            self._join(self._kept.links.setdefault(now.id, LinkState(History(now))), state)
            self._schedule(now.id, self._kept.watermark_ns)
        moved = wires.rename(self._kept.wired, self._subject, self._kept.watermark_ns)
        for name in (*storms.rename(self._kept.held, self._subject), *moved):
            self._schedule(name, self._kept.watermark_ns)
        return []

    def _join(self, into: LinkState, state: LinkState) -> None:
        for symptom in state.history.symptoms:
            into.history.add(symptom)
        into.history.down_since |= state.history.down_since
        into.history.off_since |= state.history.off_since
        into.history.forgotten_ns = max(into.history.forgotten_ns, state.history.forgotten_ns)
        into.flap, into.down = (*state.flap, *into.flap), (*state.down, *into.down)
        for window in state.minutes.windows:
            into.minutes.add(window)
        into.minutes.forgotten_ns = max(into.minutes.forgotten_ns, state.minutes.forgotten_ns)
        into.degrading = (*state.degrading, *into.degrading)

    def process(self, batch: Sequence[Message]) -> list[Output]:
        """One by one, so that how records were fetched does not decide which revisions there are."""
        return [output for message in batch for output in self._told(message)]

    def _told(self, message: Message) -> list[Output]:
        if isinstance(message, Symptom):
            return self._symptom(message)
        if isinstance(message, Window):
            return self._look(self._read(message))
        if isinstance(message, Rails) and uplinks.is_switch(self._topology, message.device):
            seen = uplinks.observe(self._params, self._kept.uneven, self._topology, self._unsettled, message)
            return self._look(seen)
        if isinstance(message, Rails):
            self._compare_later(message)
        elif isinstance(message, Cabling):
            subject = self._subject(Port(message.device, message.port))
            return self._look(wires.observe(self._kept.wired, subject, message))
        elif isinstance(message, Census):
            return [Output(EPISODES, message, key="fleet")]
        return []

    def _symptom(self, symptom: Symptom) -> list[Output]:
        if not symptom.port:
            outputs = [Output(EPISODES, symptom, key=f"device:{symptom.device}")]
            self._hear(symptom)
            if symptom.kind is SymptomKind.RESTARTED:
                outputs += self._look(self._restarted(symptom))
            return outputs
        subject = self._subject(Port(symptom.device, symptom.port))
        if symptom.kind in congestion_pfc_storm.KINDS:
            return self._look(storms.observe(self._kept.held, subject, symptom))
        if symptom.kind in congestion_incast.KINDS:
            if (later := crowds.observe(self._kept.crowded, subject, symptom, self._kept.watermark_ns)) is not None:
                self._schedule(*later)
            return []
        if symptom.kind in parts.KINDS:
            part = self._kept.parts.add(symptom, subject)
            return self._look((_PART + part,)) if part else []
        return self._look(self._observe(symptom))

    def advance(self, watermark_ns: int) -> list[Output]:
        """Each link is looked at when it asked to be, however far time jumps: what it said must not depend on that."""
        until_ns = max(self._kept.watermark_ns, watermark_ns)
        outputs: list[Output] = []
        while self._due and self._due[0][0] <= until_ns:
            due, subject_id = heapq.heappop(self._due)
            if self._due_of.get(subject_id) == due:
                self._kept.watermark_ns = max(self._kept.watermark_ns, due)
                outputs += self._look((subject_id,))
        self._kept.watermark_ns = until_ns
        return outputs

    def _schedule(self, subject_id: str, due_ns: int) -> None:
        """Look at it again then; an entry of the heap that is no longer the subject's due is passed over."""
        if self._due_of.get(subject_id) != due_ns:
            self._due_of[subject_id] = due_ns
            heapq.heappush(self._due, (due_ns, subject_id))

    def _unsettled(self, port: Port) -> list[Interval]:
        state = self._kept.links.get(self._topology.subject_id(port))
        return unsettled(self._params.link, state.history, self._kept.restarts) if state is not None else []

    def _hear(self, symptom: Symptom) -> None:
        silent = [s for s in self._kept.silent.pop(symptom.device, []) if s is not symptom.source]
        if symptom.kind is SymptomKind.SILENT:
            silent.append(symptom.source)
        if silent:
            self._kept.silent[symptom.device] = silent

    def _compare_later(self, rails: Rails) -> None:
        pod = self._topology.pod_of(rails.device)
        own = self._kept.rails.setdefault(pod, PodRails())
        own.add(rails)
        if (due := own.due_ns(self._params)) != FOREVER:
            self._schedule(_POD + pod, max(due, self._kept.watermark_ns))

    def _compare(self, pod: str) -> list[Output]:
        """Let a pod's rails be compared, as far as all of them were read."""
        own = self._kept.rails.get(pod)
        if own is None:
            return []
        read = [host for host in self._hosts.get(pod, ()) if not self._kept.silent.get(host)]
        episodes, due = own.look(
            self._params, self._topology, self._subject, self._unsettled, read, self._kept.watermark_ns
        )
        return self._heeded(_POD + pod, episodes, due)

    def _storm(self, name: str) -> list[Output]:
        """Let the detector of storms conclude on one link."""
        return self._heeded(name, *storms.look(self._params, self._kept.held, name, self._kept.watermark_ns))

    def _wire(self, name: str) -> list[Output]:
        """Let link/miscabled conclude on one link."""
        looked = wires.look(self._params, self._kept.wired, self._topology, name, self._kept.watermark_ns)
        return self._heeded(name, *looked)

    def _heeded(self, name: str, episodes: Iterable[Episode], due_ns: int) -> list[Output]:
        """What was concluded, to be said, and when to look again."""
        if due_ns != FOREVER:
            self._schedule(name, due_ns)
        else:
            self._due_of.pop(name, None)
        return [self._output(episode) for episode in episodes]

    def _state(self, port: Port) -> LinkState:
        """The link that ends there."""
        subject = self._subject(port)
        state = self._kept.links.get(subject.id)
        if state is None:
            state = self._kept.links[subject.id] = LinkState(History(subject))
        return state

    def _observe(self, symptom: Symptom) -> dict[str, None]:
        state = self._state(Port(symptom.device, symptom.port))
        return {state.history.subject.id: None} if state.history.add(symptom) else {}

    def _read(self, window: Window) -> dict[str, None]:
        state = self._state(Port(window.device, window.port))
        return {state.history.subject.id: None} if state.minutes.add(window) else {}

    def _restarted(self, symptom: Symptom) -> dict[str, None]:
        spans = self._kept.restarts.get(symptom.device, [])
        span = (symptom.since_ns or symptom.at_ns, symptom.at_ns)
        if span in spans:
            return {}
        horizon = self._kept.watermark_ns - self._horizon_ns
        self._kept.restarts[symptom.device] = [*(s for s in spans if s[1] >= horizon), span]
        return {
            subject_id: None
            for subject_id, state in self._kept.links.items()
            if any(end.device == symptom.device for end in state.history.ends())
        } | {_PART + part: None for part in self._kept.parts.of(symptom.device)}

    def _look_at_part(self, part: str) -> list[Output]:
        looked = self._kept.parts.look(self._params, part, self._kept.restarts, self._kept.watermark_ns)
        return self._heeded(_PART + part, *looked)

    def _look(self, subject_ids: Iterable[str]) -> list[Output]:
        """Let both detectors conclude on each link; the link is let go when nothing of it is left."""
        outputs: list[Output] = []
        watermark = self._kept.watermark_ns
        for subject_id in subject_ids:
            if subject_id.startswith(_POD):
                outputs += self._compare(subject_id.removeprefix(_POD))
                continue
            if subject_id.startswith(_PART):
                outputs += self._look_at_part(subject_id.removeprefix(_PART))
                continue
            if subject_id.startswith(uplinks.NAME):
                looked = uplinks.look(self._params, self._kept.uneven, subject_id, self._kept.watermark_ns)
                outputs += self._heeded(subject_id, *looked)
                continue
            if subject_id.startswith(crowds.NAME):
                looked = crowds.look(self._params, self._kept.crowded, self._topology, subject_id, watermark)
                outputs += self._heeded(subject_id, *looked)
                continue
            if subject_id.startswith(storms.NAME):
                outputs += self._storm(subject_id)
                continue
            if subject_id.startswith(wires.NAME):
                outputs += self._wire(subject_id)
                continue
            state = self._kept.links.get(subject_id)
            if state is None:
                continue
            horizon = watermark - self._horizon_ns
            state.history.forget_before(horizon)
            state.flap, flaps, flap_due = link_flap.step(
                self._params, forget(state.flap, horizon), state.history, self._kept.restarts, watermark
            )
            state.down, downs, down_due = link_down.step(
                self._params, forget(state.down, horizon), state.history, watermark
            )
            since_ns = min(horizon, state.minutes.windows[0].begin_ns) if state.minutes.windows else horizon
            state.degrading, worse, degrading_due = link_degrading.step(
                self._params,
                forget(state.degrading, since_ns),
                state.history,
                state.minutes,
                self._kept.restarts,
                watermark,
            )
            outputs += [self._output(episode) for episode in (*flaps, *downs, *worse)]
            due = min(flap_due, down_due, degrading_due)
            if due == FOREVER and state.history.symptoms:
                due = state.history.symptoms[0].at_ns + self._horizon_ns + 1
            due = min(due, state.minutes.thin_at_ns(watermark))
            if due != FOREVER:
                self._schedule(subject_id, due)
            else:
                self._due_of.pop(subject_id, None)
                if not (state.history.down_since or state.history.off_since or state.minutes.windows):
                    del self._kept.links[subject_id]
        return outputs

    def _output(self, episode: Episode) -> Output:
        finding = replace(episode.finding, revision=next(self._revisions), inventory_digest=self._topology.digest[:12])
        return Output(EPISODES, replace(episode, finding=finding))

    def _subject(self, port: Port) -> Subject:
        cable = self._topology.cable_at(port)
        device = self._topology.devices.get(cable.lower.device if cable else port.device)
        site, team = (device.site, device.team) if device else ("", "")
        if cable is None:
            pod = self._topology.pod_of(port.device)
            return Subject(port_id(port), Endpoint(port.device, port.port), role="port", pod=pod, site=site, team=team)
        a, z = Endpoint(*cable.lower), Endpoint(*cable.upper)
        return Subject(cable.id, a, z, cable.role, cable.rail, cable.plane, cable.pod, site, team)

    def snapshot(self) -> bytes:
        return orjson.dumps(self._kept, option=orjson.OPT_NON_STR_KEYS)

    def restore(self, data: bytes) -> None:
        try:
            self._kept = _KEPT.validate_json(data)
        except ValidationError as error:
            raise Reject(f"not a snapshot of correlate: {error}") from error
        held = [storms.NAME + subject_id for subject_id in self._kept.held]
        held += [uplinks.NAME + switch for switch in self._kept.uneven]
        held += [crowds.NAME + pod for pod in self._kept.crowded]
        held += [wires.NAME + subject_id for subject_id in self._kept.wired]
        own = (_PART + part for part in {*self._kept.parts.gpus, *self._kept.parts.pcie})
        for subject_id in (*self._kept.links, *(_POD + pod for pod in self._kept.rails), *held, *own):
            self._schedule(subject_id, self._kept.watermark_ns)
