"""Defines the state of `decide`, as it is stored in snapshots."""

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
"""The actor of transitions that no person and no automation caused."""


@dataclass(slots=True)
class Order:
    """A repair or a restore of a target that is out of service: a remediation with an id of its own."""

    record: Remediation
    issued_ns: int
    accepted_by: str = ""


@dataclass(slots=True)
class Remedy:
    """One remediation: its last revision, and what the next transitions depend on."""

    record: Remediation
    finding: Finding | None
    """The newest finding that it acts on; None after the state was lost, until the finding is read again."""
    since_ns: int
    """The time at which it entered its state."""
    accepted_by: str = ""
    accepted_ns: int = 0
    refusal: str = ""
    """The reason of an automation that cannot carry it out; another one may still accept it."""
    answered: bool = False
    """The acceptor sent its final result."""
    unanswered: bool = False
    """It was accepted and its result is unknown: NO_ANSWER, and ESCALATED after that."""
    released: bool = False
    """Its ports showed that it was not carried out; a late result of its acceptor counts all the same."""
    was_approved: bool = False
    isolates: bool = False
    """Its target counts as out of service because of it: from APPROVED until the restore is done."""
    pod: str = ""
    restoring: bool = False
    """It qualified; the restore is retried until it is done, while it qualifies."""
    rejected: bool = False
    """A person rejected it; only another severity, cause or action leads to the next attempt."""
    is_relapse: bool = False
    relapses: int = 0
    failures: int = 0
    restarts: int = 0
    """Restarts of the cordoned host that automation answered, also of the attempts before."""
    restart_denied_by: str = ""
    """The guard that denies the next restart, as published."""
    policy_hint: str = ""
    """The hint of the policy, while no other step follows."""
    tried_steps: list[RepairStep] = field(default_factory=list)
    """Repair steps that did not help."""
    done_step: RepairStep = RepairStep.STEP_UNSPECIFIED
    """The step of the last reported repair."""
    order: Order | None = None
    retry_ns: int = 0
    """No restore is issued before this time."""
    handled: list[str] = field(default_factory=list)
    """Controls of persons that were processed; their repetition has no effect."""

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def state(self) -> RemediationState:
        return self.record.state

    @property
    def waits_for_person(self) -> bool:
        """True if its last relapse escalated it; only an answer of a person ends that."""
        return self.state is RemediationState.ESCALATED and self.record.verdict is Verdict.NEEDS_APPROVAL

    @property
    def target_id(self) -> str:
        return self.record.target.id

    @property
    def is_out(self) -> bool:
        """Return whether the target is out of service, or may be, because of this remediation."""
        return self.isolates or self.restoring


@dataclass(slots=True)
class Case:
    """One open finding with its remediation, made or due."""

    finding: Finding
    due_ns: int
    remedy: str = ""
    """The id of its newest remediation."""
    decided: tuple[Action, Severity, Cause] | None = None
    """The basis of the newest decision."""


@dataclass(slots=True)
class Ended:
    """A finding that had its final revision, so that an older revision that arrives late is recognised."""

    revision: int
    at_ns: int


@dataclass(slots=True)
class DecideState:
    """All state of the stage."""

    watermark_ns: int = 0
    cases: dict[str, Case] = field(default_factory=dict)
    ended: dict[str, Ended] = field(default_factory=dict)
    remedies: dict[str, Remedy] = field(default_factory=dict)
    """Remediations that are not CLOSED, by id."""
    late: dict[str, Remedy] = field(default_factory=dict)
    """CLOSED remediations that were approved and not accepted, or released: automation may still act."""
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
    """The time at which the guards were last evaluated again for all that they had denied."""
    evaluated_from: int = 0
    """The first of the less urgent denied decisions that is evaluated again next."""
    is_changed: bool = False
    """Controls, isolations or answers changed since then."""

    def to_bytes(self) -> bytes:
        """Return the state as JSON."""
        return orjson.dumps(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> "DecideState":
        """Return the state of a snapshot; raises Reject where it is none."""
        try:
            refuse_unknown_fields("decide", cls, orjson.loads(data))
            state = _ADAPTER.validate_json(data)
            state.to_bytes()  # numbers beyond 64 bits are read, and end the stage when they are written
        except (orjson.JSONDecodeError, ValidationError, TypeError) as error:
            raise Reject(f"the data is not a snapshot of decide: {error}") from error
        return state


_ADAPTER = TypeAdapter(DecideState)
