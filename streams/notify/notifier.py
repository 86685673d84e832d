"""Computes which alerts should be active in Alertmanager: a pure fold over findings and controls.

A finding pages after it was CRITICAL, without a parent and not shadow for `hold_s`; maintenance and acknowledgement
make it an ordinary alert. The hold is measured by arrival (the broker's time of the record), not by event time: a page
is for a person now, it must be sent even if the watermark does not move, and a backlog in which a finding opens and
ends within a second must page no one. Posted alerts are recorded by label set, and a label set that its finding no
longer has is ended, so severities and pages may change without leaving an alert behind.

A finding is evaluated when it changes, when its hold ends, when its alert is due for repetition, and all are evaluated
when a control arrives, begins, ends or is removed: ten thousand open findings cost nothing in a second without these.
"""

import heapq
import itertools
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from streams.notify.alert import LOCATION_LABELS, Alert, build_alert, build_annotations, location_labels
from streams.notify.controls import is_silenced
from streams.notify.params import NotifyParams
from streams.wire.models import Control, Finding, Severity

_NS = 1_000_000_000
_MAX_CLOSED = 4096  # ends retained against late revisions: half an hour of a fleet's findings (2/s)
_NEVER = sys.maxsize

Identity = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Posted:
    alert: Alert
    repeat_at_ns: int


