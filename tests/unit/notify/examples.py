"""Findings and controls as the notifier's tests use them: a host link of pod-1 that is down, and what is said of it."""

from dataclasses import replace
from typing import Any

from streams.notify.params import NotifyParams
from streams.wire.models import (
    BlastRadius,
    Cause,
    Condition,
    Control,
    ControlKind,
    Endpoint,
    Evidence,
    Finding,
    Severity,
    Status,
    Subject,
)

S = 1_000_000_000
T0 = 1_800_000_000 * S
LINK = "link:host-1/eth4--leaf-2/Ethernet1/1"

_LINK_DOWN = Finding(
    id="f1",
    revision=1,
    final=False,
    condition=Condition.LINK_DOWN,
    status=Status.OPEN,
    severity=Severity.CRITICAL,
    subject=Subject(
        LINK, Endpoint("host-1", "eth4"), Endpoint("leaf-2", "Ethernet1/1"), "host-link", 4, 0, "pod-1", team="fabric"
    ),
    started_at_ns=T0,
    observed_at_ns=T0 + 30 * S,
    detected_at_ns=T0 + 30 * S,
    summary="host-1 rail 4 has no link",
    cause=Cause.CABLE,
    evidence=(Evidence("host-1/eth4 lost carrier"), Evidence("leaf-2/Ethernet1/1 is down as well")),
    confidence=0.9,
    blast_radius=BlastRadius(("host-1",), ("llama-7",), 8, 0.125),
    detector="link/down",
)


def finding(**changes: Any) -> Finding:
    """The example with these fields changed."""
    return replace(_LINK_DOWN, **changes)


def resolved(revision: int = 9, at_ns: int = T0 + 90 * S, status: Status = Status.RESOLVED) -> Finding:
    """The example's last revision."""
    return finding(revision=revision, status=status, resolved_at_ns=at_ns, final=True)


def control(kind: ControlKind, subject_id: str, at_ns: int | None = None, until_ns: int | None = None) -> Control:
    """A control of this kind; its id is its kind's name."""
    return Control(kind.name, kind, subject_id, at_ns, until_ns, "anna")


def params(**settings: Any) -> NotifyParams:
    """The defaults with these settings changed."""
    return NotifyParams.model_validate(settings)
