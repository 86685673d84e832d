"""Defines the state of `decide` in snapshots."""

from dataclasses import dataclass, field
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from streams.decide.isolations import Isolations
from streams.decide.repair_steps import RepairCounts
from streams.wire.errors import Reject
from streams.wire.models import (
    Action,
    Cause,
    Control,
    Finding,
    Remediation,
    RemediationState,
    RepairStep,
    Severity,
    Verdict,
)
from streams.wire.stage import refuse_unknown_fields

ACTOR = "decide"
"""The actor of transitions that neither a person nor automation caused."""


@dataclass(slots=True)
class Order:
    """A repair or a restore of a target that is out of service: a remediation with its own id."""

    record: Remediation
    issued_ns: int
    accepted_by: str = ""


@dataclass(slots=True)
class Remedy:
    """One remediation: its last revision, and the inputs of its next transitions."""

    record: Remediation
    finding: Finding | None
    """The newest finding that it acts on; None after a loss of state, until the finding is read again."""
    since_ns: int
    """The time at which it entered its state."""
    accepted_by: str = ""
    accepted_ns: int = 0
    refusal: str = ""
    """The reason of an automation that cannot carry it out; another automation may still accept it."""
    answered: bool = False
    """True after the acceptor sent its final result."""
    unanswered: bool = False
    """True if it was accepted and its result is unknown: NO_ANSWER, and ESCALATED after that."""
    released: bool = False
    """True if its ports showed that it was not carried out; a late result of its acceptor still counts."""
    was_approved: bool = False
    isolates: bool = False
    """True while its target counts as out of service because of it: from APPROVED until the restore is complete."""
    pod: str = ""
    restoring: bool = False
    """True after it qualified; the restore is retried until it succeeds, while the target qualifies."""
    rejected: bool = False
    """True after a person rejected it; only another severity, cause or action leads to the next attempt."""
    is_relapse: bool = False
    relapses: int = 0
    failures: int = 0
    restarts: int = 0
    """Restarts of the cordoned host that automation answered, including those of earlier attempts."""
    restart_denied_by: str = ""
    """The guard that denies the next restart, as last published."""
    policy_hint: str = ""
    """The hint of the policy, while no repair step follows."""
    tried_steps: list[RepairStep] = field(default_factory=list)
    """Repair steps that did not help."""
    done_step: RepairStep = RepairStep.STEP_UNSPECIFIED
    """The step of the last reported repair."""
    order: Order | None = None
    retry_ns: int = 0
    """The earliest time of the next restore."""
    handled: list[str] = field(default_factory=list)
    """Ids of processed controls of persons; their repetition has no effect."""

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def state(self) -> RemediationState:
        return self.record.state

    @property
    def waits_for_person(self) -> bool:
        """True if its last relapse escalated it; only a person's answer ends that."""
        return self.state is RemediationState.ESCALATED and self.record.verdict is Verdict.NEEDS_APPROVAL

    @property
    def target_id(self) -> str:
        return self.record.target.id

    @property
    def is_out(self) -> bool:
        """Return whether the target is or may be out of service because of this remediation."""
        return self.isolates or self.restoring


@dataclass(slots=True)
class Case:
    """One open finding with its remediation, if that is decided."""

    finding: Finding
    due_ns: int
    remedy: str = ""
    """The id of its newest remediation."""
    decided: tuple[Action, Severity, Cause] | None = None
    """The inputs of the newest decision."""


@dataclass(slots=True)
class Ended:
    """A finding after its final revision, retained so that a late older revision is recognised."""

    revision: int
    at_ns: int


@dataclass(slots=True)
class DecideState:
    """The whole state of the stage."""

    watermark_ns: int = 0
    cases: dict[str, Case] = field(default_factory=dict)
    ended: dict[str, Ended] = field(default_factory=dict)
    remedies: dict[str, Remedy] = field(default_factory=dict)
    """Remediations that are not CLOSED, by id."""
    late: dict[str, Remedy] = field(default_factory=dict)
    """CLOSED remediations that were approved and not accepted, or released; automation may still act on them."""
    attempts: dict[str, dict[str, int]] = field(default_factory=dict)
    """First finding id -> action -> the highest attempt."""
    isolations: Isolations = field(default_factory=Isolations)
    repairs: RepairCounts = field(default_factory=RepairCounts)
    modules: str = ""
    """The state of ModuleParts, as of the snapshot."""
    controls: list[Control] = field(default_factory=list)
    links: dict[str, Any] = field(default_factory=dict)
    """The state of LinkStates, as of the snapshot."""
    traffic: list[list[Any]] = field(default_factory=list)
    """The state of LinkTraffic, as of the snapshot."""
    evaluated_ns: int = 0
    """The last time at which the guards were evaluated again for all denied decisions."""
    evaluated_from: int = 0
    """The index of the less urgent denied decision that is evaluated again next."""
    is_changed: bool = False
    """True if controls, isolations or answers changed since then."""

    def to_bytes(self) -> bytes:
        """Return the state as JSON."""
        return orjson.dumps(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> "DecideState":
        """Return the state of a snapshot; raises Reject on invalid data."""
        try:
            refuse_unknown_fields("decide", cls, orjson.loads(data))
            state = _ADAPTER.validate_json(data)
            state.to_bytes()  # integers beyond 64 bits can be read but not written; fail now
        except (orjson.JSONDecodeError, ValidationError, TypeError) as error:
            raise Reject(f"the data is not a snapshot of decide: {error}") from error
        return state


_ADAPTER = TypeAdapter(DecideState)
