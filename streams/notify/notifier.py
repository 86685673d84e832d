"""Which alerts should stand in Alertmanager now: a pure fold over findings and controls.

A page is CRITICAL, has no parent, is not shadow, and has been so for `hold_s`; maintenance and acknowledgement make it
an ordinary alert. The hold is counted by arrival (the broker's time of the record), not by event time: a page is for a
person now, it must come also when the watermark stands still, and a backlog in which a finding opens and ends within
a second should wake nobody. What Alertmanager was told is kept by label set, and a label set that its finding does not
want any more is ended, so severities and pages may change without leaving an alert behind.

A finding is looked at when it changes, when its hold is over, when its alert is to be repeated, and all of them when a
control comes, begins, ends or goes: ten thousand that are open cost nothing in a second in which none of that is so.
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
_OVER_KEPT = 4096  # ends remembered against revisions that come late; a fleet's conclusions of half an hour (2/s)
_NEVER = sys.maxsize

Identity = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Posted:
    alert: Alert
    repeat_at_ns: int


@dataclass(slots=True)
class Notifier:
    """All state is rebuilt from findings-open, controls and what Alertmanager holds; none is kept on disk."""

    params: NotifyParams
    _open: dict[str, Finding] = field(default_factory=dict)
    _closed: dict[str, tuple[int, Finding | None, int]] = field(default_factory=dict)
    """By finding id: the highest revision known, the last word where there was one, when it ended."""
    _pageable_since_ns: dict[str, int] = field(default_factory=dict)
    _locations: dict[str, dict[str, str]] = field(default_factory=dict)
    _controls: dict[str, Control] = field(default_factory=dict)
    _posted: dict[str, dict[Identity, _Posted]] = field(default_factory=dict)
    """By finding id, and by label set."""
    _to_evaluate: dict[str, None] = field(default_factory=dict)
    """The findings to look at now; one stays until there is nothing more to post of it."""
    _timers: list[tuple[int, str]] = field(default_factory=list)
    _next_timer_ns: dict[str, int] = field(default_factory=dict)
    """When each is looked at next, unless it changes; another entry of `_later` is passed over."""
    _next_control_ns: int = 0
    """When a control begins or ends next."""

    def process(self, message: Finding | Control, arrived_ns: int) -> None:
        """Fold in one message; the order of a finding's revisions does not matter, nor does a repetition."""
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
        """A tombstone: a finding is over or a control is gone, whichever has this id."""
        if self._controls.pop(key, None) is not None:
            self._next_control_ns = 0
        if (finding := self._open.pop(key, None)) is not None:
            self._to_evaluate[key] = None
            self._close(key, finding.revision, None, arrived_ns)

    def restore(self, held: Iterable[Alert]) -> None:
        """Take over what Alertmanager holds of ours, after findings and controls were read and before the first post.

        What was paged stays paged without a second hold, and what ended meanwhile will be ended.
        """
        for alert in held:
            identity = alert.labels.get("finding_id", "")
            if alert.labels.get("page") == "true" and identity in self._pageable_since_ns:
                self._pageable_since_ns[identity] = 0
            if identity in self._open:
                self._locations[identity] = {
                    name: alert.labels[name] for name in LOCATION_LABELS if name in alert.labels
                }
            self._record_posted(alert, 0)

    def due(self, now_ns: int) -> list[Alert]:
        """What to post now: new and changed alerts, those to repeat, and those to end. Call `posted` once it is done.

        Ends come first, so that a group whose alert changes its labels is never seen with both.
        """
        self._collect_due(now_ns)
        ended: list[Alert] = []
        news: list[Alert] = []
        for identity in list(self._to_evaluate):
            wanted, held = self._desired_alert(identity, now_ns), self._posted.get(identity, {})
            gone = [posted.alert for key, posted in held.items() if wanted is None or key != wanted.identity]
            ended += [self._ended_alert(alert, now_ns) for alert in gone]
            if wanted is not None and self._must_post(held.get(wanted.identity), wanted, now_ns):
                news.append(wanted)
            elif not gone:
                self._schedule(identity, held, now_ns)
        return ended + news

    def posted(self, alerts: Iterable[Alert], now_ns: int) -> None:
        """Alertmanager has taken these."""
        for alert in alerts:
            if alert.ends_at_ns <= now_ns:
                identity = alert.labels.get("finding_id", "")
                held = self._posted.get(identity, {})
                held.pop(alert.identity, None)
                if not held:
                    self._posted.pop(identity, None)
            else:
                self._record_posted(alert, now_ns + round(self.params.resend_s * _NS))

    @property
    def desired_alerts(self) -> Mapping[Identity, Alert]:
        """What Alertmanager was told and was not yet told to end."""
        return {key: posted.alert for held in self._posted.values() for key, posted in held.items()}

    def _record_posted(self, alert: Alert, repeat_at_ns: int) -> None:
        """Alertmanager holds it until then, or until there is something else to say."""
        identity = alert.labels.get("finding_id", "")
        self._posted.setdefault(identity, {})[alert.identity] = _Posted(alert, repeat_at_ns)
        self._to_evaluate[identity] = None

    def _collect_due(self, now_ns: int) -> None:
        """Look at what is due; and at all that is open, where a control came, began, ended or went."""
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

    def _schedule(self, identity: str, held: Mapping[Identity, _Posted], now_ns: int) -> None:
        """There is nothing to post of it, until its hold is over or its alert is to be repeated."""
        del self._to_evaluate[identity]
        times = [posted.repeat_at_ns for posted in held.values()]
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
        while len(self._closed) > _OVER_KEPT:
            del self._closed[next(iter(self._closed))]

    @property
    def _hold_ns(self) -> int:
        return round(self.params.hold_s * _NS)

    def _desired_alert(self, identity: str, now_ns: int) -> Alert | None:
        """The alert that should stand for a finding."""
        finding = self._open.get(identity)
        if finding is None or finding.shadow:
            return None  # over, or recorded only: nobody is told
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
        """The end of an alert: the episode's own where it is over, else now, because its labels changed."""
        _, last, at_ns = self._closed.get(alert.labels.get("finding_id", ""), (0, None, now_ns))
        said = build_annotations(last, self.params) if last is not None else None
        # starts_at is not after now, so neither is the end; a device's clock ahead of ours must not delay it.
        return alert.ended(min(at_ns, now_ns), said)
