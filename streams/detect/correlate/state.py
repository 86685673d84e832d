"""The state of `correlate`: shared evidence, and the states of all detectors by slug and key; its snapshot."""

from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from streams.detect.detectors import DETECTORS
from streams.detect.evidence.shared import SharedEvidence
from streams.wire.errors import Reject
from streams.wire.snapshot_fields import refuse_unknown_fields


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
