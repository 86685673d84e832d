"""A finding as an alert of Alertmanager's API v2: its labels, what it says, when it begins and ends.

Labels are an alert's identity there, so they hold only what stays for the life of an episode, and the four that say
who hears of it: severity, page, explained and cause_id. When one of those changes, the notifier ends the old alert.
Who is paged, and when, is decided in notifier.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import urlencode

from streams.notify.params import NotifyParams
from streams.wire.models import BlastRadius, Finding, Status

SOURCE = "railsight"
"""The label `source` of our alerts: by it and `cluster` a restarted notifier finds what Alertmanager holds of ours."""

LOCATION_LABELS = ("subject", "pod", "rail", "plane")
"""Where it is: kept as first posted, so that an inventory that moves a pod does not page again."""

DASHBOARD_UID = "railsight-fabric"
"""Of dashboards/fabric.py; a test holds the two together."""

_NS = 1_000_000_000
_NAMED = 5  # hosts and jobs by name in one line of a pager


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. Times are Unix nanoseconds; `ends_at_ns` in the past means that it is over."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at_ns: int
    ends_at_ns: int
    generator_url: str = ""

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """What makes it the same alert to Alertmanager."""
        return tuple(sorted(self.labels.items()))

    def ended(self, at_ns: int, annotations: Mapping[str, str] | None = None) -> "Alert":
        """The same alert, over since then; never before it began, which Alertmanager refuses."""
        said = self.annotations if annotations is None else annotations
        return replace(self, annotations=said, ends_at_ns=max(at_ns, self.starts_at_ns))

    def to_api(self) -> dict[str, object]:
        """The `postableAlert` of the API."""
        posted: dict[str, object] = {
            "labels": dict(self.labels),
            "annotations": dict(self.annotations),
            "startsAt": rfc3339(self.starts_at_ns),
            "endsAt": rfc3339(self.ends_at_ns),
        }
        if self.generator_url:
            posted["generatorURL"] = self.generator_url
        return posted


def rfc3339(at_ns: int) -> str:
    """A time as the API writes it, to the millisecond: what it keeps."""
    seconds, nanos = divmod(at_ns, _NS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanos // 1_000_000:03d}Z"


def location_labels(finding: Finding) -> dict[str, str]:
    """The labels that say where; those without a value are left out, as Alertmanager would."""
    subject = finding.subject
    place = {
        "subject": subject.id,
        "pod": subject.pod,
        "rail": "" if subject.rail is None else str(subject.rail),
        "plane": "" if subject.plane is None else str(subject.plane),
    }
    return {name: value for name, value in place.items() if value}


def build_alert(finding: Finding, place: Mapping[str, str], *, page: bool, now_ns: int, params: NotifyParams) -> Alert:
    """The alert of an open finding, good until `expire_s` from now."""
    name = finding.condition.name
    labels = {
        "alertname": "".join(word.capitalize() for word in name.split("_")),
        "source": SOURCE,
        "cluster": params.cluster,
        "condition": finding.condition.slug,
        "severity": finding.severity.name.lower(),
        "finding_id": finding.id,
        "cause_id": finding.parent_id or finding.id,
        "explained": "true" if finding.parent_id else "false",
        "page": "true" if page else "false",
        **place,
    }
    return Alert(
        {label: value for label, value in labels.items() if value},
        build_annotations(finding, params),
        # A device's clock may be a little ahead; an alert that begins later than it ends is refused.
        starts_at_ns=min(finding.started_at_ns, now_ns),
        ends_at_ns=now_ns + round(params.expire_s * _NS),
        generator_url=params.finding_url.replace("{id}", finding.id),
    )


def build_annotations(finding: Finding, params: NotifyParams) -> dict[str, str]:
    """What the alert says, in plain text; those without a value are left out."""
    summary = finding.summary or f"{finding.condition.slug} on {finding.subject.id}"
    said = {
        "summary": f"Retracted, it was not so: {summary}" if finding.status is Status.RETRACTED else summary,
        "cause": finding.cause.label,
        "evidence": _evidence(finding, params.evidence_lines),
        "blast_radius": _blast_radius(finding.blast_radius),
        "unseen": ", ".join(finding.coverage.missing[:_NAMED]) if finding.coverage else "",
        "confidence": "" if finding.confidence is None else f"{finding.confidence:.2f}",
        "team": finding.subject.team,
        "explain": f"railsight explain {finding.id}",
        "finding_url": params.finding_url.replace("{id}", finding.id),
        "runbook_url": _runbook(finding, params.runbooks_url),
        "dashboard_url": finding.dashboard_url or _dashboard(finding, params.dashboard_url),
    }
    return {name: value for name, value in said.items() if value}


def _evidence(finding: Finding, lines: int) -> str:
    statements = [f"- {evidence.statement}" for evidence in finding.evidence]
    if len(statements) > lines:
        statements[lines:] = [f"- and {len(statements) - lines} more"]
    return "\n".join(statements)


def _blast_radius(radius: BlastRadius | None) -> str:
    if radius is None:
        return ""
    parts = [f"{kind} {_some(names)}" for kind, names in (("jobs", radius.jobs), ("hosts", radius.hosts)) if names]
    if radius.gpus is not None:
        parts.append(f"{radius.gpus} GPUs")
    if radius.capacity_lost_ratio is not None:
        parts.append(f"{radius.capacity_lost_ratio:.0%} of their capacity lost")
    return "; ".join(parts)


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _runbook(finding: Finding, base: str) -> str:
    """The finding's own address; one of the repository's pages is put behind the place where they are served."""
    if "://" in finding.runbook_url or not base:
        return finding.runbook_url
    return f"{base.rstrip('/')}/{finding.condition.slug.replace('/', '-')}.md"


def _dashboard(finding: Finding, base: str) -> str:
    """The Fabric dashboard on this pod, from ten minutes before it began."""
    if not base:
        return ""
    query = {"from": str(finding.started_at_ns // 1_000_000 - 600_000), "to": "now"}
    if finding.subject.pod:
        query["var-pod"] = finding.subject.pod
    return f"{base.rstrip('/')}/d/{DASHBOARD_UID}?{urlencode(query)}"
