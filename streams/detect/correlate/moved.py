"""Selects the state that an inventory gives to another pod: of links, and of the parts and devices in their scopes.

A state of a whole pod stays: the pod has other members now, and its episodes end without the evidence of those.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streams.detect.correlate.state import CorrelateState
from streams.detect.detector import PodSide, Scope
from streams.detect.evidence.subjects import subject_ends
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import Subject


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
