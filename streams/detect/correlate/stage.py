"""The stage correlate: turns the output of `measure` for one partition's pods into episodes.

Passes each observation to the detectors that declare it as an input, and evaluates a detector when an observation
requires it or its deadline passes. Symptoms of whole devices are forwarded to `attribute`, which receives the whole
fabric, and so are symptoms of ports that concern other pods (`Observed.is_for_fabric`).
"""

import itertools
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from streams.detect.correlate.present_states import is_known, missed_changes
from streams.detect.correlate.state import CorrelateState, MovedState, restore, snapshot, take_moved
from streams.detect.detector import NOW, Context, Detector, Observation, Observed, PodSide, Scope, input_key, input_of
from streams.detect.detectors import DETECTORS
from streams.detect.evidence.deadlines import Deadlines
from streams.detect.evidence.link_history import FOREVER, RECORDED_KINDS, LinkHistory
from streams.detect.evidence.subjects import port_subject, subject_ends
from streams.detect.measure.routing import pods_of
from streams.detect.params import DetectParams
from streams.fabric.ids import Port, port_id
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.errors import Reject
from streams.wire.models import (
    CablingReport,
    Episode,
    HostRates,
    Message,
    PeerWindow,
    PortReaders,
    PortStates,
    ProbeWindow,
    StateTransfer,
    Subject,
    Symptom,
    SymptomsReplaced,
    VersionCensus,
)
from streams.wire.stage import Output
from streams.wire.symptoms import SymptomKind
from streams.wire.topics import EPISODES, SYMPTOMS

log = logging.getLogger(__name__)


class _Bound(NamedTuple):
    """The pod side of a detector with its thresholds."""

    detector: Detector[Any]
    side: PodSide[Any, Any]
    params: Any


class _Unit(NamedTuple):
    """Detectors that are evaluated together, with one deadline for each key."""

    name: str
    members: tuple[_Bound, ...]


_LINK = "link-history"
"""The unit of the detectors that follow the history of a link."""


