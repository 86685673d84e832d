"""Holds the history of one link: observations of both ends by all sources, and the intervals derived from them.

Everything here is a pure function of the set of observations, whatever their order. Detectors conclude from all of it
each time, so that late and repeated observations change only what they must.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from streams.detect.evidence.params import LinkParams
from streams.detect.evidence.subjects import subject_ends
from streams.detect.thresholds import ns
from streams.fabric.intervals import Interval, merge_intervals
from streams.wire.models import IDLE_NS, Endpoint, Source, Subject, Symptom
from streams.wire.symptoms import SESSION_FAULTS, CounterGrowth, Fault, PortFault, PortTransition, SymptomKind

_FAULT_NS, _FLAG_NS = ns(600), ns(60)
"""Faults of one kind, and changes of a flag to one value, are retained once within this time."""

CONTRADICTED_NS = _FAULT_NS + ns(60)
"""A contradiction that goes on is retained again within this time."""

FOREVER = IDLE_NS
"""The end of an open interval."""

_CAPACITY = 256
"""The most retained observations of a link, whose evaluation takes some milliseconds. A port that flaps each second
fills it in two minutes; older transitions are then counted by the minute (`FoldedDowns`)."""

_MAX_FAULTS = 64
"""The most faults that may displace transitions."""

_FOLD_NS = ns(60)
_MAX_FOLDED = 64
"""Minutes of one end and source; the oldest two are then joined."""

HOLD_UP_S = 5
"""An up that lasts this long ends an outage (DETECTION 3)."""

LINK_KINDS = frozenset({
    SymptomKind.WENT_DOWN, SymptomKind.CAME_UP, SymptomKind.ADMIN_DISABLED, SymptomKind.ADMIN_ENABLED,
    SymptomKind.DOWNS_COUNTED, SymptomKind.TRANSITIONS_COUNTED,
})  # fmt: skip
"""The changes of a port's state, and their counts, that belong to the history of its link."""

RECORDED_KINDS = LINK_KINDS | {SymptomKind.PORT_FAULT}
"""All symptoms of a port in the history of its link; faults that its device reports are evidence for later changes."""

COUNTED_KINDS = LINK_KINDS - {SymptomKind.ADMIN_DISABLED, SymptomKind.ADMIN_ENABLED}
"""The transitions and counts that are dropped beyond the capacity; what people do is retained."""

_DOWNS = frozenset({SymptomKind.WENT_DOWN, SymptomKind.DOWNS_COUNTED, SymptomKind.TRANSITIONS_COUNTED})


@dataclass(frozen=True, slots=True)
class FoldedDowns:
    """The downs of one end by one kind of evidence in [begin_ns, end_ns], whose observations were dropped."""

    device: str
    port: str
    kind: SymptomKind
    source: Source
    by_event: bool
    begin_ns: int
    end_ns: int
    count: int
    """Downs, or transitions of a counter of transitions."""

    @property
    def at_ns(self) -> int:
        """Return the time of the newest of them, as of a symptom."""
        return self.end_ns

    @property
    def key(self) -> tuple[str, str, SymptomKind, Source, bool]:
        return self.device, self.port, self.kind, self.source, self.by_event

    def joined(self, later: "FoldedDowns") -> "FoldedDowns":
        return replace(self, end_ns=max(self.end_ns, later.end_ns), count=self.count + later.count)


