"""Settings of `decide`: its mode and the limits of its guards."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from streams.decide.qualification import QualificationParams
from streams.decide.state import WEEK_S


class DecideParams(BaseModel):
    """Settings of `[decide]`. By default remediations are shadow, so they have no effect."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Literal["shadow", "act"] = "shadow"
    """`shadow`: decisions are published and none is approved; `act`: decisions that pass the guards are approved."""
    policy: Path | None = None
    """The file of the policy (TOML); by default the one of railsight (streams/decide/policy.toml)."""

    trusted_keys: tuple[str, ...] = ()
    """Public keys (`railsight key show`). If any are set, a control or a result that is not signed by one of them is
    rejected."""

    signing_key: Path | None = None
    """The file of the private key with which `decide` signs remediations, and the commands sign controls."""

    settle_s: ClassVar[float] = 10
    """A finding is decided only after this age (DESIGN 2.2), when its parent is known, if it has one."""

    confidence_floor: ClassVar[float] = 0.8
    """Findings below this need approval (choice). A link finding has 0.95 with both ends and 0.6 with one."""

    cadence_s: Annotated[float, Field(gt=0)] = 10
    """The longest interval between two observations of a device by the configured collectors."""

    freshness_s: ClassVar[float] = 30
    """No action on a target whose last observation is older than this and than three cadences (DESIGN 2)."""

    capacity_floor: Annotated[float, Field(ge=0, le=1)] = 0.75
    """The minimum share of uplink paths that a group retains; CorrOpt (SIGCOMM'17) evaluated 50 % and 75 %."""

    dead_s: ClassVar[float] = 1800
    """A switch that device/down reports for longer than this is dead, and its floor no longer denies drains above it.
    Half an hour (choice) is longer than a restart, after which its floor counts again."""

    optimizer_checks: ClassVar[int] = 200
    """Capacity checks of the optimizer to improve on the selection by penalty (choice: 0.1 s at most for a part of the
    largest fabric; CorrOpt's complete search takes hours)."""

    fabric_cap: Annotated[int, Field(ge=0)] = 10
    """Targets that may be isolated at once in the fabric; UFM isolates 10 ports at once."""

    fabric_cap_ratio: Annotated[float, Field(ge=0, le=1)] = 0.005
    """`fabric_cap` as a ratio of all links or hosts of the fabric, rounded up; the smaller cap binds (UFM's README
    takes the larger)."""

    pod_cap: Annotated[int, Field(ge=0)] = 2
    """Targets that may be isolated at once in a pod (choice)."""

    pod_cap_ratio: Annotated[float, Field(ge=0, le=1)] = 0.05
    """`pod_cap` as a ratio of all links or hosts of the pod, rounded up (choice)."""

    actions_per_hour: Annotated[int, Field(ge=0)] = 10
    """Isolations and resets within any hour in the fabric (choice)."""

    isolation_budget: Annotated[int, Field(ge=0)] = 3
    """Isolations of one target within `isolation_budget_s`; SONiC allows three isolations of a link in two hours."""

    isolation_budget_s: ClassVar[float] = 7200
    """The interval of `isolation_budget`."""

    reset_budget: Annotated[int, Field(ge=0)] = 2
    """Resets of one NIC within `reset_budget_s`; UFM allows two resets a week."""

    reset_budget_s: ClassVar[float] = WEEK_S
    """The interval of `reset_budget`."""

    cool_down_s: Annotated[float, Field(ge=0)] = 600
    """Minimum time between two actions on a target, from the decision or its reversal (choice; UFM waits 300 s before
    it reverses an isolation)."""

    accept_unread_hosts: bool = False
    """The switch's end alone proves that a host's link carries, if no source ever read a port of the host: for fabrics
    without collectors on hosts. Such evidence is one-sided."""

    qualification: QualificationParams = QualificationParams()
    """The proof that a link needs before it carries traffic again."""

    proposed_s: ClassVar[float] = 60
    """A proposal waits this long for the controls to be read; then it is denied. The times of the life cycle, from here
    to `max_relapses`, are choices."""

    approval_s: Annotated[float, Field(gt=0)] = 3600
    """A decision that does not receive the approval it needs expires after this time."""

    expires_s: ClassVar[float] = 300
    """An approval that no automation accepts within this time expires, because the fabric may have changed."""

    answer_s: ClassVar[float] = 600
    """An accepted action without a result within this time has an unknown result: it counts as carried out."""

    idle_bps: ClassVar[float] = 1e8
    """A port that receives less carries no traffic: a thousandth of 100 Gb/s, more than routing and LLDP send."""

    not_drained_s: ClassVar[float] = 900
    """A drain without an answer was not carried out if both ends carry traffic for this time after `answer_s`."""

    no_answer_s: ClassVar[float] = 3600
    """A person must act after the result has been unknown for this time."""

    failed_s: ClassVar[float] = 3600
    """An action that failed and is not retried within this time waits for a person."""

    max_attempts: ClassVar[int] = 3
    """Attempts of a failing action; after them it waits for a person."""

    repair_s: Annotated[float, Field(gt=0)] = 345_600
    """A target without a reported repair waits for a person after this time; repairs take up to four days (CorrOpt)."""

    verify_s: ClassVar[float] = 3600
    """A target that does not qualify within this time after its repair is repaired again, by the next hint."""

    restore_s: ClassVar[float] = 3600
    """A restore without success within this time is escalated; it is retried until it succeeds."""

    restore_retry_s: ClassVar[float] = 60
    """Pause before a failed restore is retried."""

    probation_s: ClassVar[float] = 3600
    """A restored target is watched for this time; if its fault is back, it is drained at once."""

    max_relapses: ClassVar[int] = 3
    """After this number of relapses a target waits for a person."""

    page_again_s: ClassVar[float] = 86_400
    """An escalated remediation is published again after this time."""

    retained_s: ClassVar[float] = 86_400
    """A denied, expired or shadow decision is closed after this time."""

    evaluate_s: ClassVar[float] = 10
    """Denied decisions are evaluated again after this time, because capacity, rates and cool-downs change with time. A
    change of the controls or the isolations evaluates them at once."""

    @field_validator("trusted_keys")
    @classmethod
    def _are_public_keys(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        if keys:
            from streams.wire.signatures import parse_public_key

            for key in keys:
                parse_public_key(key)
        return keys

    @property
    def freshness_limit_s(self) -> float:
        """Return the age from which an observation is stale."""
        return max(self.freshness_s, 3 * self.cadence_s)
