"""Defines the state of `decide` in snapshots, with the isolations: targets that are out of service, and their history.

A target counts as isolated from the decision until its restore is complete, because reports of automation can be lost.
No answer removes an entry of the history, so a FAILED result does not shorten a cool-down.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import cramjam
import orjson
from pydantic import TypeAdapter, ValidationError

from streams.decide.controls import Identity
from streams.decide.repair_steps import RepairCounts
from streams.fabric.decompression import DecompressionLimit, zstd
from streams.wire.errors import Reject
from streams.wire.models import (
    Action,
    Cause,
    Control,
    Finding,
    Remediation,
    RemediationState,
    RepairStep,
    SchedulerAnswer,
    Severity,
    Verdict,
)
from streams.wire.stage import refuse_unknown_fields

_MAX_BYTES = 256 << 20

WEEK_S = 604_800
"""The history of a target is retained for a week, the longest interval of a budget (UFM: two resets a week)."""


class TargetKind(StrEnum):
    """The kind of a target; a relative cap counts the targets of one kind."""

    LINK = "link"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class Isolation:
    """One target that is out of service."""

    kind: TargetKind
    pod: str
    since_ns: int


@dataclass(slots=True)
class Isolations:
    """All isolations and their history; plain values, stored in the snapshot."""

    active: dict[str, Isolation] = field(default_factory=dict)
    """Target id -> its isolation, from the decision until the restore."""
    started_ns: dict[str, list[int]] = field(default_factory=dict)
    """Target id -> the times of its isolations."""
    resets_ns: dict[str, list[int]] = field(default_factory=dict)
    """Target id -> the times of its NIC resets."""
    changed_ns: dict[str, int] = field(default_factory=dict)
    """Target id -> the time of its last isolation, reset or restore."""
    version: int = 0
    """Increases when a target is isolated or restored, so that readers can cache results."""

    def isolate(self, target: str, kind: TargetKind, pod: str, at_ns: int) -> None:
        """Record that a target is taken out of service; no effect if it already is."""
        if target not in self.active:
            self.active[target] = Isolation(kind, pod, at_ns)
            self.version += 1
            self.started_ns.setdefault(target, []).append(at_ns)
        self._change(target, at_ns)

    def rename(self, moved: Mapping[str, str]) -> None:
        """Move all entries of targets to their present names."""
        self.active = {moved.get(target, target): own for target, own in self.active.items()}
        self.changed_ns = {moved.get(target, target): own for target, own in self.changed_ns.items()}
        for history in (self.started_ns, self.resets_ns):
            entries = [(moved.get(target, target), times) for target, times in history.items()]
            history.clear()
            for target, times in entries:
                history.setdefault(target, []).extend(times)
        self.version += 1

    def reset(self, target: str, at_ns: int) -> None:
        """Record a NIC reset."""
        self.resets_ns.setdefault(target, []).append(at_ns)
        self._change(target, at_ns)

    def restored(self, target: str, at_ns: int) -> None:
        """Record that a target is back in service; the history remains."""
        if self.active.pop(target, None) is not None:
            self.version += 1
            self._change(target, at_ns)

    def count(self, kind: TargetKind | None = None, pod: str | None = None) -> int:
        """Return the number of isolated targets, optionally of one kind or one pod."""
        found = self.active.values()
        return sum((kind is None or one.kind == kind) and (pod is None or one.pod == pod) for one in found)

    def count_started(self, after_ns: int, target: str | None = None) -> int:
        """Return the number of isolations that started after a time, of one target or of all targets."""
        return _count_after(self.started_ns, after_ns, target)

    def count_resets(self, after_ns: int, target: str | None = None) -> int:
        """Return the number of NIC resets after a time, of one target or of all targets."""
        return _count_after(self.resets_ns, after_ns, target)

    def prune(self, now_ns: int) -> None:
        """Evict history that is older than a week."""
        oldest_ns = now_ns - WEEK_S * 1_000_000_000
        for history in (self.started_ns, self.resets_ns):
            for target, times in list(history.items()):
                retained = [at_ns for at_ns in times if at_ns > oldest_ns]
                if retained:
                    history[target] = retained
                else:
                    del history[target]
        for target, at_ns in list(self.changed_ns.items()):
            if at_ns <= oldest_ns:
                del self.changed_ns[target]

    def _change(self, target: str, at_ns: int) -> None:
        self.changed_ns[target] = max(at_ns, self.changed_ns.get(target, at_ns))


def _count_after(history: dict[str, list[int]], after_ns: int, target: str | None) -> int:
    selected = history.values() if target is None else (history.get(target, []),)
    return sum(at_ns > after_ns for times in selected for at_ns in times)


ACTOR = "decide"
"""The actor of transitions that neither a person nor automation caused."""


@dataclass(slots=True)
class Order:
    """A repair or a restore of a target that is out of service: a remediation with its own id."""

    record: Remediation
    issued_ns: int
    accepted_by: str = ""


@dataclass(slots=True)
class PastOrder:
    """An order that ended without the result of the automation that accepted it; a late result still counts."""

    action: Action
    accepted_by: str
    instance: str = ""
    is_outdated: bool = False
    """True of a restore, if a repair was accepted after it: the order in which both were carried out is unknown."""
    is_done: bool = False
    """True if its DONE arrived while such a repair had no result."""


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
    out_ns: int = 0
    """The time at which its first result was known; a job that starts later shows that the host is in service."""
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
    may_carry: bool = False
    """True after a late answer took a target in service out again: its repair needs capacity like a drain."""
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
    """The guard that denies the next repair or restart, as last published."""
    policy_hint: str = ""
    """The hint of the policy, while no repair step follows."""
    tried_steps: list[RepairStep] = field(default_factory=list)
    """Repair steps that did not help."""
    done_step: RepairStep = RepairStep.STEP_UNSPECIFIED
    """The step of the last reported repair."""
    order: Order | None = None
    retry_ns: int = 0
    """The earliest time of the next order."""
    order_failures: int = 0
    """Orders in a row that failed or had no answer, since the last repair or restore that was done."""
    unhelpful: int = 0
    """Repairs after which the target did not qualify, without another known step."""
    repaired_ns: int = 0
    """The time of the last reported repair; only readings after it prove that it helped."""
    requested_ns: int = 0
    """The time of the newest request for readings of its target."""
    past_orders: dict[str, PastOrder] = field(default_factory=dict)
    """Order id -> an accepted order without a result that is not open any more."""
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
    rejected: list[tuple[Action, Severity, Cause]] = field(default_factory=list)
    """The inputs of the decisions that a person rejected; they are not decided again."""


@dataclass(slots=True)
class CaseMemory:
    """A case as the records of its remediations have it."""

    revision: int
    """The revision of the finding; older ones have been processed."""
    remedy: str = ""
    leads: bool = False
    """True if its remediation acts on this finding, and not on another that joined it."""
    decided: tuple[Action, Severity, Cause] | None = None
    rejected: list[tuple[Action, Severity, Cause]] = field(default_factory=list)


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
    """CLOSED remediations on which automation may still act, or of which it may still answer."""
    attempts: dict[str, dict[str, int]] = field(default_factory=dict)
    """First finding id -> action -> the highest attempt."""
    remembered: dict[str, CaseMemory] = field(default_factory=dict)
    """Finding id -> its case, after a loss of state and until the finding is read again."""
    deferred: list[str] = field(default_factory=list)
    """Ids of the approvals that wait until the finding of their remediation is read again."""
    isolations: Isolations = field(default_factory=Isolations)
    repairs: RepairCounts = field(default_factory=RepairCounts)
    modules: str = ""
    """The state of ModuleParts, as of the snapshot."""
    controls: list[Control] = field(default_factory=list)
    identities: dict[str, Identity] = field(default_factory=dict)
    """Target id -> its identity, for the targets of remediations and isolations."""
    control_identities: dict[str, Identity] = field(default_factory=dict)
    """Control id -> the identity of its subject, as of the snapshot; in those of earlier versions by subject."""
    schedulers: dict[str, SchedulerAnswer] = field(default_factory=dict)
    """Scheduler -> how well it answers."""
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
        """Return the state as compressed JSON.

        A third of the bytes: each transaction has the whole state, 3.9 MB of JSON with 25,000 findings a day.
        """
        return bytes(cramjam.zstd.compress(orjson.dumps(self), 1))

    @classmethod
    def from_bytes(cls, data: bytes) -> "DecideState":
        """Return the state of a snapshot; raises Reject on invalid data."""
        try:
            text = data if data[:1] == b"{" else zstd(data, _MAX_BYTES)  # earlier versions wrote plain JSON
            refuse_unknown_fields("decide", cls, orjson.loads(text))
            state = _ADAPTER.validate_json(text)
            orjson.dumps(state)  # integers beyond 64 bits can be read but not written; fail now
        except (orjson.JSONDecodeError, DecompressionLimit, ValidationError, TypeError) as error:
            raise Reject(f"the data is not a snapshot of decide: {error}") from error
        return state


_ADAPTER = TypeAdapter(DecideState)