@dataclass(slots=True)
class LinkHistory:
    """The observations of one link, ordered by event time, and the state after the pruned ones.

    `down_since` and `disabled_since` map a device to the time since which its end is down or disabled, by pruned
    observations. Transitions beyond the capacity are dropped: `folded` has their counts, and `outages` maps a device to
    the intervals in which its end was never up for HOLD_UP_S.
    """

    subject: Subject
    symptoms: list[Symptom] = field(default_factory=list)
    down_since: dict[str, int] = field(default_factory=dict)
    disabled_since: dict[str, int] = field(default_factory=dict)
    pruned_until_ns: int = 0
    """The time of the newest pruned observation."""
    folded: list[FoldedDowns] = field(default_factory=list)
    outages: dict[str, list[Interval]] = field(default_factory=dict)

    def add(self, symptom: Symptom) -> bool:
        """Insert an observation; return False if it, or a more precise one, is known."""
        if symptom in self.symptoms or self._is_folded(symptom):
            return False
        if not symptom.by_event:
            if any(supersedes(known, symptom) for known in self.symptoms):
                return False
            self.symptoms = [known for known in self.symptoms if not supersedes(symptom, known)]
        if isinstance(symptom.payload, PortFault) and not self._admits_fault(symptom):
            return False
        insort(self.symptoms, symptom, key=_order)
        if len(self.symptoms) > _CAPACITY:
            self._displace()
        return True

    def _is_folded(self, symptom: Symptom) -> bool:
        """Return whether a symptom is as old as those of its counter that were dropped, so that it may be one."""
        if not self.folded or (fresh := _folded(symptom)) is None:
            return False
        return any(known.key == fresh.key and symptom.at_ns <= known.end_ns for known in self.folded)

    def _displace(self) -> None:
        """Drop the oldest transition and count it; drop the oldest fault instead if there are too many."""
        faults = [known for known in self.symptoms if known.kind is SymptomKind.PORT_FAULT]
        places = (n for n, known in enumerate(self.symptoms) if known.kind in COUNTED_KINDS)
        if len(faults) > _MAX_FAULTS:
            sessions = [id(known) for known in _open_sessions(faults)]
            places = (n for n, known in enumerate(self.symptoms) if known in faults and id(known) not in sessions)
        symptom = self.symptoms.pop(next(places, 0))
        since_ns = self.down_since.get(symptom.device)
        self._follow(symptom)
        if symptom.kind is SymptomKind.CAME_UP and since_ns is not None:
            spans = merge_intervals([*self.outages.get(symptom.device, ()), (since_ns, symptom.at_ns)], ns(HOLD_UP_S))
            self.outages[symptom.device] = spans[-_MAX_FOLDED:]
        if (fresh := _folded(symptom)) is not None:
            own = [known for known in self.folded if known.key == fresh.key]
            others = [known for known in self.folded if known.key != fresh.key]
            is_same = own and fresh.end_ns - own[-1].begin_ns <= _FOLD_NS
            own = [*own[:-1], own[-1].joined(fresh)] if is_same else [*own, fresh]
            own = [own[0].joined(own[1]), *own[2:]] if len(own) > _MAX_FOLDED else own
            self.folded = sorted([*others, *own], key=lambda known: (known.end_ns, known.key))

    def _admits_fault(self, symptom: Symptom) -> bool:
        """Return whether to add a fault: only the first of several in the same minutes is retained.

        Otherwise a module or NIC that repeats its fault each second would displace the transitions.
        """
        for place, known in enumerate(self.symptoms):
            if _fault_key(known) == _fault_key(symptom):
                if known.at_ns <= symptom.at_ns:
                    return False
                del self.symptoms[place]
                return True
        return True

    def prune_before(self, at_ns: int) -> None:
        """Drop older observations, but retain the state after them. A link that is down retains its faults, a link that
        is up retains its sessions that are down.
        """
        old = [symptom for symptom in self.symptoms if symptom.at_ns < at_ns]
        for symptom in old:
            self._follow(symptom)
        del self.symptoms[: len(old)]
        faults = [symptom for symptom in old if symptom.kind is SymptomKind.PORT_FAULT]
        self.symptoms[:0] = faults if self.down_since else list(_open_sessions(faults))
        self.folded = [known for known in self.folded if known.end_ns >= at_ns]
        recent = {device: [span for span in spans if span[1] >= at_ns] for device, spans in self.outages.items()}
        self.outages = {device: spans for device, spans in recent.items() if spans}

    def _follow(self, symptom: Symptom) -> None:
        """Add a dropped symptom to the state after the pruned observations."""
        self.pruned_until_ns = max(self.pruned_until_ns, symptom.at_ns)
        _follow(self.down_since, symptom, SymptomKind.WENT_DOWN, SymptomKind.CAME_UP)
        _follow(self.disabled_since, symptom, SymptomKind.ADMIN_DISABLED, SymptomKind.ADMIN_ENABLED)

    def merge(self, other: "LinkHistory") -> None:
        """Insert the observations of the same link under another name."""
        for symptom in other.symptoms:
            self.add(symptom)
        self.down_since |= other.down_since
        self.disabled_since |= other.disabled_since
        self.pruned_until_ns = max(self.pruned_until_ns, other.pruned_until_ns)
        self.folded += [known for known in other.folded if known not in self.folded]
        for device, spans in other.outages.items():
            self.outages[device] = merge_intervals([*self.outages.get(device, ()), *spans])

    @property
    def is_blank(self) -> bool:
        """Return whether nothing is retained that could begin or prolong an episode."""
        return not (self.symptoms or self.down_since or self.disabled_since)

    def ends(self) -> tuple[Endpoint, ...]:
        """Return the ends that the inventory knows."""
        return subject_ends(self.subject)

    def at(self, end: Endpoint) -> Iterator[Symptom]:
        return (s for s in self.symptoms if s.device == end.device and s.port == end.port)

    def downs(self, end: Endpoint) -> list[Interval]:
        """Return the intervals in which this end was down, by the retained observations."""
        return self._spans(end, self.down_since, SymptomKind.WENT_DOWN, SymptomKind.CAME_UP)

    def outages_of(self, end: Endpoint) -> list[Interval]:
        """Return the downs of this end, and before them the outages whose observations were dropped."""
        return [*self.outages.get(end.device, ()), *self.downs(end)]

    def disabled(self) -> list[Interval]:
        """Return the intervals in which either end was administratively down, from the last reading without it."""
        return merge_intervals(span for end in self.ends() for span in self.disabled_of(end))

    def disabled_of(self, end: Endpoint) -> list[Interval]:
        return self._spans(end, self.disabled_since, SymptomKind.ADMIN_DISABLED, SymptomKind.ADMIN_ENABLED)

    def contradictions(self, begin_ns: int, end_ns: int) -> Iterator[Symptom]:
        """Yield the reports that sources contradict each other, near an interval; one is valid for ten minutes."""
        first_ns, last_ns = begin_ns - CONTRADICTED_NS, end_ns + CONTRADICTED_NS
        for s in self.symptoms:
            is_one = isinstance(s.payload, PortFault) and s.payload.fault is Fault.CONTRADICTED
            if is_one and first_ns <= s.at_ns <= last_ns:
                yield s

    def newest_change_ns(self, end: Endpoint) -> int:
        """Return the time of the newest retained state change of this end; 0 without one."""
        return max((s.at_ns for s in self.at(end) if isinstance(s.payload, PortTransition)), default=0)

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


