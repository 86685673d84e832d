"""The state of `correlate`: shared evidence, and the states of all detectors by slug and key; its snapshot."""

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
    """Everything that outlives a process, of the pods of one partition."""

    watermark_ns: int = 0
    evidence: SharedEvidence = field(default_factory=SharedEvidence)
    detectors: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Slug -> key of its scope -> state. On a healthy fabric there is none."""
    transfers: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    """By key of the state, the last transfer that was received, as a sender that restarts repeats it: the former pod,
    the version of the inventory, and its time."""
    added_epochs: int = 0
    """Added to the owner's epoch in revisions, so that they are higher than those of the episodes it received."""


_STATE = TypeAdapter(CorrelateState)
_OF_DETECTOR: dict[str, TypeAdapter[dict[str, Any]]] = {
    detector.slug: TypeAdapter(dict[str, detector.pod.state])  # type: ignore[name-defined]
    for detector in DETECTORS
    if detector.pod is not None
}


def snapshot(state: CorrelateState) -> bytes:
    """Return JSON, as `restore` reads it."""
    detectors = {slug: own for slug, own in state.detectors.items() if own}
    return orjson.dumps(replace(state, detectors=detectors), option=orjson.OPT_NON_STR_KEYS)


def restore(data: bytes) -> CorrelateState:
    """Return the state of a snapshot; Reject where it is none, or has a detector that does not exist."""
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
        snapshot(state)  # numbers beyond 64 bits are read, and end the stage when they are written
    except (orjson.JSONDecodeError, ValidationError, TypeError) as error:
        raise Reject(f"not a snapshot of correlate: {error}") from error
    return state


@dataclass(slots=True)
class MovedState:
    """All that is retained under one key, and the pod to which it belongs now."""

    key: str
    former_pod: str
    pod: str
    state: CorrelateState = field(default_factory=CorrelateState)


def take_moved(
    state: CorrelateState, old: Topology | None, new: Topology, sides: Mapping[str, PodSide[Any, Any]]
) -> list[MovedState]:
    """Remove what belongs to another pod in `new` from a state, and return it by key.

    `old` is None where the topology of the state is not known: then only links move, which have their pods.
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
    """Return the pods of a key under both topologies; empty where it has none of its own."""
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
    """Copy the restarts and the silent sources of a device, which other links of it need as well."""
    if device in state.evidence.restarts:
        taken.evidence.restarts[device] = state.evidence.restarts[device]
    if device in state.evidence.silent:
        taken.evidence.silent[device] = state.evidence.silent[device]
