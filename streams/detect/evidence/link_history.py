"""What was observed of one link, from both its ends and all sources, and what follows from it whatever the order.

Everything here is a pure function of the set of observations: link/flap and link/down draw their conclusions from it
anew each time, so that late and repeated ones change what they should and nothing else.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from streams.detect.evidence.params import LinkParams
from streams.detect.thresholds import ns
from streams.fabric.intervals import merge_intervals
from streams.wire.models import (
    IDLE_NS,
    Coverage,
    Endpoint,
    Source,
    Subject,
    Symptom,
)
from streams.wire.symptoms import CounterGrowth, SymptomKind

Interval = tuple[int, int]
"""[begin, end) in event time, ns; FOREVER as end while it lasts."""

FOREVER = IDLE_NS

_CAPACITY = 256
"""Observations kept of one link: a port that flaps each second fills it in two minutes and stays a flap.

A look at all of them takes 2 ms."""


@dataclass(slots=True)
class LinkHistory:
    """The observations of one link, ordered by event time, and what older ones left behind.

    `down_since` and `off_since` hold, by device, since when an end has been down or disabled according to
    observations that were dropped.
    """

    subject: Subject
    symptoms: list[Symptom] = field(default_factory=list)
    down_since: dict[str, int] = field(default_factory=dict)
    disabled_since: dict[str, int] = field(default_factory=dict)
    pruned_until_ns: int = 0
    """When the newest observation was made that was dropped."""

    def add(self, symptom: Symptom) -> bool:
        """Take an observation in; False where it was known already, or is known better."""
        if symptom in self.symptoms:
            return False
        if not symptom.by_event:
            if any(supersedes(known, symptom) for known in self.symptoms):
                return False
            self.symptoms = [known for known in self.symptoms if not supersedes(symptom, known)]
        insort(self.symptoms, symptom, key=_order)
        if len(self.symptoms) > _CAPACITY:
            self._drop(1)
        return True

    def prune_before(self, at_ns: int) -> None:
        """Drop what is older, but keep which state it left."""
        self._drop(sum(1 for symptom in self.symptoms if symptom.at_ns < at_ns))

    def _drop(self, count: int) -> None:
        for symptom in self.symptoms[:count]:
            self.pruned_until_ns = max(self.pruned_until_ns, symptom.at_ns)
            _follow(self.down_since, symptom, SymptomKind.WENT_DOWN, SymptomKind.CAME_UP)
            _follow(self.disabled_since, symptom, SymptomKind.ADMIN_DISABLED, SymptomKind.ADMIN_ENABLED)
        del self.symptoms[:count]

    def ends(self) -> tuple[Endpoint, ...]:
        """The ends that the inventory knows: two of a link, one of a port without a known link."""
        return tuple(end for end in (self.subject.a, self.subject.z) if end is not None)

    def at(self, end: Endpoint) -> Iterator[Symptom]:
        """The observations of one end."""
        return (s for s in self.symptoms if s.device == end.device and s.port == end.port)

    def downs(self, end: Endpoint) -> list[Interval]:
        """When this end was down."""
        return self._spans(end, self.down_since, SymptomKind.WENT_DOWN, SymptomKind.CAME_UP)

    def disabled(self) -> list[Interval]:
        """When either end was administratively down: from the last reading at which it was not, as far as known."""
        spans = (
            self._spans(end, self.disabled_since, SymptomKind.ADMIN_DISABLED, SymptomKind.ADMIN_ENABLED)
            for end in self.ends()
        )
        return merge_intervals(span for ends in spans for span in ends)

    def _spans(self, end: Endpoint, since: Mapping[str, int], on: SymptomKind, off: SymptomKind) -> list[Interval]:
        spans: list[Interval] = []
        begun = since.get(end.device)
        for symptom in self.at(end):
            if symptom.kind is on and begun is None:
                begun = _since(symptom)
            elif symptom.kind is off and begun is not None:
                spans.append((begun, symptom.at_ns))
                begun = None
        return spans if begun is None else [*spans, (begun, FOREVER)]

    def coverage(self, reporters: Iterable[Endpoint]) -> Coverage:
        """Which ends told of it: a link has two, and a port whose far end nobody knows still has one missing."""
        told = {(end.device, end.port) for end in reporters}
        missing = tuple(f"{e.device}/{e.port}" for e in self.ends() if (e.device, e.port) not in told)
        return Coverage(seen=len(told), expected=2, missing=missing or (("far end",) if len(self.ends()) < 2 else ()))


def supersedes(fine: Symptom, wide: Symptom) -> bool:
    """Whether what one source read of a port from one reading to another is known better: by one in between.

    Steps between readings that follow each other never hold one another. One that holds another of its kind was told
    before a reading came that lies in it, and that says in which part it was.
    """
    if fine.kind is not wide.kind or fine.by_event or wide.by_event or fine.source is not wide.source:
        return False
    if (fine.device, fine.port) != (wide.device, wide.port):
        return False
    if not wide.since_ns:  # met so first, as it seemed
        return fine.at_ns == wide.at_ns and fine.since_ns > 0
    spans = (fine.since_ns, fine.at_ns), (wide.since_ns, wide.at_ns)
    return wide.since_ns <= fine.since_ns and fine.at_ns <= wide.at_ns and spans[0] != spans[1]


def growth_of(symptom: Symptom) -> int:
    """Return by how much a counter grew; 0 where the symptom is none of a counter."""
    return symptom.payload.growth if isinstance(symptom.payload, CounterGrowth) else 0


def _order(symptom: Symptom) -> tuple[int, int, str, str, Source, bool, int, int]:
    return (
        symptom.at_ns, symptom.kind, symptom.device, symptom.port, symptom.source, symptom.by_event, growth_of(symptom),
        symptom.since_ns,
    )  # fmt: skip


def _since(symptom: Symptom) -> int:
    """From when on it was so. A port that a person shuts goes down at once, and readings tell of why when they come."""
    return (symptom.since_ns if symptom.kind is SymptomKind.ADMIN_DISABLED else 0) or symptom.at_ns


def _follow(since: dict[str, int], symptom: Symptom, on: SymptomKind, off: SymptomKind) -> None:
    if symptom.kind is on:
        since.setdefault(symptom.device, _since(symptom))
    elif symptom.kind is off:
        since.pop(symptom.device, None)


def excused_intervals(
    params: LinkParams, history: LinkHistory, restarts: Mapping[str, list[Interval]]
) -> list[Interval]:
    """When transitions say nothing of the link: a person disabled it, or a device at an end restarted.

    Widened on both sides of an administrative down, because the far end goes down before the reading that tells why
    and trains after it; and after a restart, because ports train then.
    """
    admin, restart = ns(params.admin_grace_s), ns(params.restart_grace_s)
    spans = [(begin - admin, FOREVER if end == FOREVER else end + admin) for begin, end in history.disabled()]
    for end in history.ends():
        spans += [(since, at + restart) for since, at in restarts.get(end.device, ())]
    return merge_intervals(spans)