class Correlate:
    """The stage for one partition of pods."""

    name = "correlate"

    def __init__(self, params: DetectParams) -> None:
        self._settings = params.shared
        self._index_topology(Topology(Inventory()))
        self._known_topology: Topology | None = None
        """The topology of the state; None until a version is adopted or restored with a state."""
        self._state = CorrelateState()
        self._deadlines = Deadlines()
        self._epoch = 0
        self._revisions = itertools.count(1)
        bound = [_Bound(one, one.pod, params.section(one)) for one in DETECTORS if one.pod is not None]
        followers = tuple(one for one in bound if one.side.follows_link_history)
        single = (_Unit(one.detector.slug, (one,)) for one in bound if not one.side.follows_link_history)
        self._units = {unit.name: unit for unit in (_Unit(_LINK, followers), *single)}
        self._sides = {one.detector.slug: one.side for unit in self._units.values() for one in unit.members}
        self._consumers: dict[tuple[type, Any], list[tuple[_Bound, _Unit]]] = defaultdict(list)
        for unit in self._units.values():
            for one in unit.members:
                for value in one.side.inputs:
                    self._consumers[input_key(value)].append((one, unit))

    @property
    def watermark_ns(self) -> int:
        return self._state.watermark_ns

    def start_epoch(self, epoch: int) -> None:
        self._epoch = epoch
        self._revisions = itertools.count((self._revision_epoch << 32) + 1)

    @property
    def _revision_epoch(self) -> int:
        return self._epoch + self._state.added_epochs

    def set_topology(self, topology: Topology) -> list[Output]:
        """Replace the inventory; subjects keep their episodes under their new names, or move to another pod."""
        outputs = self._send_moved(topology)
        self._index_topology(topology)
        self._known_topology = topology
        for old, new in self._state.evidence.rebase(self._subject_at).items():
            for one in self._units[_LINK].members:
                self._move(one, old, new)
            self._deadlines.schedule(f"{_LINK} {new}", self._state.watermark_ns)
        for unit in self._units.values():
            for one in unit.members:
                if one.side.rebase is not None:
                    self._rebase(unit, one)
                if one.side.end_moved is not None and topology.devices:
                    outputs += self._end_moved(unit, one)
        return outputs

    def _end_moved(self, unit: _Unit, one: _Bound) -> list[Output]:
        """End the states of links that moved to another pod; return their symptoms for the owners of those pods."""
        assert one.side.end_moved is not None

        def pod_of(device: str, port: str) -> str:
            return self._subject_at(Port(device, port)).pod

        def has_moved(pod: str, link: Subject) -> bool:
            end = subject_ends(link)[0]
            return pod_of(end.device, end.port) != pod

        outputs: list[Output] = []
        states, now_ns = self._states(one), self._state.watermark_ns
        for pod, state in list(states.items()):
            states[pod], symptoms = one.side.end_moved(state, partial(has_moved, pod), now_ns)
            outputs += [Output(SYMPTOMS, begun, key=pod_of(begun.device, begun.port)) for begun in symptoms]
            self._schedule(unit, pod, now_ns)
        return outputs

    def _send_moved(self, topology: Topology) -> list[Output]:
        """Return transfers of all state whose pod differs in a topology, and drop that state."""
        moved = take_moved(self._state, self._known_topology, topology, self._sides)
        for part in moved:
            self._state.transfers.pop(part.key, None)
            for name in self._units:
                self._deadlines.cancel(f"{name} {part.key}")
        return [Output(SYMPTOMS, self._transfer_of(part, topology), key=part.pod) for part in moved]

    def _transfer_of(self, part: MovedState, topology: Topology) -> StateTransfer:
        return StateTransfer(
            part.key, part.former_pod, part.pod, topology.digest, self._state.watermark_ns, self._revision_epoch,
            snapshot(part.state),
        )  # fmt: skip

    def _receive(self, transfer: StateTransfer) -> list[Output]:
        """Adopt the state that the owner of another pod sent; a repeated transfer changes nothing."""
        state = self._state
        before_ns = transfer.at_ns - self._settings.link_retention_ns
        state.transfers = {key: last for key, last in state.transfers.items() if last[2] >= before_ns}
        *known, _ = state.transfers.get(transfer.key, ("", "", 0))
        if known == [transfer.former_pod, transfer.inventory_digest]:
            return []
        try:
            part = restore(transfer.state)
        except Reject as error:
            # The state is of another version: its episodes stay open, as after a loss of state.
            log.warning("cannot read a transfer: key=%s pod=%s: %s", transfer.key, transfer.pod, error)
            return []
        state.transfers[transfer.key] = (transfer.former_pod, transfer.inventory_digest, transfer.at_ns)
        if transfer.epoch >= self._revision_epoch:
            state.added_epochs += transfer.epoch + 1 - self._revision_epoch
            self._revisions = itertools.count((self._revision_epoch << 32) + 1)
        renamed = state.evidence.receive(part.evidence, transfer.pod, self._subject_at)
        received = {(self._units[_LINK].name, key): None for key in renamed.values()}
        for unit in self._units.values():
            for one in unit.members:
                for key, own in part.detectors.get(one.detector.slug, {}).items():
                    now = renamed.get(key, key)
                    self._add(one, now, own)
                    received[unit.name, now] = None
        return [output for name, key in received for output in self._evaluate(self._units[name], key)]

    def _add(self, one: _Bound, key: str, moved: Any) -> None:
        """Store a state under a key, joined with the present state; without `merge` the moved state replaces it."""
        states = self._states(one)
        if key in states and one.side.merge is not None:
            moved = one.side.merge(moved, states[key])
        states[key] = moved

    def _index_topology(self, topology: Topology) -> None:
        self._topology = topology
        self._hosts_by_pod: dict[str, list[str]] = defaultdict(list)
        for device in topology.devices.values():
            if device.kind == "host":
                self._hosts_by_pod[topology.pod_of(device.name)].append(device.name)

    def _rebase(self, unit: _Unit, one: _Bound) -> None:
        """Update the subjects in the states of one detector to those of the inventory."""
        assert one.side.rebase is not None
        assert one.side.subject_of is not None
        states = self._states(one)
        for key, state in list(states.items()):
            subject = one.side.subject_of(state)
            end = subject.a or subject.z
            if end is None:
                continue
            now = self._subject_at(Port(end.device, end.port))
            former_ids = subject.former_ids if now.id == key else (*subject.former_ids, key)
            rebased = one.side.rebase(state, replace(now, former_ids=former_ids), self._context(one.detector))
            states[key] = rebased.state
            self._move(one, key, now.id)
            if rebased.evaluate_at_ns is not None:
                self._schedule(unit, now.id, rebased.evaluate_at_ns)

    def _move(self, one: _Bound, old: str, new: str) -> None:
        states = self._states(one)
        if old == new or old not in states:
            return
        self._add(one, new, states.pop(old))

    def process(self, batch: Sequence[Message]) -> list[Output]:
        """Process messages one by one, so that revisions do not depend on the batches of a fetch."""
        return [output for message in batch for output in self._process(message)]

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        """Evaluate each key at its own deadlines, so that the step of the watermark does not affect findings."""
        until_ns = max(self._state.watermark_ns, watermark_ns)
        outputs: list[Output] = []
        while (due := self._deadlines.pop_due(until_ns)) is not None:
            at_ns, name = due
            self._state.watermark_ns = max(self._state.watermark_ns, at_ns)
            unit, _, key = name.partition(" ")
            outputs += self._evaluate(self._units[unit], key)
        self._state.watermark_ns = until_ns
        return outputs

    def reconcile(self, batch: Sequence[Message], owns: Callable[[str], bool]) -> list[Output]:
        """Add the changes among deleted symptoms, from the present states of ports and the newest symptoms."""
        known = self._state.evidence.links

        def history_of(port: Port) -> LinkHistory | None:
            link = self._topology.link_at(port)
            if (history := known.get(port_id(port) if link is None else link.id)) is not None:
                return history
            return LinkHistory(Subject(link.id)) if link is not None and owns(link.pod) else None

        outputs: list[Output] = []
        for message in batch:
            if isinstance(message, PortStates):
                for symptom in missed_changes(message, self._topology, history_of):
                    log.warning(
                        "a change of a port was lost with its symptom: device=%s port=%s change=%s",
                        symptom.device, symptom.port, symptom.kind.name.lower(),
                    )  # fmt: skip
                    outputs += self._link_symptom(symptom)
            elif isinstance(message, Symptom | SymptomsReplaced | CablingReport | VersionCensus):
                is_own = any(map(owns, pods_of(self._topology, message)))
                if is_own and not is_known(message, self._state.evidence):
                    outputs += self._process(message)
        return outputs

    def snapshot(self) -> bytes:
        return snapshot(self._state)

    def restore(self, data: bytes) -> None:
        self._state = restore(data)
        self.start_epoch(self._epoch)
        for unit in self._units.values():
            keys: Iterable[str] = self._state.evidence.links if unit.name == _LINK else self._states(unit.members[0])
            for key in keys:
                self._schedule(unit, key, self._state.watermark_ns)

    def limit_time(self, limit_ns: int) -> None:
        """Return to an earlier watermark; earlier conclusions stay."""
        self._state.watermark_ns = min(self._state.watermark_ns, limit_ns)

    def _process(self, message: Message) -> list[Output]:
        if isinstance(message, VersionCensus | HostRates | ProbeWindow | PortReaders):
            return [Output(EPISODES, message, key="fleet")]
        if isinstance(message, Symptom):
            if not message.port:
                return self._device_symptom(message)
            if message.kind in RECORDED_KINDS:
                return self._link_symptom(message)
        if isinstance(message, StateTransfer):
            return self._receive(message)
        if isinstance(message, SymptomsReplaced):
            message = _with_own_state(message)
        outputs: list[Output] = []
        for one, unit in self._consumers.get(input_of(message), ()):  # type: ignore[arg-type]
            outputs += self._observe(one, unit, message)  # type: ignore[arg-type]
        return outputs

    def _device_symptom(self, symptom: Symptom) -> list[Output]:
        """Forward a symptom of a device; a restart is evaluated at its links and parts."""
        evidence = self._state.evidence
        evidence.set_silence(symptom)
        outputs = [Output(EPISODES, symptom, key=f"device:{symptom.device}")]
        is_restart = symptom.kind is SymptomKind.RESTARTED
        if is_restart and evidence.add_restart(symptom, self._retained_since_ns):
            for key in evidence.links_of_device(symptom.device):
                outputs += self._evaluate(self._units[_LINK], key)
            for unit in self._units.values():
                for one in unit.members:
                    device_of = one.side.device_of
                    states = self._states(one).items() if device_of is not None else ()
                    for key in [key for key, state in states if device_of and device_of(state) == symptom.device]:
                        outputs += self._evaluate(unit, key)
        return outputs

    def _link_symptom(self, symptom: Symptom) -> list[Output]:
        subject = self._subject_at(Port(symptom.device, symptom.port))
        is_new = self._state.evidence.link(subject).add(symptom)
        return self._evaluate(self._units[_LINK], subject.id) if is_new else []

    def _observe(self, one: _Bound, unit: _Unit, observation: Observation) -> list[Output]:
        key = self._key(one.side, observation)
        states = self._states(one)
        assert one.side.observe is not None
        observed: Observed[Any] = one.side.observe(
            one.params, states.get(key), observation, self._context(one.detector)
        )
        if observed.state is None:
            states.pop(key, None)
        else:
            states[key] = observed.state
        outputs = [Output(EPISODES, observation, key=f"device:{observation.device}")] if observed.is_for_fabric else []
        if observed.evaluate_at_ns == NOW:
            outputs += self._evaluate(unit, key)
        elif observed.evaluate_at_ns is not None:
            self._schedule(unit, key, observed.evaluate_at_ns)
        return outputs

    def _key(self, side: PodSide[Any, Any], observation: Observation) -> str:
        """Return the key of an observation; the pod of a port is the pod of its link."""
        scope = side.scope
        if scope is Scope.DEVICE:
            return observation.device
        if isinstance(observation, PeerWindow):
            return self._topology.pod_of(observation.device)
        if scope is Scope.PORT:
            return f"{observation.device}/{observation.port}"
        subject = self._subject_at(Port(observation.device, observation.port))
        if side.follows_link_history:
            self._state.evidence.link(subject)
        return subject.pod if scope is Scope.POD else subject.id

    def _schedule(self, unit: _Unit, key: str, at_ns: int) -> None:
        self._deadlines.schedule(f"{unit.name} {key}", max(at_ns, self._state.watermark_ns))

    def _evaluate(self, unit: _Unit, key: str) -> list[Output]:
        """Evaluate all detectors of a unit, and schedule the next evaluation."""
        due_ns = FOREVER
        outputs: list[Output] = []
        history = None
        if unit.name == _LINK:
            history = self._state.evidence.links.get(key)
            if history is None:
                return []
            history.prune_before(self._retained_since_ns)
        for one in unit.members:
            states = self._states(one)
            if key not in states and one.side.observe is not None:
                continue
            evaluation = one.side.evaluate(one.params, key, states.get(key), self._context(one.detector))
            if evaluation.state is None:
                states.pop(key, None)
            else:
                states[key] = evaluation.state
            due_ns = min(due_ns, evaluation.evaluate_at_ns)
            outputs += [self._output(episode) for episode in evaluation.episodes]
        if history is not None:
            due_ns = self._retain(key, due_ns)
        if due_ns != FOREVER:
            self._deadlines.schedule(f"{unit.name} {key}", due_ns)
        else:
            self._deadlines.cancel(f"{unit.name} {key}")
        return outputs

    def _retain(self, key: str, due_ns: int) -> int:
        """Return the deadline of a link, at which its history is pruned at the latest; drop an empty history."""
        history = self._state.evidence.links[key]
        if due_ns != FOREVER:
            return due_ns
        retention_ns, now_ns = self._settings.link_retention_ns, self._state.watermark_ns
        ends = (symptom.at_ns + retention_ns + 1 for symptom in history.symptoms)
        if (next_ns := next((at_ns for at_ns in ends if at_ns > now_ns), None)) is not None:
            return next_ns
        if history.is_blank and not any(key in self._states(one) for one in self._units[_LINK].members):
            del self._state.evidence.links[key]
        return FOREVER

    def _output(self, episode: Episode) -> Output:
        finding = replace(episode.finding, revision=next(self._revisions), inventory_digest=self._topology.digest[:12])
        return Output(EPISODES, replace(episode, finding=finding))

    def _subject_at(self, port: Port) -> Subject:
        return port_subject(self._topology, port)

    @property
    def _retained_since_ns(self) -> int:
        return self._state.watermark_ns - self._settings.link_retention_ns

    def _context(self, detector: Detector[Any]) -> Context:
        ledger = detector.ledger(self._settings, self._state.watermark_ns)
        return Context(ledger, self._topology, self._state.evidence, self._hosts_by_pod)

    def _states(self, one: _Bound) -> dict[str, Any]:
        return self._state.detectors.setdefault(one.detector.slug, {})


def _with_own_state(replaced: SymptomsReplaced) -> SymptomsReplaced:
    """Return a message without replacements that are not symptoms of the state, which a detector cannot read."""
    own = tuple(one for one in replaced.replacements if getattr(one.payload, "state", None) is replaced.state)
    return replaced if len(own) == len(replaced.replacements) else replace(replaced, replacements=own)
