"""Which sources are live, by the arrival clock; what says so, and when event time may pass them by.

A source is one way in which one device is read (gNMI, SNMP, NIC, host). Silence is judged against what its collector
says of its cadence; without that, against the intervals seen, once there are enough of them to know.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from streams.detect.params import StaleParams, ns
from streams.wire.models import IDLE_NS, CollectorStatus, Source, Symptom, SymptomKind

_LEARN = 3
"""Intervals needed before a cadence is taken from them: fewer are met by chance when a recording begins in a hole."""

_KEEP = 15
_SAME_READING_NS = ns(1)
"""States and counters of one round come up to a second apart (seen in the recordings): that is no cadence."""


@dataclass(slots=True)
class Heard:
    """What was heard of one source. Times are event times in ns; 0 where nothing came yet."""

    device: str
    source: Source
    first_ns: int
    last_ns: int = 0
    silent: bool = False
    cadence_ns: int = 0
    collector: str = ""
    status_ns: int = 0
    unreachable: str = ""
    intervals_ns: list[int] = field(default_factory=list)
    unjudged: list[tuple[int, int]] = field(default_factory=list)
    """Gaps before the cadence was known, as (last, next)."""


class Liveness:
    """All sources of one partition."""

    def __init__(self, params: StaleParams) -> None:
        self._params = params
        self.sources: dict[tuple[str, Source], Heard] = {}
        self.arrival_ns = 0
        self._next_due_ns = IDLE_NS

    def restore(self, sources: dict[tuple[str, Source], Heard], arrival_ns: int) -> None:
        """Take over what a snapshot kept."""
        self.sources, self.arrival_ns, self._next_due_ns = sources, arrival_ns, 0

    def sample(self, device: str, source: Source, at_ns: int, boot_id: int) -> list[Symptom]:
        """A reading came; answers that its source was silent, where it was."""
        heard = self._heard(device, source, at_ns)
        if at_ns <= heard.last_ns:
            return []
        symptoms = []
        if heard.last_ns:
            symptoms = self._gap(heard, at_ns, boot_id)
        elif heard.silent:
            symptoms = [self._heard_again(heard, heard.first_ns, at_ns)]
        heard.last_ns, heard.silent, heard.unreachable = at_ns, False, ""
        self._next_due_ns = min(self._next_due_ns, at_ns + ns(self._params.at_least_s))
        return symptoms

    def status(self, status: CollectorStatus) -> None:
        """A collector says whether it reaches a target and how often it reads it."""
        heard = self._heard(status.device, status.source, status.at_ns)
        if status.at_ns < heard.status_ns:
            return
        heard.status_ns, heard.collector = status.at_ns, status.collector
        heard.cadence_ns = status.cadence_ns or heard.cadence_ns
        heard.unreachable = "" if status.reachable else status.error or "not reachable"
        self._next_due_ns = min(self._next_due_ns, status.at_ns + ns(self._params.at_least_s))

    def arrive(self, at_ns: int, boot_ids: dict[tuple[str, Source], int]) -> list[Symptom]:
        """The arrival clock has come to `at_ns`; answers who is silent by now and was not before."""
        self.arrival_ns = max(self.arrival_ns, at_ns)
        if self.arrival_ns < self._next_due_ns:
            return []
        symptoms, due = [], IDLE_NS
        for key, heard in self.sources.items():
            if heard.silent:
                continue
            limit_at = (heard.last_ns or heard.first_ns) + self._limit_ns(heard)
            if limit_at < self.arrival_ns:
                heard.silent = True
                symptoms.append(self._silent(heard, heard.last_ns or heard.first_ns, boot_ids.get(key, 0)))
            else:
                due = min(due, limit_at + 1)
        self._next_due_ns = due
        return symptoms

    def watermark_ns(self) -> int:
        """The smallest newest time over live sources; the arrival clock where all are silent; else IDLE_NS."""
        live = [heard.last_ns for heard in self.sources.values() if heard.last_ns and not heard.silent]
        if live:
            return min(live)
        return self.arrival_ns if any(heard.last_ns for heard in self.sources.values()) else IDLE_NS

    def _heard(self, device: str, source: Source, at_ns: int) -> Heard:
        key = (device, source)
        if key not in self.sources:
            self.sources[key] = Heard(device, source, at_ns)
        return self.sources[key]

    def _limit_ns(self, heard: Heard) -> int:
        return self._params.limit_ns(_cadence_ns(heard))

    def _gap(self, heard: Heard, at_ns: int, boot_id: int) -> list[Symptom]:
        gap = (heard.last_ns, at_ns)
        interval = at_ns - heard.last_ns
        known = heard.cadence_ns or len(heard.intervals_ns) >= _LEARN
        gaps = [*heard.unjudged, gap] if known else []
        symptoms = list(self._judge(heard, gaps, boot_id))
        if known:
            heard.unjudged = []
        elif heard.silent:
            symptoms = [self._heard_again(heard, *gap)]
        elif interval > ns(self._params.at_least_s):
            heard.unjudged.append(gap)
        if interval >= _SAME_READING_NS and not symptoms:
            heard.intervals_ns = [*heard.intervals_ns[-_KEEP:], interval]
        elif len(heard.intervals_ns) < _LEARN and not symptoms:
            heard.intervals_ns.append(interval)
        return symptoms

    def _judge(self, heard: Heard, gaps: list[tuple[int, int]], boot_id: int) -> Iterator[Symptom]:
        limit = self._limit_ns(heard)
        for last_ns, next_ns in gaps:
            said = heard.silent and last_ns == heard.last_ns
            if not said and next_ns - last_ns <= limit:
                continue
            yield self._heard_again(heard, last_ns, next_ns, boot_id)

    def _silent(self, heard: Heard, last_ns: int, boot_id: int) -> Symptom:
        at_ns = last_ns + self._limit_ns(heard)
        return Symptom(
            heard.device, "", SymptomKind.SILENT, at_ns, since_ns=last_ns, source=heard.source, boot_id=boot_id,
            collector=heard.collector, collector_silent=self._collector_silent(heard, at_ns),
            detail=heard.unreachable, cadence_ns=_cadence_ns(heard), count=self._others(heard),
        )  # fmt: skip

    def _others(self, heard: Heard) -> int:
        """How many other sources of the device are live."""
        own = (self.sources.get((heard.device, source)) for source in Source if source is not heard.source)
        return sum(1 for other in own if other is not None and other.last_ns and not other.silent)

    def _collector_silent(self, heard: Heard, at_ns: int) -> bool:
        """Its newest status is older than half the limit: statuses come each cadence, the limit is three at least."""
        return bool(heard.status_ns) and at_ns - heard.status_ns > self._limit_ns(heard) // 2

    def _heard_again(self, heard: Heard, last_ns: int, at_ns: int, boot_id: int = 0) -> Symptom:
        """Tells of the whole gap, which nobody may have told of before."""
        limit_at = last_ns + self._limit_ns(heard)
        return Symptom(
            heard.device, "", SymptomKind.HEARD, at_ns, since_ns=last_ns, source=heard.source, boot_id=boot_id,
            collector=heard.collector, collector_silent=self._collector_silent(heard, limit_at),
            detail=heard.unreachable, cadence_ns=_cadence_ns(heard), count=self._others(heard),
        )  # fmt: skip


def _cadence_ns(heard: Heard) -> int:
    """How often it is read: as its collector says, else as it was seen; 0 where neither is known."""
    if heard.cadence_ns or len(heard.intervals_ns) < _LEARN:
        return heard.cadence_ns
    return round(median(heard.intervals_ns))
