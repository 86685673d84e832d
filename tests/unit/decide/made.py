"""What the tests of decide have in common: findings of a small fabric, a stage, and what it said."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from streams.decide.params import DecideParams
from streams.decide.stage import Decide
from streams.wire.models import (
    Condition,
    Endpoint,
    Finding,
    Outcome,
    Remediation,
    RemediationResult,
    Severity,
    Status,
    Subject,
)
from streams.wire.stage import Output
from streams.wire.topics import REMEDIATIONS, REMEDIATIONS_OPEN
from tests.worlds.observations import at
from tests.worlds.small_fabric import topology

TOP = topology()


def _subject(port: str) -> Subject:
    device, _, name = port.partition("/")
    if not name:
        return Subject(f"device:{device}", Endpoint(device))
    cable = TOP.cable_at(TOP.port(device, name))
    assert cable is not None
    return Subject(cable.id, Endpoint(*cable.lower), Endpoint(*cable.upper), cable.role)


def finding(port: str, condition: Condition = Condition.LINK_FLAP, t: float = 0, **more: Any) -> Finding:
    """An open finding that is known for as long as it exists; a flap is its second."""
    identity, subject = f"{condition.name}/{port}/{t}", _subject(port)
    own = Finding(
        identity, 1, False, condition, Status.OPEN, Severity.WARNING, subject, at(t), at(t),
        detected_at_ns=at(t), occurrences=2, detector=condition.slug, summary="it broke",
    )  # fmt: skip
    return replace(own, **more)


def deciding(mode: str = "act", **more: Any) -> Decide:
    stage = Decide(DecideParams.model_validate({"mode": mode, **more}))
    stage.begin(1)
    stage.adopt(TOP)
    return stage


def remediations(outputs: Sequence[Output]) -> list[Remediation]:
    return [o.message for o in outputs if o.topic is REMEDIATIONS and isinstance(o.message, Remediation)]


def taken_out(outputs: Sequence[Output]) -> list[str | None]:
    return [o.key for o in outputs if o.topic is REMEDIATIONS_OPEN and o.message is None]


def decisions(stage: Decide, *findings: Finding, t: float = 10) -> list[Remediation]:
    return remediations([*stage.process(findings), *stage.advance(at(t))])


def answer(own: Remediation, outcome: Outcome = Outcome.DONE, t: float | None = None) -> RemediationResult:
    return RemediationResult(own.id, outcome, at(t) if t is not None else None, "netbot")


def ended(own: Finding, *, revision: int = 2, final: bool = False) -> Finding:
    return replace(own, revision=revision, status=Status.RESOLVED, resolved_at_ns=at(500), final=final)
