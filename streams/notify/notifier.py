"""Which alerts should stand in Alertmanager now: a pure fold over findings and controls.

A page is CRITICAL, has no parent, is not shadow, and has been so for `hold_s`; maintenance and acknowledgement make it
an ordinary alert. The hold is counted by arrival (the broker's time of the record), not by event time: a page is for a
person now, it must come also when the watermark stands still, and a backlog in which a finding opens and ends within
a second should wake nobody. What Alertmanager was told is kept by label set, and a label set that no open finding
wants any more is ended, so severities and pages may change without leaving an alert behind.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from streams.notify.alert import PLACE, Alert, alert_of, annotations_of, place_of
from streams.notify.controls import quiet
from streams.notify.params import NotifyParams
from streams.wire.models import Control, Finding, Severity

_NS = 1_000_000_000
_OVER_KEPT = 4096  # ends remembered against revisions that come late; a fleet's conclusions of half an hour (2/s)

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
    _over: dict[str, tuple[int, Finding | None, int]] = field(default_factory=dict)
    """By finding id: the highest revision known, the last word where there was one, when it ended."""
    _worthy_since_ns: dict[str, int] = field(default_factory=dict)
    _place: dict[str, dict[str, str]] = field(default_factory=dict)
    _controls: dict[str, Control] = field(default_factory=dict)
    _posted: dict[Identity, _Posted] = field(default_factory=dict)

    def process(self, message: Finding | Control, arrived_ns: int) -> None:
        """Fold in one message; the order of a finding's revisions does not matter, nor does a repetition."""
        if isinstance(message, Control):
            self._controls[message.id] = message
        elif message.revision > self._revision(message.id):
            if message.over:
                self._end(message, message.resolved_at_ns or arrived_ns)
            else:
                self._hold(message, arrived_ns)

    def remove(self, key: str, arrived_ns: int) -> None:
        """A tombstone: a finding is over or a control is gone, whichever has this id."""
        self._controls.pop(key, None)
        if (finding := self._open.pop(key, None)) is not None:
            self._close(key, finding.revision, None, arrived_ns)

    def adopt(self, held: Iterable[Alert]) -> None:
        """Take over what Alertmanager holds of ours, after findings and controls were read and before the first post.

        What was paged stays paged without a second hold, and what ended meanwhile will be ended.
        """
        for alert in held:
            identity = alert.labels.get("finding_id", "")
            if alert.labels.get("page") == "true" and identity in self._worthy_since_ns:
                self._worthy_since_ns[identity] = 0
            if identity in self._open:
                self._place[identity] = {name: alert.labels[name] for name in PLACE if name in alert.labels}
            self._posted[alert.identity] = _Posted(alert, 0)

    def due(self, now_ns: int) -> list[Alert]:
        """What to post now: new and changed alerts, those to repeat, and those to end. Call `posted` once it is done.

        Ends come first, so that a group whose alert changes its labels is never seen with both.
        """
        wanted = {alert.identity: alert for alert in self._wanted(now_ns)}
        ended = [self._ended(posted.alert, now_ns) for key, posted in self._posted.items() if key not in wanted]
        return ended + [alert for key, alert in wanted.items() if self._is_news(self._posted.get(key), alert, now_ns)]

    def posted(self, alerts: Iterable[Alert], now_ns: int) -> None:
        """Alertmanager has taken these."""
        for alert in alerts:
            if alert.ends_at_ns <= now_ns:
                self._posted.pop(alert.identity, None)
            else:
                self._posted[alert.identity] = _Posted(alert, now_ns + round(self.params.resend_s * _NS))

    @property
    def standing(self) -> Mapping[Identity, Alert]:
        """What Alertmanager was told and was not yet told to end."""
        return {identity: posted.alert for identity, posted in self._posted.items()}

    def _revision(self, identity: str) -> int:
        if (finding := self._open.get(identity)) is not None:
            return finding.revision
        return self._over[identity][0] if identity in self._over else -1

    def _hold(self, finding: Finding, arrived_ns: int) -> None:
        self._open[finding.id] = finding
        self._over.pop(finding.id, None)
        self._place.setdefault(finding.id, place_of(finding))
        if finding.severity is Severity.CRITICAL and not finding.parent_id and not finding.shadow:
            self._worthy_since_ns.setdefault(finding.id, arrived_ns)
        else:
            self._worthy_since_ns.pop(finding.id, None)

    def _end(self, finding: Finding, at_ns: int) -> None:
        self._open.pop(finding.id, None)
        self._close(finding.id, finding.revision, finding, at_ns)

    def _close(self, identity: str, revision: int, last: Finding | None, at_ns: int) -> None:
        self._worthy_since_ns.pop(identity, None)
        self._place.pop(identity, None)
        self._over[identity] = (revision, last, at_ns)
        while len(self._over) > _OVER_KEPT:
            del self._over[next(iter(self._over))]

    def _wanted(self, now_ns: int) -> Iterable[Alert]:
        hold_ns = round(self.params.hold_s * _NS)
        for finding in self._open.values():
            if finding.shadow:
                continue  # recorded only: nobody is told
            since_ns = self._worthy_since_ns.get(finding.id)
            page = (
                since_ns is not None
                and now_ns - since_ns >= hold_ns
                and not quiet(finding, self._controls.values(), now_ns)
            )
            yield alert_of(finding, self._place[finding.id], page=page, now_ns=now_ns, params=self.params)

    def _is_news(self, posted: _Posted | None, alert: Alert, now_ns: int) -> bool:
        return posted is None or now_ns >= posted.repeat_at_ns or posted.alert.annotations != alert.annotations

    def _ended(self, alert: Alert, now_ns: int) -> Alert:
        """The end of an alert: the episode's own where it is over, else now, because its labels changed."""
        _, last, at_ns = self._over.get(alert.labels.get("finding_id", ""), (0, None, now_ns))
        said = annotations_of(last, self.params) if last is not None else None
        # starts_at is not after now, so neither is the end; a device's clock ahead of ours must not delay it.
        return alert.ended(min(at_ns, now_ns), said)
