"""Computes the alerts that should be active in Alertmanager, from findings, remediations and controls, without I/O.

An open finding has one alert with constant labels. After the finding was CRITICAL, not shadow and without a parent for
`hold_s`, it has a second alert, its page, unless maintenance or an acknowledgement covers it. While its parent is open,
it has another alert, the mark by which Alertmanager mutes it. Findings of one condition at one device share a page
(shared_pages.py). A page whose extent has grown gets a follow-up, one more alert of its group, by which Alertmanager
notifies it again; it ends with the page. The hold is measured by arrival (the broker's time of the record), not by
event time: a page must be sent even if the watermark does not advance, and a finding in a backlog that opens and ends
within a second must not page. Posted alerts are recorded by label set. An alert that is no longer desired is ended, and
its end is repeated for `resolved_s`, because Alertmanager may stop before it notifies, or process a delayed post after
it.

A subject (a finding, a remediation, the watchdog) is evaluated when it changes, when its hold ends, and when its alert
is due for repetition. All findings are evaluated when a control arrives, begins, ends or is removed. Without these
events, ten thousand open findings cost nothing.
"""

import heapq
import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from streams.notify.alert import (
    LOCATION_LABELS,
    Alert,
    build_alert,
    build_annotations,
    explained_alert,
    follow_up_alert,
    joined_alert,
    location_labels,
    page_alert,
)
from streams.notify.page import Extent, extent_of
from streams.notify.params import NotifyParams
from streams.notify.remediation_alerts import RemediationAlerts
from streams.notify.shared_pages import SharedPages, Standing
from streams.notify.watchdog import WATCHDOG, Watchdog
from streams.wire.control_scope import silencing_control
from streams.wire.models import Control, ControlKind, Finding, Progress, Remediation, RemediationResult, Severity

_NS = 1_000_000_000
_MAX_CLOSED = 4096  # retained ends, to detect late revisions: half an hour of a fleet's findings (2/s)
_NEVER = sys.maxsize
_END_REPEATS = 4  # an end is repeated after each quarter of its age: 19 posts in 2 h instead of 120 (choice)

Identity = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Posted:
    alert: Alert
    repeat_at_ns: int
    drop_at_ns: int = 0
    """The time after which its end is not repeated; 0 while active, `_NEVER` if it must be posted again first."""