def _folded(symptom: Symptom) -> FoldedDowns | None:
    """Return a dropped symptom as counted downs; None if it is no transition, or only the first state of a port."""
    if not is_transition(symptom):
        return None
    kind, count = symptom.kind, growth_of(symptom)
    if kind in (SymptomKind.WENT_DOWN, SymptomKind.CAME_UP):
        kind, count = SymptomKind.WENT_DOWN, int(kind is SymptomKind.WENT_DOWN)
    at_ns = symptom.at_ns
    return FoldedDowns(symptom.device, symptom.port, kind, symptom.source, symptom.by_event, at_ns, at_ns, count)


def is_transition(symptom: Symptom) -> bool:
    """Return whether a symptom is a transition, and not the first state read of a port."""
    if symptom.kind in (SymptomKind.WENT_DOWN, SymptomKind.CAME_UP):
        return symptom.by_event or symptom.since_ns > 0
    return symptom.kind in _DOWNS


def supersedes(fine: Symptom, wide: Symptom) -> bool:
    """Return whether another step dates one step between two readings of a source more precisely.

    Steps between successive readings never contain one another. If a step contains another of its kind, a late reading
    arrived within it after it was emitted, and shows in which part the change was.
    """
    if fine.kind is not wide.kind or fine.by_event or wide.by_event or fine.source is not wide.source:
        return False
    if (fine.device, fine.port) != (wide.device, wide.port) or fault_order(fine) != fault_order(wide):
        return False
    if not wide.since_ns:  # emitted as the first reading of the port
        return fine.at_ns == wide.at_ns and fine.since_ns > 0
    spans = (fine.since_ns, fine.at_ns), (wide.since_ns, wide.at_ns)
    return wide.since_ns <= fine.since_ns and fine.at_ns <= wide.at_ns and spans[0] != spans[1]