@dataclass(slots=True)
class Notifier:
    """The state is rebuilt from findings-open, controls and Alertmanager's active alerts; none is on disk."""

    params: NotifyParams
    _open: dict[str, Finding] = field(default_factory=dict)
    _closed: dict[str, tuple[int, Finding | None, int]] = field(default_factory=dict)
    """By finding id: the highest revision, the last finding where there was one, and when it ended."""
    _pageable_since_ns: dict[str, int] = field(default_factory=dict)
    _locations: dict[str, dict[str, str]] = field(default_factory=dict)
    _controls: dict[str, Control] = field(default_factory=dict)
    _posted: dict[str, dict[Identity, _Posted]] = field(default_factory=dict)
    """By finding id and label set."""
    _to_evaluate: dict[str, None] = field(default_factory=dict)
    """Findings to evaluate now; a finding stays until it has nothing to post."""
    _timers: list[tuple[int, str]] = field(default_factory=list)
    _next_timer_ns: dict[str, int] = field(default_factory=dict)
    """The next evaluation of each, unless it changes; other entries of `_timers` are ignored."""
    _next_control_ns: int = 0
    """The time at which a control begins or ends next."""

    def process(self, message: Finding | Control, arrived_ns: int) -> None:
        """Process one message; neither the order of a finding's revisions nor repetitions matter."""
        if isinstance(message, Control):
            self._controls[message.id] = message
            self._next_control_ns = 0
        elif message.revision > self._revision(message.id):
            self._to_evaluate[message.id] = None
            if message.is_closed:
                self._end(message, message.resolved_at_ns or arrived_ns)
            else:
                self._update_open(message, arrived_ns)

    def remove(self, key: str, arrived_ns: int) -> None:
        """Process a tombstone: the finding or control with this id has ended."""
        if self._controls.pop(key, None) is not None:
            self._next_control_ns = 0
        if (finding := self._open.pop(key, None)) is not None:
            self._to_evaluate[key] = None
            self._close(key, finding.revision, None, arrived_ns)

    def restore(self, active: Iterable[Alert]) -> None:
        """Record our active alerts in Alertmanager, after findings and controls were read and before the first post.

        Pages remain pages without a second hold, and alerts whose findings ended meanwhile will be ended.
        """
        for alert in active:
            identity = alert.labels.get("finding_id", "")
            if alert.labels.get("page") == "true" and identity in self._pageable_since_ns:
                self._pageable_since_ns[identity] = 0
            if identity in self._open:
                self._locations[identity] = {
                    name: alert.labels[name] for name in LOCATION_LABELS if name in alert.labels
                }
            self._record_posted(alert, 0)

    def due(self, now_ns: int) -> list[Alert]:
        """Return the alerts to post: new, changed, repeated and ended ones; call `posted` after success.

        Ended alerts come first, so Alertmanager never has both alerts of a finding whose labels change.
        """
        self._collect_due(now_ns)
        ended: list[Alert] = []
        active: list[Alert] = []
        for identity in list(self._to_evaluate):
            desired, posted = self._desired_alert(identity, now_ns), self._posted.get(identity, {})
            obsolete = [one.alert for key, one in posted.items() if desired is None or key != desired.identity]
            ended += [self._ended_alert(alert, now_ns) for alert in obsolete]
            if desired is not None and self._must_post(posted.get(desired.identity), desired, now_ns):
                active.append(desired)
            elif not obsolete:
                self._schedule(identity, posted, now_ns)
        return ended + active

    def posted(self, alerts: Iterable[Alert], now_ns: int) -> None:
        """Record that Alertmanager accepted these alerts."""
        for alert in alerts:
            if alert.ends_at_ns <= now_ns:
                identity = alert.labels.get("finding_id", "")
                posted = self._posted.get(identity, {})
                posted.pop(alert.identity, None)
                if not posted:
                    self._posted.pop(identity, None)
            else:
                self._record_posted(alert, now_ns + round(self.params.resend_s * _NS))

    @property
    def desired_alerts(self) -> Mapping[Identity, Alert]:
        """The posted alerts that were not ended."""
        return {key: one.alert for posted in self._posted.values() for key, one in posted.items()}

    def _record_posted(self, alert: Alert, repeat_at_ns: int) -> None:
        """Record an alert that is active in Alertmanager, with the time of its repetition."""
        identity = alert.labels.get("finding_id", "")
        self._posted.setdefault(identity, {})[alert.identity] = _Posted(alert, repeat_at_ns)
        self._to_evaluate[identity] = None

    def _collect_due(self, now_ns: int) -> None:
        """Select the findings whose timer is due, and all open ones where a control changed, began or ended."""
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

    def _schedule(self, identity: str, posted: Mapping[Identity, _Posted], now_ns: int) -> None:
        """Set the timer of a finding without anything to post: the end of its hold or its alert's repetition."""
        del self._to_evaluate[identity]
        times = [one.repeat_at_ns for one in posted.values()]
        if (since_ns := self._pageable_since_ns.get(identity)) is not None:
            times.append(since_ns + self._hold_ns)
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

    def _update_open(self, finding: Finding, arrived_ns: int) -> None:
        self._open[finding.id] = finding
        self._closed.pop(finding.id, None)
        self._locations.setdefault(finding.id, location_labels(finding))
        if finding.severity is Severity.CRITICAL and not finding.parent_id and not finding.shadow:
            self._pageable_since_ns.setdefault(finding.id, arrived_ns)
        else:
            self._pageable_since_ns.pop(finding.id, None)

    def _end(self, finding: Finding, at_ns: int) -> None:
        self._open.pop(finding.id, None)
        self._close(finding.id, finding.revision, finding, at_ns)

    def _close(self, identity: str, revision: int, last: Finding | None, at_ns: int) -> None:
        self._pageable_since_ns.pop(identity, None)
        self._locations.pop(identity, None)
        self._closed[identity] = (revision, last, at_ns)
        while len(self._closed) > _MAX_CLOSED:
            del self._closed[next(iter(self._closed))]

    @property
    def _hold_ns(self) -> int:
        return round(self.params.hold_s * _NS)

    def _desired_alert(self, identity: str, now_ns: int) -> Alert | None:
        """Return the alert that a finding should have."""
        finding = self._open.get(identity)
        if finding is None or finding.shadow:
            return None  # ended, or shadow: recorded only
        since_ns = self._pageable_since_ns.get(identity)
        page = (
            since_ns is not None
            and now_ns - since_ns >= self._hold_ns
            and not is_silenced(finding, self._controls.values(), now_ns)
        )
        return build_alert(finding, self._locations[identity], page=page, now_ns=now_ns, params=self.params)

    def _must_post(self, posted: _Posted | None, alert: Alert, now_ns: int) -> bool:
        return posted is None or now_ns >= posted.repeat_at_ns or posted.alert.annotations != alert.annotations

    def _ended_alert(self, alert: Alert, now_ns: int) -> Alert:
        """Return the alert with its end: the episode's where it is over, else now, because its labels changed."""
        _, last, at_ns = self._closed.get(alert.labels.get("finding_id", ""), (0, None, now_ns))
        annotations = build_annotations(last, self.params) if last is not None else None
        # The start is not after now, so neither is the end; a device's clock ahead of ours must not delay it.
        return alert.ended(min(at_ns, now_ns), annotations)