@dataclass(slots=True)
class Notifier:
    """The state of all alerts; it is rebuilt from the topics and Alertmanager's active alerts, and not on disk."""

    params: NotifyParams
    _open: dict[str, Finding] = field(default_factory=dict)
    _closed: dict[str, tuple[int, Finding | None, int]] = field(default_factory=dict)
    """Finding id -> the highest revision, the last finding if it is known, and the time of its end."""
    _pageable_since_ns: dict[str, int] = field(default_factory=dict)
    _pages: SharedPages = field(init=False)
    _now_ns: int = 0
    """The time of the present evaluation."""
    _extents: dict[str, list[Extent]] = field(default_factory=dict)
    """Finding id -> the extent of its page and of each follow-up, the largest so far."""
    _locations: dict[str, dict[str, str]] = field(default_factory=dict)
    _children: dict[str, set[str]] = field(default_factory=dict)
    """Parent id -> its open child findings."""
    _controls: dict[str, Control] = field(default_factory=dict)
    _remediations: RemediationAlerts = field(init=False)
    _watchdog: Watchdog = field(init=False)
    _posted: dict[str, dict[Identity, _Posted]] = field(default_factory=dict)
    """Subject id -> label set -> posted alert."""
    _to_evaluate: dict[str, None] = field(default_factory=dict)
    """Subjects to evaluate now; a subject stays until it has nothing to post."""
    _timers: list[tuple[int, str]] = field(default_factory=list)
    _next_timer_ns: dict[str, int] = field(default_factory=dict)
    """Subject id -> its next evaluation without a change; other entries of `_timers` are ignored."""
    _next_control_ns: int = 0
    """The time at which a control begins or ends next."""

    def __post_init__(self) -> None:
        self._remediations = RemediationAlerts(self.params)
        self._watchdog = Watchdog(self.params)
        self._pages = SharedPages(self._standing)

    def process(self, message: Finding | Control | Remediation | RemediationResult | Progress, arrived_ns: int) -> None:
        """Process one message; the order of a finding's revisions and repetitions have no effect."""
        match message:
            case Finding():
                self._process_finding(message, arrived_ns)
            case Control():
                self._controls[message.id] = message
                self._next_control_ns = 0
            case Remediation():
                if self._remediations.process(message, arrived_ns):
                    self._to_evaluate[message.id] = None
            case RemediationResult():
                self._remediations.process_result(message)
                self._to_evaluate[message.remediation_id] = None
            case Progress():
                if self._watchdog.process(message, arrived_ns) and WATCHDOG not in self._posted:
                    self._to_evaluate[WATCHDOG] = None

    def remove(self, key: str, arrived_ns: int) -> None:
        """Process a tombstone, which ends the finding, remediation or control with this id."""
        if self._controls.pop(key, None) is not None:
            self._next_control_ns = 0
        if (finding := self._open.pop(key, None)) is not None:
            self._to_evaluate[key] = None
            self._close(key, finding.revision, None, arrived_ns)
            self._set_parent(finding, None)
        if self._remediations.remove(key):
            self._to_evaluate[key] = None

    def restore(self, active: Iterable[Alert], now_ns: int) -> None:
        """Record our active alerts in Alertmanager, after the topics were read and before the first post.

        Pages stay pages without a second hold, and alerts of findings that ended meanwhile will be ended. Findings that
        ended within `ends_s` end again: Alertmanager may have lost their alerts while a receiver has the incident.
        """
        texts: dict[str, int] = {}
        for alert in active:
            if alert.labels.get("kind") == "watchdog":
                continue  # this alert expires by itself unless the watermark advances
            identity = alert.labels.get("finding_id", "")
            page = identity if alert.labels.get("kind") == "page" else alert.annotations.get("paged_with", "")
            if page in self._pageable_since_ns and identity in self._pageable_since_ns:
                self._pageable_since_ns |= {page: 0, identity: 0}
                self._pages.restore(identity, page)
                texts[page] = max(texts.get(page, 1), 1 + int(alert.labels.get("follow_up", 0)))
            if identity in self._open and alert.labels.get("kind") == "finding":
                self._locations[identity] = {
                    name: alert.labels[name] for name in LOCATION_LABELS if name in alert.labels
                }
            self._record_posted(alert, 0)
        for identity, count in texts.items():
            self._extents[identity] = [extent_of(self._open[identity], self._pages.joins(identity))] * count
        earliest_ns = now_ns - round(self.params.ends_s * _NS)
        for identity, (_, last, at_ns) in self._closed.items():
            if last is not None and at_ns >= earliest_ns and identity not in self._posted and not last.shadow:
                alert = build_alert(last, location_labels(last), now_ns=now_ns, params=self.params)
                for one in (
                    (alert, page_alert(alert, last.started_at_ns)) if last.severity is Severity.CRITICAL else (alert,)
                ):
                    self._record_posted(one, 0)

    def due(self, now_ns: int) -> list[Alert]:
        """Return the alerts to post: new, changed, repeated and ended ones; call `posted` after success.

        Marks are first, so that Alertmanager mutes a child before it has the child's alert. Ends are last, because a
        restarted Alertmanager without a group's active alerts would notify the group as resolved.
        """
        self._now_ns = now_ns
        self._collect_due(now_ns)
        self._assign_pages()
        ended: list[Alert] = []
        active: list[Alert] = []
        for identity in list(self._to_evaluate):
            desired, posted = self._desired_alerts(identity, now_ns), self._posted.get(identity, {})
            obsolete = [
                self._ended_alert(one, now_ns)
                for key, one in posted.items()
                if key not in desired and now_ns >= (one.repeat_at_ns if one.drop_at_ns else 0)
            ]
            due = [alert for key, alert in desired.items() if self._must_post(posted.get(key), alert, now_ns)]
            ended += obsolete
            active += due
            if not obsolete and not due:
                self._schedule(identity, posted, now_ns)
        active.sort(key=lambda alert: alert.labels["kind"] != "explained")
        return active + ended

    def posted(self, alerts: Iterable[Alert], now_ns: int) -> None:
        """Record that Alertmanager accepted these alerts."""
        resend_ns, resolved_ns = (round(own * _NS) for own in (self.params.resend_s, self.params.resolved_s))
        for alert in alerts:
            if alert.ends_at_ns > now_ns:
                self._record_posted(alert, now_ns + resend_ns)
                continue
            identity = _subject_of(alert)
            posted = self._posted.get(identity, {})
            known = posted.pop(alert.identity, None)
            known_ns = known.drop_at_ns if known is not None else 0
            drop_at_ns = now_ns + resolved_ns if known_ns in (0, _NEVER) else known_ns
            age_ns = now_ns + resolved_ns - drop_at_ns
            repeat_at_ns = now_ns + max(resend_ns, age_ns // _END_REPEATS)
            if repeat_at_ns < drop_at_ns:
                posted[alert.identity] = _Posted(alert, repeat_at_ns, drop_at_ns)
            elif not posted:
                self._posted.pop(identity, None)

    def unavailable(self) -> None:
        """Record that no Alertmanager accepted a post; it may have lost all alerts, so each is posted again."""
        for identity, posted in self._posted.items():
            for one in posted.values():
                one.repeat_at_ns = 0
                if one.drop_at_ns:
                    one.drop_at_ns = _NEVER
            self._to_evaluate[identity] = None

    @property
    def desired_alerts(self) -> Mapping[Identity, Alert]:
        """The posted alerts that have not been ended."""
        return {key: one.alert for posted in self._posted.values() for key, one in posted.items() if not one.drop_at_ns}

    def _record_posted(self, alert: Alert, repeat_at_ns: int) -> None:
        """Record an alert that is active in Alertmanager, with the time of its repetition."""
        identity = _subject_of(alert)
        self._posted.setdefault(identity, {})[alert.identity] = _Posted(alert, repeat_at_ns)
        self._to_evaluate[identity] = None

    def _collect_due(self, now_ns: int) -> None:
        """Select the subjects with a due timer, and all open findings if a control changed, began or ended."""
        while self._timers and self._timers[0][0] <= now_ns:
            at_ns, identity = heapq.heappop(self._timers)
            if self._next_timer_ns.get(identity) == at_ns:
                del self._next_timer_ns[identity]
                self._to_evaluate[identity] = None
        if now_ns >= self._next_control_ns:
            self._to_evaluate |= dict.fromkeys(self._open)
            times = itertools.chain.from_iterable((c.at_ns, c.until_ns) for c in self._controls.values())
            self._next_control_ns = min(
                (at_ns for at_ns in times if at_ns is not None and at_ns > now_ns), default=_NEVER
            )

    def _assign_pages(self) -> None:
        """Assign the findings to evaluate to pages, the first that started first, and evaluate the pages they join."""
        critical = (self._open[identity] for identity in self._to_evaluate if identity in self._pageable_since_ns)
        for finding in sorted(critical, key=lambda one: (one.started_at_ns, one.id)):
            if self._pages.has_lost_page(finding):
                self._pageable_since_ns[finding.id] = self._now_ns
            if page := self._pages.assign(finding):
                self._to_evaluate[page] = None

    def _standing(self, finding: Finding) -> Standing:
        since_ns = self._pageable_since_ns.get(finding.id)
        if since_ns is None or self._now_ns - since_ns < self._hold_ns:
            return Standing.NOT
        control = self._silencing_control(finding, self._now_ns)
        if control is None:
            return Standing.PAGES
        return Standing.ACKNOWLEDGED if control.kind is ControlKind.ACKNOWLEDGE else Standing.NOT

    def _silencing_control(self, finding: Finding, now_ns: int) -> Control | None:
        """Return the control that prevents a finding from paging; a maintenance must cover all that it represents.

        The root of a group pages for CRITICAL members of its own condition, which began with it and not because of it.
        """
        control = silencing_control(finding, self._controls.values(), now_ns)
        if control is None or control.kind is not ControlKind.MAINTENANCE:
            return control
        members = (self._open[identity] for identity in self._children.get(finding.id, ()))
        is_whole = all(
            silencing_control(member, self._controls.values(), now_ns)
            for member in members
            if member.condition is finding.condition and member.severity is Severity.CRITICAL and not member.shadow
        )
        return control if is_whole else None

    def _schedule(self, identity: str, posted: Mapping[Identity, _Posted], now_ns: int) -> None:
        """Set the timer of a subject with nothing to post: the end of its hold or the repetition of its alert."""
        del self._to_evaluate[identity]
        times = [one.repeat_at_ns for one in posted.values()]
        if (since_ns := self._pageable_since_ns.get(identity)) is not None:
            times.append(since_ns + self._hold_ns)
        if (change_ns := self._remediations.next_change_ns(identity, now_ns)) is not None:
            times.append(change_ns)
        if identity == WATCHDOG and (stops_ns := self._watchdog.stops_ns) is not None:
            times.append(stops_ns)
        at_ns = min((at_ns for at_ns in times if at_ns > now_ns), default=None)
        if at_ns is None:
            self._next_timer_ns.pop(identity, None)
        elif self._next_timer_ns.get(identity) != at_ns:
            self._next_timer_ns[identity] = at_ns
            heapq.heappush(self._timers, (at_ns, identity))

    def _revision(self, identity: str) -> int:
        if (finding := self._open.get(identity)) is not None:
            return finding.revision
        return self._closed[identity][0] if identity in self._closed else -1

    def _process_finding(self, finding: Finding, arrived_ns: int) -> None:
        if finding.revision <= self._revision(finding.id):
            return
        self._to_evaluate[finding.id] = None
        for known in (finding, self._open.get(finding.id)):
            if known is not None and known.parent_id in self._pageable_since_ns:
                self._to_evaluate[known.parent_id] = None
        if finding.is_closed:
            before = self._open.pop(finding.id, None)
            self._close(finding.id, finding.revision, finding, finding.resolved_at_ns or arrived_ns)
            self._set_parent(before, None)
        else:
            self._update_open(finding, arrived_ns)

    def _update_open(self, finding: Finding, arrived_ns: int) -> None:
        before = self._open.get(finding.id)
        self._open[finding.id] = finding
        self._closed.pop(finding.id, None)
        self._set_parent(before, finding)
        self._locations.setdefault(finding.id, location_labels(finding))
        if finding.severity is Severity.CRITICAL and not finding.parent_id and not finding.shadow:
            self._pageable_since_ns.setdefault(finding.id, arrived_ns)
            self._to_evaluate |= dict.fromkeys(self._pages.add(finding))
        else:
            self._end_paging(finding.id)

    def _end_paging(self, identity: str) -> None:
        """Forget that a finding may page, and evaluate the others that may share its page."""
        if self._pageable_since_ns.pop(identity, None) is not None:
            self._to_evaluate |= dict.fromkeys(self._pages.remove(identity))

    def _set_parent(self, before: Finding | None, now: Finding | None) -> None:
        """Update the children of both parents, and evaluate the children of a new or former parent."""
        finding = now or before
        if finding is None:
            return
        old, new = (one.parent_id if one is not None else "" for one in (before, now))
        if old != new and old:
            children = self._children[old]
            children.discard(finding.id)
            if not children:
                del self._children[old]
        if old != new and new:
            self._children.setdefault(new, set()).add(finding.id)
        if (before is not None and not before.shadow) != (now is not None and not now.shadow):
            self._to_evaluate |= dict.fromkeys(self._children.get(finding.id, ()))

    def _close(self, identity: str, revision: int, last: Finding | None, at_ns: int) -> None:
        self._end_paging(identity)
        self._extents.pop(identity, None)
        self._locations.pop(identity, None)
        self._closed[identity] = (revision, last, at_ns)
        while len(self._closed) > _MAX_CLOSED:
            del self._closed[next(iter(self._closed))]

    @property
    def _hold_ns(self) -> int:
        return round(self.params.hold_s * _NS)

    def _desired_alerts(self, identity: str, now_ns: int) -> dict[Identity, Alert]:
        """Return the alerts that a finding, a remediation or the watchdog should have."""
        alerts: Sequence[Alert | None]
        if (finding := self._open.get(identity)) is not None:
            alerts = self._finding_alerts(finding, now_ns)
        elif identity == WATCHDOG:
            alerts = [self._watchdog.alert(now_ns)]
        else:
            alerts = [self._remediations.alert(identity, now_ns)]
        return {alert.identity: alert for alert in alerts if alert is not None}

    def _finding_alerts(self, finding: Finding, now_ns: int) -> list[Alert]:
        if finding.shadow:
            return []  # recorded only
        identity = finding.id
        page = self._pages.page_of(identity)
        others = self._pages.others(finding) if page == identity else ()
        alert = build_alert(finding, self._locations[identity], now_ns=now_ns, params=self.params, others=others)
        if page not in ("", identity):
            return [joined_alert(alert, page)]
        if page and self._standing(finding) is Standing.PAGES:
            return [alert, *self._page_alerts(finding, page_alert(alert, finding.started_at_ns))]
        self._extents.pop(identity, None)
        parent = self._open.get(finding.parent_id)
        # A shadow parent has no alert, so it must not mute its children.
        return [alert, explained_alert(alert)] if parent is not None and not parent.shadow else [alert]

    def _page_alerts(self, finding: Finding, page: Alert) -> list[Alert]:
        """Return the page and a follow-up for each time that its extent has grown."""
        now = extent_of(finding, self._pages.joins(finding.id))
        extents = self._extents.setdefault(finding.id, [now])
        if extents[-1].has_grown(now):
            extents.append(extents[-1].with_largest(now))
        return [page, *(follow_up_alert(page, number) for number in range(1, len(extents)))]

    def _must_post(self, posted: _Posted | None, alert: Alert, now_ns: int) -> bool:
        if posted is None or posted.drop_at_ns or posted.alert.annotations != alert.annotations:
            return True
        return now_ns >= posted.repeat_at_ns

    def _ended_alert(self, posted: _Posted, now_ns: int) -> Alert:
        """Return the alert with its end: the episode's end if it has one, else now."""
        alert = posted.alert
        if posted.drop_at_ns:
            return alert
        _, last, at_ns = self._closed.get(alert.labels.get("finding_id", ""), (0, None, now_ns))
        if alert.labels.get("kind") == "remediation":
            last, at_ns = None, now_ns
        known = alert.annotations.get("joined", "")
        joined = int(known) if known.isdecimal() else 0
        annotations = build_annotations(last, self.params, joined=joined) if last is not None else None
        if (finding := self._open.get(alert.labels.get("finding_id", ""))) and alert.labels.get("kind") == "page":
            annotations = build_annotations(finding, self.params, self._why_no_page(finding, now_ns))
        # A device's clock may be ahead of ours and must not delay the end.
        return alert.ended(min(at_ns, now_ns), annotations)

    def _why_no_page(self, finding: Finding, now_ns: int) -> str:
        """Return why an open finding does not page now."""
        if (control := self._silencing_control(finding, now_ns)) is not None:
            by = f" by {control.actor}" if control.actor else ""
            return f"acknowledged{by}" if control.kind is ControlKind.ACKNOWLEDGE else "in maintenance"
        if finding.severity is not Severity.CRITICAL:
            return f"its severity is {finding.severity.name}"
        return f"finding {finding.parent_id[:12]} explains it" if finding.parent_id else "it is held back"


def _subject_of(alert: Alert) -> str:
    """Return the id of an alert's remediation or finding, or the watchdog's name."""
    if alert.labels.get("kind") == "watchdog":
        return WATCHDOG
    return alert.labels.get("remediation_id") or alert.labels.get("finding_id", "")
