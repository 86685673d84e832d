"""Defines the state of `decide`, as it is stored in snapshots."""

from dataclasses import dataclass, field
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from streams.wire.errors import Reject
from streams.wire.models import Finding, Remediation


@dataclass(slots=True)
class Case:
    """One finding with decisions, made or due."""

    finding: Finding
    due_ns: int
    decided: str = ""
    """The remediation's id, once there is one."""


@dataclass(slots=True)
class DecideState:
    """All state of the stage."""

    watermark_ns: int = 0
    cases: dict[str, Case] = field(default_factory=dict)
    remediations: dict[str, Remediation] = field(default_factory=dict)
    """Open remediations by id."""
    unanswered: dict[str, Remediation] = field(default_factory=dict)
    """Revoked or expired remediations that may still be carried out."""
    drained: dict[str, str] = field(default_factory=dict)
    """Link id -> the remediation that took it out of service."""
    acted_ns: dict[str, int] = field(default_factory=dict)
    """Target id -> when it was last acted on or restored."""
    links: dict[str, Any] = field(default_factory=dict)
    """The state of LinkStates, as of the snapshot."""
    kill_switches: dict[str, int | None] = field(default_factory=dict)
    """Control id -> end of the kill switch."""

    def to_bytes(self) -> bytes:
        """Return the state as JSON."""
        return orjson.dumps(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> "DecideState":
        """Return the state of a snapshot; raises Reject where it is none."""
        try:
            return _ADAPTER.validate_json(data)
        except ValidationError as error:
            raise Reject(f"the data is not a snapshot of decide: {error}") from error


_ADAPTER = TypeAdapter(DecideState)
