"""Builds the log records of OTLP: one for each revision of a finding or a remediation.

Attributes have OpenTelemetry's names where it has one, else the prefix `railsight.`. `log.record.uid` is the id and the
revision, by which a receiver drops a record that an attempt without an answer delivered twice.
"""

from streams.wire.models import Cause, Finding, Remediation, RemediationState, Severity, Subject
from streams.wire.otlp_messages import LogRow, Value

_SEVERITY = {Severity.INFO: (9, "INFO"), Severity.WARNING: (13, "WARN"), Severity.CRITICAL: (21, "FATAL")}
"""OpenTelemetry's number and short name of a severity; CRITICAL is above ERROR, which is 17."""

_NEEDS_A_PERSON = frozenset(
    (RemediationState.WAITING, RemediationState.FAILED, RemediationState.NO_ANSWER, RemediationState.ESCALATED)
)


def log_row(message: Finding | Remediation, arrived_ns: int) -> LogRow:
    """Return the log record of a revision, which Kafka had at `arrived_ns`."""
    if isinstance(message, Finding):
        return _of_finding(message, arrived_ns)
    return _of_remediation(message, arrived_ns)


def _of_finding(finding: Finding, arrived_ns: int) -> LogRow:
    number, name = _SEVERITY.get(finding.severity, _SEVERITY[Severity.INFO])
    radius = finding.blast_radius
    attributes: dict[str, Value | None] = {
        **_identity(finding, finding.condition.slug, finding.status.name.lower()),
        **_place(finding.subject),
        "railsight.cause": _cause(finding.cause),
        "railsight.parent_id": finding.parent_id,
        "railsight.confidence": finding.confidence,
        "railsight.final": finding.final,
        "railsight.shadow": finding.shadow,
        "railsight.started_at_unix_nano": finding.started_at_ns,
        "railsight.resolved_at_unix_nano": finding.resolved_at_ns,
        "railsight.evidence": tuple(one.statement for one in finding.evidence) or None,
    }
    if radius is not None:
        attributes |= {
            "railsight.affected.hosts": radius.hosts or None,
            "railsight.affected.jobs": radius.jobs or None,
            "railsight.affected.gpus": radius.gpus,
            "railsight.affected.capacity_lost_ratio": radius.capacity_lost_ratio,
        }
    return LogRow(
        "railsight.finding",
        time_ns=finding.resolved_at_ns or finding.observed_at_ns,
        observed_ns=arrived_ns,
        severity=number,
        severity_text=name,
        body=finding.summary or f"{finding.condition.slug} on {finding.subject.id}",
        attributes=attributes,
    )


def _of_remediation(remediation: Remediation, arrived_ns: int) -> LogRow:
    number, name = _SEVERITY[Severity.WARNING if remediation.state in _NEEDS_A_PERSON else Severity.INFO]
    # A version without a life cycle has only the verdict.
    has_state = remediation.state is not RemediationState.STATE_UNSPECIFIED
    state = remediation.state.name if has_state else remediation.verdict.name
    action = remediation.action.name.lower()
    return LogRow(
        "railsight.remediation",
        time_ns=remediation.decided_at_ns or arrived_ns,
        observed_ns=arrived_ns,
        severity=number,
        severity_text=name,
        body=f"{action} of {remediation.target.id}: {state.lower()}",
        attributes={
            **_identity(remediation, action, state.lower()),
            **_place(remediation.target),
            "railsight.finding_ids": remediation.finding_ids or None,
            "railsight.verdict": remediation.verdict.name.lower(),
            "railsight.cause": _cause(remediation.cause),
            "railsight.reason": remediation.reason,
            "railsight.constraint": remediation.constraint,
            "railsight.attempt": remediation.attempt or None,
            "railsight.actor": remediation.actor,
            "railsight.repair_hint": remediation.repair_hint,
            "railsight.expires_at_unix_nano": remediation.expires_at_ns,
        },
    )


def _identity(message: Finding | Remediation, kind: str, state: str) -> dict[str, Value | None]:
    return {
        "log.record.uid": f"{message.id}/{message.revision}",
        "railsight.id": message.id,
        "railsight.revision": message.revision,
        "railsight.class": kind,
        "railsight.state": state,
    }


def _place(subject: Subject) -> dict[str, Value | None]:
    """Return the attributes of a subject; the hardware attributes are those of its first end."""
    a, z = subject.a, subject.z
    return {
        "hw.type": "network",
        "hw.id": subject.id,
        "host.name": a.device if a is not None else "",
        "network.interface.name": a.port if a is not None else "",
        "railsight.peer.host.name": z.device if z is not None else "",
        "railsight.peer.network.interface.name": z.port if z is not None else "",
        "railsight.role": subject.role,
        "railsight.rail": subject.rail,
        "railsight.plane": subject.plane,
        "railsight.pod": subject.pod,
        "railsight.site": subject.site,
        "railsight.team": subject.team,
    }


def _cause(cause: Cause) -> str:
    return "" if cause is Cause.CAUSE_UNSPECIFIED else cause.label
