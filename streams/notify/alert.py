"""Builds alerts of Alertmanager's API v2 from findings: labels, annotations, start and end.

Labels are an alert's identity in Alertmanager, so they contain only values that are constant while a finding is open;
severity, parent and the rest are annotations. The page, and the mark of a child finding, begin and end within that
time, so they are separate alerts with the same `finding_id`. notifier.py decides which alerts are active.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from streams.instrument.shipped import runbook_path, shipped
from streams.notify.page import MAX_NAMES, page_text, shared_radius, who_is_hit
from streams.notify.params import NotifyParams
from streams.wire.models import Finding, Status, Subject

SOURCE = "railsight"
"""The label `source` of our alerts; a restarted notifier finds its alerts in Alertmanager by it and `cluster`."""

LOCATION_LABELS = ("subject", "role", "team", "site", "pod", "rail", "plane", "job")
"""Labels of the location; they stay constant after the first post, so that a change of the inventory does not page."""

DASHBOARD_UID = "railsight-finding"
"""The uid in dashboards/finding.py; a test compares both."""

_NS = 1_000_000_000
_LINKS = frozenset({"finding_url", "runbook_url", "dashboard_url"})
_REPLACED = {"<": "\u2039", "://": ": //", "](": "] (", "@": "\uff20"}
_MARKUP = re.compile(r"<(?=[!@#/A-Za-z])|://|\]\(|@(?=channel|here|everyone|all)")
"""Texts from which Slack, Mattermost, Teams or HTML make a link, a mention or a tag."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert; times are Unix nanoseconds, and `ends_at_ns` in the past means that it is resolved."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at_ns: int
    ends_at_ns: int
    generator_url: str = ""

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """The labels, which identify an alert in Alertmanager."""
        return tuple(sorted(self.labels.items()))

    def ended(self, at_ns: int, annotations: Mapping[str, str] | None = None) -> "Alert":
        """Return the alert resolved at that time; its start is not after its end, which Alertmanager would refuse."""
        annotations = self.annotations if annotations is None else annotations
        return replace(self, annotations=annotations, starts_at_ns=min(at_ns, self.starts_at_ns), ends_at_ns=at_ns)

    def to_api(self) -> dict[str, object]:
        """Return the `postableAlert` of the API."""
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
    """Return a time in the API's format, to the millisecond (the API's precision)."""
    seconds, nanos = divmod(at_ns, _NS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanos // 1_000_000:03d}Z"


def location_labels(finding: Finding) -> dict[str, str]:
    """Return the location labels of a finding, with the affected jobs and without empty labels."""
    jobs = finding.blast_radius.jobs if finding.blast_radius is not None else ()
    return subject_labels(finding.subject, jobs)


def subject_labels(subject: Subject, jobs: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the location labels of a subject without empty labels, which Alertmanager also drops."""
    labels = {
        "subject": subject.id,
        "role": subject.role,
        "team": subject.team,
        "site": subject.site,
        "pod": subject.pod,
        "rail": "" if subject.rail is None else str(subject.rail),
        "plane": "" if subject.plane is None else str(subject.plane),
        "job": ",".join(jobs[:MAX_NAMES]),
    }
    return {name: without_markup(value) for name, value in labels.items() if value}


def build_alert(
    finding: Finding,
    location: Mapping[str, str],
    *,
    now_ns: int,
    params: NotifyParams,
    others: Sequence[Finding] = (),
) -> Alert:
    """Return the alert of an open finding, which expires `expire_s` from now; `others` have joined its page."""
    name = finding.condition.name
    labels = {
        "alertname": "".join(word.capitalize() for word in name.split("_")),
        "kind": "finding",
        "source": SOURCE,
        "cluster": params.cluster,
        "condition": finding.condition.slug,
        "finding_id": finding.id,
        **location,
    }
    return Alert(
        {label: value for label, value in labels.items() if value},
        build_annotations(finding, params, others=others),
        # The finding's start would be too old: Alertmanager notifies an alert older than group_wait at once, before it
        # has processed the mark that mutes it. Alertmanager retains the first start.
        starts_at_ns=now_ns,
        ends_at_ns=now_ns + round(params.expire_s * _NS),
        generator_url=_finding_url(finding, params),
    )


def joined_alert(alert: Alert, page: str) -> Alert:
    """Return the alert of a finding that has joined the page of another, whose id a successor reads there."""
    return replace(alert, annotations={**alert.annotations, "paged_with": page})


def page_alert(alert: Alert, started_at_ns: int) -> Alert:
    """Return the page of a finding's alert, which is active only while the finding pages."""
    labels = {**alert.labels, "kind": "page", "severity": "critical", "page": "true"}
    # A device's clock may be ahead; Alertmanager refuses an alert that starts after its end.
    return replace(alert, labels=labels, starts_at_ns=min(started_at_ns, alert.starts_at_ns))


def follow_up_alert(page: Alert, number: int) -> Alert:
    """Return the follow-up of a page, whose extent has grown: Alertmanager notifies the group again with it."""
    return replace(page, labels={**page.labels, "follow_up": str(number)})


def explained_alert(alert: Alert) -> Alert:
    """Return the mark of a child finding, by which an inhibition rule of Alertmanager mutes the child's alert."""
    labels = {name: alert.labels[name] for name in ("source", "cluster", "finding_id") if name in alert.labels}
    return replace(alert, labels={**labels, "alertname": "FindingExplained", "kind": "explained"})


def build_annotations(
    finding: Finding, params: NotifyParams, no_page: str = "", others: Sequence[Finding] = (), joined: int = 0
) -> dict[str, str]:
    """Return the annotations as plain text, without empty annotations; the other arguments are those of page_text()."""
    summary = finding.summary or f"{finding.condition.slug} on {finding.subject.id}"
    if finding.status is Status.RETRACTED:
        summary = f"Retracted: {summary}"
    runbook, steps = runbook_link(finding, params), first_steps(finding.condition.slug)
    board = allowed_link(finding.dashboard_url, params) or _dashboard(finding, params.dashboard_url)
    annotations = {
        "summary": f"No page any more, {no_page}: {summary}" if no_page else summary,
        "severity": finding.severity.name.lower(),
        "started_at": rfc3339(finding.started_at_ns),
        "joined": str(len(others) or ""),
        "parent_id": finding.parent_id,
        "cause": finding.cause.label,
        "evidence": _evidence(finding, params.evidence_lines),
        "blast_radius": who_is_hit(shared_radius(finding, others)),
        "unseen": ", ".join(finding.coverage.missing[:MAX_NAMES]) if finding.coverage else "",
        "confidence": "" if finding.confidence is None else f"{finding.confidence:.2f}",
        "explain": f"railsight explain {finding.id}",
        "finding_url": _finding_url(finding, params),
        "runbook_url": runbook,
        "what_to_do": "" if runbook else steps,
        "dashboard_url": board,
    }
    shown = {name: value if name in _LINKS else without_markup(value) for name, value in annotations.items() if value}
    text = without_markup(page_text(finding, steps, no_page, others, joined))
    return shown | {"page": "\n".join([text, *_link_lines({"Board": board, "Runbook": runbook})])}


def _link_lines(links: Mapping[str, str]) -> list[str]:
    return [f"{name}: {link}" for name, link in links.items() if link]


def without_markup(text: str) -> str:
    """Return a device's text with links, mentions and tags disabled for chat and mail programs."""
    return _MARKUP.sub(lambda found: _REPLACED[found[0]], text)


def _evidence(finding: Finding, lines: int) -> str:
    statements = [f"- {evidence.statement}" for evidence in finding.evidence]
    if len(statements) > lines:
        statements[lines:] = [f"- and {len(statements) - lines} more"]
    return "\n".join(statements)


def _finding_url(finding: Finding, params: NotifyParams) -> str:
    return params.finding_url.replace("{id}", quote(finding.id, safe=""))


def runbook_link(finding: Finding, params: NotifyParams) -> str:
    """Return the URL of the finding's runbook: an allowed one, or its page below `runbooks_url`; empty without any."""
    if link := allowed_link(finding.runbook_url, params):
        return link
    if params.runbooks_url:
        return f"{params.runbooks_url.rstrip('/')}/{runbook_path(finding.condition.slug).rpartition('/')[2]}"
    return ""


@cache
def first_steps(slug: str) -> str:
    """Return the section "What to do" of a condition's runbook; empty without such a page."""
    page = shipped(runbook_path(slug))
    if not page.is_file():
        return ""
    _, _, section = page.read_text(encoding="utf-8").partition("\n## What to do\n")
    return section.partition("\n## ")[0].strip()


def _dashboard(finding: Finding, base: str) -> str:
    """Return the URL of the finding's dashboard, with a range from ten minutes before the start."""
    if not base:
        return ""
    query = {"var-finding": finding.id, "from": str(finding.started_at_ns // 1_000_000 - 600_000), "to": "now"}
    return f"{base.rstrip('/')}/d/{DASHBOARD_UID}?{urlencode(query)}"


_PLAIN = re.compile(r"[!-~]*")
_DEFAULT_PORT = {"http": 80, "https": 443}


def allowed_link(link: str, params: NotifyParams) -> str:
    """Return the link if it is below a configured URL, else an empty string."""
    prefixes = (*params.link_prefixes, params.dashboard_url, params.runbooks_url, params.finding_url.partition("{")[0])
    return link if any(_is_below(link, prefix) for prefix in prefixes if prefix) else ""


def _is_below(link: str, prefix: str) -> bool:
    """Return whether scheme, host and port are equal and the path is below the prefix's, segment by segment."""
    if not _PLAIN.fullmatch(link) or "\\" in link:
        return False
    try:
        target, base = urlsplit(link), urlsplit(prefix)
        if _origin(target) != _origin(base):
            return False
    except ValueError:  # an invalid port or IPv6 address
        return False
    path = target.path.lower()
    if ".." in path or "%2e" in path or "%2f" in path or "%5c" in path:
        return False  # a server might resolve it to a path outside the prefix
    folder = base.path.rstrip("/")
    return target.path == folder or target.path.startswith(f"{folder}/")


def _origin(url: SplitResult) -> tuple[str, str, int | None]:
    """Return scheme, host and port; raises ValueError for credentials, another scheme or no host."""
    if url.scheme not in _DEFAULT_PORT or not url.hostname or "@" in url.netloc:
        raise ValueError(url.netloc)
    return url.scheme, url.hostname, url.port or _DEFAULT_PORT[url.scheme]
