"""Defines the state of `correlate` and its snapshot: shared evidence, and the states of detectors by slug and key."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from streams.detect.detector import PodSide, Scope
from streams.detect.detectors import DETECTORS
from streams.detect.evidence.shared import SharedEvidence
from streams.detect.evidence.subjects import subject_ends
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.errors import Reject
from streams.wire.models import Subject
from streams.wire.stage import refuse_unknown_fields


@dataclass(slots=True)
class CorrelateState:
    """The persistent state of the pods of one partition."""

    watermark_ns: int = 0
    evidence: SharedEvidence = field(default_factory=SharedEvidence)
    detectors: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Slug -> key of its scope -> state. Empty on a healthy fabric."""
    transfers: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    """Key of the state -> the last received transfer (former pod, version of the inventory, its time); a sender that
    restarts repeats it."""
    added_epochs: int = 0
    """Added to the owner's epoch in revisions, so that they exceed those of received episodes."""


_STATE = TypeAdapter(CorrelateState)
_OF_DETECTOR: dict[str, TypeAdapter[dict[str, Any]]] = {
    detector.slug: TypeAdapter(dict[str, detector.pod.state])  # type: ignore[name-defined]
    for detector in DETECTORS
    if detector.pod is not None
}


def snapshot(state: CorrelateState) -> bytes:
    """Return JSON for `restore`."""
    detectors = {slug: own for slug, own in state.detectors.items() if own}
    return orjson.dumps(replace(state, detectors=detectors), option=orjson.OPT_NON_STR_KEYS)


def restore(data: bytes) -> CorrelateState:
    """Return the state of a snapshot; raises Reject if it is invalid or has an unknown detector."""
    try:
        known = orjson.loads(data)
        refuse_unknown_fields("correlate", CorrelateState, known)
        state = _STATE.validate_python(known)
        unknown = state.detectors.keys() - _OF_DETECTOR.keys()
        if unknown:
            raise Reject(f"not a snapshot of correlate: unknown detectors {', '.join(sorted(unknown))}")
        state.detectors = {slug: _OF_DETECTOR[slug].validate_python(own) for slug, own in state.detectors.items()}
        if nameless := [key for key, history in state.evidence.links.items() if not history.ends()]:
            raise Reject(f"not a snapshot of correlate: links without an end: {', '.join(sorted(nameless)[:3])}")
        snapshot(state)  # integers beyond 64 bits can be read but not written; fail now
    except (orjson.JSONDecodeError, ValidationError, TypeError) as error:
        raise Reject(f"not a snapshot of correlate: {error}") from error
    return state


@dataclass(slots=True)
class MovedState:
    """All state under one key, and its present pod."""

    key: str
    former_pod: str
    pod: str
    state: CorrelateState = field(default_factory=CorrelateState)


def take_moved(
    state: CorrelateState, old: Topology | None, new: Topology, sides: Mapping[str, PodSide[Any, Any]]
) -> list[MovedState]:
    """Remove from a state everything that belongs to another pod in `new`, and return it by key.

    `old` is None if the topology of the state is unknown; then only links move, whose state has their pods.
    """
    moved: dict[str, MovedState] = {}

    def part(key: str, from_pod: str, to_pod: str) -> CorrelateState | None:
        if not from_pod or not to_pod or from_pod == to_pod:
            return None
        return moved.setdefault(key, MovedState(key, from_pod, to_pod)).state

    for key, history in list(state.evidence.links.items()):
        taken = part(key, history.subject.pod, _pod_of_subject(new, history.subject))
        if taken is not None:
            taken.evidence.links[key] = state.evidence.links.pop(key)
            for end in history.ends():
                _copy_device(state, taken, end.device)
    for slug, states in state.detectors.items():
        side = sides[slug]
        for key in list(states):
            taken = moved[key].state if key in moved else part(key, *_pods(side, key, states[key], old, new))
            if taken is not None:
                taken.detectors.setdefault(slug, {})[key] = states.pop(key)
                _copy_device(state, taken, key.partition("/")[0])
    return list(moved.values())


def _pods(side: PodSide[Any, Any], key: str, state: Any, old: Topology | None, new: Topology) -> tuple[str, str]:
    """Return the pods of a key under both topologies; empty if the key has no pod of its own."""
    if side.scope is Scope.LINK and side.subject_of is not None:
        subject = side.subject_of(state)
        return subject.pod, _pod_of_subject(new, subject)
    if old is None:
        return "", ""
    if side.scope is Scope.DEVICE:
        return old.pod_of(key), new.pod_of(key)
    if side.scope is Scope.PORT:
        device, _, port = key.partition("/")
        return old.home_pod(Port(device, port)), new.home_pod(Port(device, port))
    return "", ""


def _pod_of_subject(topology: Topology, subject: Subject) -> str:
    ends = subject_ends(subject)
    return topology.home_pod(Port(ends[0].device, ends[0].port)) if ends else ""


def _copy_device(state: CorrelateState, taken: CorrelateState, device: str) -> None:
    """Copy the restarts and silent sources of a device, because its other links need them too."""
    if device in state.evidence.restarts:
        taken.evidence.restarts[device] = state.evidence.restarts[device]
    if device in state.evidence.silent:
        taken.evidence.silent[device] = state.evidence.silent[device]