def growth_of(symptom: Symptom) -> int:
    """Return the growth of a counter; 0 if the symptom is not of a counter."""
    return symptom.payload.growth if isinstance(symptom.payload, CounterGrowth) else 0


def _open_sessions(faults: Iterable[Symptom]) -> Iterable[Symptom]:
    """Return the newest downs of sessions whose recovery is not among these faults."""
    found: dict[tuple[str, str, Source, Fault], Symptom] = {}
    for symptom in faults:
        fault = symptom.payload
        if isinstance(fault, PortFault) and fault.fault in SESSION_FAULTS:
            key = symptom.device, symptom.port, symptom.source, fault.fault
            found.pop(key, None)
            if not fault.is_over:
                found[key] = symptom
    return found.values()


def _fault_key(symptom: Symptom) -> tuple[Any, ...] | None:
    fault = symptom.payload
    if not isinstance(fault, PortFault):
        return None
    place = symptom.device, symptom.port, symptom.source
    return (
        *place,
        fault.fault,
        fault.lane,
        fault.is_over,
        symptom.at_ns // (_FLAG_NS if fault.fault.has_end else _FAULT_NS),
    )


def fault_order(symptom: Symptom) -> tuple[int, int, bool, str]:
    """Return the sort key of faults at the same time; equal for symptoms that are not faults."""
    fault = symptom.payload
    if not isinstance(fault, PortFault):
        return 0, 0, False, ""
    return fault.fault, -1 if fault.lane is None else fault.lane, fault.is_over, fault.report


def _order(symptom: Symptom) -> tuple[int, int, str, str, Source, bool, int, int, tuple[int, int, bool, str]]:
    return (
        symptom.at_ns, symptom.kind, symptom.device, symptom.port, symptom.source, symptom.by_event, growth_of(symptom),
        symptom.since_ns, fault_order(symptom),
    )  # fmt: skip


def _since(symptom: Symptom) -> int:
    """Return the start of a symptom's effect: a disabled port goes down before the reading that shows why."""
    return (symptom.since_ns if symptom.kind is SymptomKind.ADMIN_DISABLED else 0) or symptom.at_ns


def _follow(since: dict[str, int], symptom: Symptom, on: SymptomKind, off: SymptomKind) -> None:
    if symptom.kind is on:
        since.setdefault(symptom.device, _since(symptom))
    elif symptom.kind is off:
        since.pop(symptom.device, None)


def excused_intervals(
    params: LinkParams, history: LinkHistory, restarts: Mapping[str, list[Interval]]
) -> list[Interval]:
    """Return intervals of transitions that are no fault: an administrative down, or a restart of a device at an end.

    Intervals are widened on both sides of an administrative down, because the far end goes down before the reading that
    shows the reason and trains after it. They are widened after a restart, because ports then train.
    """
    admin, restart = ns(params.admin_grace_s), ns(params.restart_grace_s)
    spans = [(begin - admin, FOREVER if end == FOREVER else end + admin) for begin, end in history.disabled()]
    for end in history.ends():
        spans += [(since, at + restart) for since, at in restarts.get(end.device, ())]
    return merge_intervals(spans)


def training_intervals(
    params: LinkParams, history: LinkHistory, restarts: Mapping[str, list[Interval]]
) -> list[Interval]:
    """Return intervals of errors and levels that are no fault of the fiber: the link was excused, down or trained.

    A link that goes down loses its last frames and trains for a while; link/flap and link/down report that.
    """
    grace = ns(params.restart_grace_s)
    spans = excused_intervals(params, history, restarts)
    spans += [(s.since_ns or s.at_ns, s.at_ns + grace) for s in history.symptoms if s.kind in _DOWNS]
    spans += [(folded.begin_ns, folded.end_ns + grace) for folded in history.folded]
    for end in history.ends():
        spans += [(begin, until if until == FOREVER else until + grace) for begin, until in history.outages_of(end)]
    return merge_intervals(spans)
