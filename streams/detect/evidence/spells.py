"""Derives spells from symptoms: intervals in which a part of a host, or an end of a link, was in one state."""

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, cast

from streams.detect.detector import NOW, Context, Evaluation, Observed, PodSide, Scope
from streams.detect.evidence.episodes import Conclusion, PublishedEpisodes, evidence_of, has_open, open_intervals, prune
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.port_faults import part_evidence
from streams.detect.evidence.subjects import part_subject, subject_ends
from streams.detect.thresholds import Thresholds, ns
from streams.fabric.intervals import split_at_gaps
from streams.wire.models import Cause, Coverage, Endpoint, Source, Subject, Symptom, SymptomsReplaced
from streams.wire.symptoms import (
    CnpThrottledBegan,
    CongestionBegan,
    CongestionEnded,
    CongestionState,
    Fault,
    IncastBegan,
    LinkFullBegan,
    PauseBegan,
    PcieStall,
    PfcWatchdogStorm,
    SlowedByCnpBegan,
    SlowedByLossBegan,
    SymptomKind,
    ThrottledByPauseBegan,
)

_PART_CAPACITY = 64
"""The most retained symptoms of a part. Beyond it, those that change no spell are dropped, then the oldest."""

_RETENTION_NS = ns(3600)
"""A closed episode is retained for this long, because it may be the parent of findings of the same hour."""

P = TypeVar("P", bound=Thresholds)


@dataclass(frozen=True, slots=True)
class PartSpell:
    """A state lasted from `begin_ns` to `end_ns` (FOREVER if it is open); `worst` is its worst symptom."""

    begin_ns: int
    end_ns: int
    worst: Symptom


@dataclass(frozen=True, slots=True)
class PartState:
    """One part with its symptoms in order, and its published episodes."""

    subject: Subject
    symptoms: tuple[Symptom, ...] = ()
    published: PublishedEpisodes = ()
    pruned_until_ns: int = 0
    dropped: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By a key of the detector, the number of dropped symptoms and the growth that they count."""

    def pruned(self, before_ns: int, symptoms: Iterable[Symptom]) -> "PartState":
        return replace(self, symptoms=tuple(symptoms), published=prune(self.published, before_ns))

    def prune_at_ns(self, retention_ns: int, watermark_ns: int) -> int:
        """Return the time at which a closed episode can be pruned; FOREVER while it is open, and for an empty state."""
        if not self.symptoms or has_open(self.published):
            return FOREVER
        return max(self.symptoms[-1].at_ns + retention_ns + 1, watermark_ns + _RETENTION_NS // 60)


@dataclass(frozen=True, slots=True)
class PartStatement:
    """The sentences of a finding on a part; each line of evidence covers the spell so far."""

    summary: str
    cause: Cause
    statement: str
    metric: str
    observed: float | None
    expected: float | None
    faults: tuple[Fault, ...] = ()
    """Faults that the device reports of the part and that belong to the evidence."""


@dataclass(frozen=True, slots=True)
class PartSpells(Generic[P]):
    """A condition of a part of a host that begins and ends with a symptom, or consists of moments.

    It opens after `open_after_s` and ends once the part has been healthy for `clear_s`; closer spells are one. A moment
    has no end: several of them are a spell if they are closer than `clear_s`, or with `is_share` if the time that one
    measures begins less than that after the other. All conclusions follow from the retained symptoms.
    """

    begin: SymptomKind
    end: SymptomKind
    role: str
    """The role of the subject."""
    describe: Callable[[Symptom, str], PartStatement]
    """(worst symptom, name of the part)"""
    times: Callable[[P], tuple[float, float]] = lambda params: (params.open_after_s, params.clear_s)  # type: ignore[attr-defined]
    """Returns `open_after_s` and `clear_s`."""
    confidence: float = 0.9
    rank: Callable[[Symptom], float] = lambda _: 0.0
    """A lower rank is worse. If all ranks are equal, the first symptom of a spell is its evidence."""
    moment: SymptomKind | None = None
    is_share: bool = False
    """True if a moment is a share of the time since the reading before, which may be longer than `clear_s`."""
    key: Callable[[Symptom], tuple[int, int]] = lambda _: (0, 0)
    """Distinguishes states of a part that begin and end independently."""

    def pod_side(self) -> PodSide[P, PartState]:
        kinds = (self.begin, self.end) if self.moment is None else (self.begin, self.end, self.moment)
        return PodSide(PartState, Scope.PORT, self._evaluate, kinds, self._observe)

    def _observe(self, _: P, state: PartState | None, symptom: Symptom, context: Context) -> Observed[PartState]:
        """Add a symptom, unless it is known, whatever the reading before it was."""
        if state is None:
            if symptom.kind is self.end:
                return Observed(None)
            state = PartState(part_subject(context.topology, symptom.device, symptom.port, self.role))
        if any(self._order(symptom) == self._order(known) for known in state.symptoms):
            return Observed(state)
        symptoms = list(state.symptoms)
        insort(symptoms, symptom, key=self._order)
        return Observed(replace(state, symptoms=tuple(symptoms)), NOW)

    def _order(self, symptom: Symptom) -> tuple[int, int, float, tuple[int, int]]:
        return symptom.at_ns, symptom.kind, self.rank(symptom), self.key(symptom)

    def _evaluate(self, params: P, _: str, state: PartState, context: Context) -> Evaluation[PartState]:
        open_after_s, clear_s = self.times(params)
        state = self._limited(self._prune(state, context.watermark_ns - _RETENTION_NS), ns(clear_s))
        spells = self._spells(state.symptoms, ns(clear_s))
        opening = [(spell, spell.begin_ns + ns(open_after_s)) for spell in spells]
        opening = [(spell, opens_ns) for spell, opens_ns in opening if spell.end_ns >= opens_ns]
        conclusions = [
            self._conclusion(context, state.subject, spell, opens_ns, ns(clear_s))
            for spell, opens_ns in opening
            if opens_ns <= context.watermark_ns
        ]
        published, episodes, due_ns = context.reconcile(state.published, conclusions, state.pruned_until_ns)
        state = replace(state, published=published)
        waits = (opens_ns for _, opens_ns in opening)
        due_ns = min(due_ns, context.next_ns(*waits), state.prune_at_ns(_RETENTION_NS, context.watermark_ns))
        return Evaluation(state if state.symptoms or state.published else None, episodes, due_ns)

    def _conclusion(
        self, context: Context, subject: Subject, spell: PartSpell, opens_ns: int, clear_ns: int
    ) -> Conclusion:
        begin_ns, end_ns = spell.begin_ns, spell.end_ns
        over_ns = end_ns + clear_ns if end_ns != FOREVER else FOREVER
        over, at = over_ns <= context.watermark_ns, subject.a or Endpoint("")
        last_ns = end_ns if over else opens_ns
        worst = self.describe(spell.worst, f"{at.device}/{at.port}")
        line = evidence_of(
            worst.statement, worst.metric, at, (begin_ns, last_ns), worst.observed, worst.expected, "peers"
        )  # fmt: skip
        faults = part_evidence(context, at, (begin_ns, end_ns), worst.faults) if worst.faults else []
        return Conclusion(
            subject, begin_ns, end_ns - 1 if over else FOREVER, opens_ns, last_ns, end_ns if over else None, over_ns,
            worst.summary, worst.cause, (line, *faults), self.confidence, Coverage(seen=1, expected=1),
        )  # fmt: skip

    def _prune(self, state: PartState, before_ns: int) -> PartState:
        """Return the state without older symptoms and episodes that belong to no open episode."""
        spans = open_intervals(state.published)
        symptoms = list(state.symptoms)
        while len(symptoms) > 1 and symptoms[1].at_ns < before_ns:
            if any(begin <= symptoms[0].at_ns <= end for begin, end in spans):
                break
            symptoms.pop(0)
        if len(symptoms) == 1 and symptoms[0].kind is self.end and symptoms[0].at_ns < before_ns:
            symptoms.clear()
        return state.pruned(before_ns, symptoms)

    def _limited(self, state: PartState, clear_ns: int) -> PartState:
        symptoms, pruned_until_ns = list(state.symptoms), state.pruned_until_ns
        while len(symptoms) > _PART_CAPACITY:
            spells = self._spells(symptoms, clear_ns)
            pairs = ([*symptoms[:n], *symptoms[n + 2 :]] for n in range(1, len(symptoms) - 2))
            left = next((one for one in pairs if self._spells(one, clear_ns) == spells), None)
            if left is None:
                pruned_until_ns = max(pruned_until_ns, symptoms[0].at_ns)
            symptoms = symptoms[1:] if left is None else left
        return replace(state, symptoms=tuple(symptoms), pruned_until_ns=pruned_until_ns)

    def _spells(self, symptoms: Sequence[Symptom], clear_ns: int) -> list[PartSpell]:
        spells: list[PartSpell] = []
        lasting: set[tuple[int, int]] = set()
        for symptom in symptoms:
            last = spells[-1] if spells else None
            if symptom.kind is self.end:
                lasting.discard(self.key(symptom))
                if last is not None and last.end_ns == FOREVER and not lasting:
                    spells[-1] = replace(last, end_ns=symptom.at_ns)
                continue
            if symptom.kind is self.begin:
                lasting.add(self.key(symptom))
            end_ns = FOREVER if lasting else symptom.at_ns
            since_ns = symptom.since_ns or symptom.at_ns if self.is_share else symptom.at_ns
            if last is None or (last.end_ns != FOREVER and since_ns >= last.end_ns + clear_ns):
                spells.append(PartSpell(symptom.at_ns, end_ns, symptom))
            else:
                worst = min(last.worst, symptom, key=lambda s: (self.rank(s), s.at_ns, self.key(s)))
                spells[-1] = PartSpell(last.begin_ns, end_ns, worst)
        return spells


_CAPACITY = 64
"""The most retained spells of one link: a state that begins and ends for hours fills it."""

Began = TypeVar("Began", bound=CongestionBegan)
"""The payload with which the spells of a detector begin."""


@dataclass(frozen=True, slots=True)
class Spell(Generic[Began]):
    """One end, as read by one source, was in the state of `began` from `begin_ns` to `end_ns`."""

    reporter: Endpoint
    source: Source
    began: Began
    begin_ns: int
    reported_ns: int
    end_ns: int = FOREVER
    stalls: float = 0.0
    """Share of the time in which the NIC of a pausing end waited for PCIe."""

    @property
    def is_paused(self) -> bool:
        """Return whether the far end pauses; otherwise the reporting end does, or the spell is not about pause."""
        return self.began.state in (CongestionState.PAUSE_RECEIVED, CongestionState.WATCHDOG_STORM)

    @property
    def is_instant(self) -> bool:
        """Return whether an event of a watchdog reported it: the state is known at one time and has no duration."""
        return isinstance(self.began, PfcWatchdogStorm) and not self.began.began_ns

    @property
    def strength(self) -> float:
        """Return the number by which the worst of several spells is chosen."""
        match self.began:
            case PauseBegan(paused_ratio=strength) | ThrottledByPauseBegan(paused_ratio=strength):
                return strength
            case IncastBegan(ratio=strength) | LinkFullBegan(load_ratio=strength):
                return strength
            case CnpThrottledBegan(cnp_per_s=strength) | SlowedByLossBegan(retransmits_per_s=strength):
                return strength
            case _:
                return 0.0

    @property
    def key(self) -> tuple[Endpoint, Source, CongestionState]:
        return self.reporter, self.source, self.began.state


@dataclass(frozen=True, slots=True)
class LinkSpells(Generic[Began]):
    """The spells of one link, in order of time."""

    subject: Subject
    spells: tuple[Spell[Began], ...] = ()

    def observe(self, observed: Symptom | SymptomsReplaced) -> "LinkSpells[Began]":
        """Return the spells after an observation; itself if nothing changes."""
        if isinstance(observed, SymptomsReplaced):
            return self._replace_since(observed)
        payload, reporter = observed.payload, Endpoint(observed.device, observed.port)
        match payload:
            case PcieStall():
                key = (reporter, observed.source, payload.state)
                changes = {s: payload.stalled_ratio for s in self._of(key) if s.begin_ns == payload.began_ns}
                return self._with(tuple(replace(s, stalls=changes.get(s, s.stalls)) for s in self.spells), changes)
            case PfcWatchdogStorm(is_stuck=True):
                key, stuck = (reporter, observed.source, payload.state), cast("Began", payload)
                own = {s for s in self._of(key) if s.begin_ns == payload.began_ns and s.began != stuck}
                return self._with(tuple(replace(s, began=stuck) if s in own else s for s in self.spells), own)
            case PfcWatchdogStorm(began_ns=0):
                at_ns = observed.at_ns
                return self._begin(Spell(reporter, observed.source, cast("Began", payload), at_ns, at_ns, at_ns))
            case (
                PauseBegan() | PfcWatchdogStorm() | IncastBegan() | ThrottledByPauseBegan() | CnpThrottledBegan()
                | SlowedByCnpBegan() | SlowedByLossBegan() | LinkFullBegan()
            ):  # fmt: skip
                began, begin_ns = cast("Began", payload), payload.began_ns
                return self._begin(Spell(reporter, observed.source, began, begin_ns, observed.at_ns))
            case CongestionEnded():
                last_ns, key = payload.last_active_ns, (reporter, observed.source, payload.state)
                ended = {s for s in self._of(key) if s.end_ns == FOREVER and s.begin_ns <= last_ns}
                spells = tuple(replace(s, end_ns=last_ns) if s in ended else s for s in self.spells)
                return self._with(spells, ended)
            case _:
                return self

    def retain(self, is_retained: Callable[[Spell[Began]], bool]) -> "LinkSpells[Began]":
        return replace(self, spells=tuple(filter(is_retained, self.spells)))

    def _with(self, spells: tuple[Spell[Began], ...], changed: Collection[object]) -> "LinkSpells[Began]":
        return replace(self, spells=spells) if changed else self

    def _of(self, key: tuple[Endpoint, Source, CongestionState]) -> list[Spell[Began]]:
        return [spell for spell in self.spells if spell.key == key]

    def _begin(self, fresh: Spell[Began]) -> "LinkSpells[Began]":
        own = self._of(fresh.key)
        if any(spell.begin_ns == fresh.begin_ns and spell.is_instant == fresh.is_instant for spell in own):
            return self
        return replace(self, spells=_bounded(sorted([*self.spells, fresh], key=_spell_order)))

    def _replace_since(self, replaced: SymptomsReplaced) -> "LinkSpells[Began]":
        """Remove later symptoms, and apply their replacements."""
        key = (Endpoint(replaced.device, replaced.port), replaced.source, replaced.state)
        timed = [spell for spell in self._of(key) if not spell.is_instant]
        gone = {spell for spell in timed if spell.reported_ns > replaced.since_ns}
        reopened = {spell for spell in timed if spell not in gone and replaced.since_ns <= spell.end_ns < FOREVER}
        spells = (spell for spell in self.spells if spell not in gone)
        result = self._with(
            tuple(replace(spell, end_ns=FOREVER) if spell in reopened else spell for spell in spells), gone | reopened
        )
        for symptom in replaced.replacements:
            result = result.observe(symptom)
        return result

    def pause_origin(self, spell: Spell[Began]) -> Endpoint:
        """Return the end that pauses: the reporter, or the other end."""
        if not spell.is_paused:
            return spell.reporter
        ends = subject_ends(self.subject)
        return next((end for end in ends if end.device != spell.reporter.device), Endpoint("the far end"))


def end_moved(
    links: Mapping[str, LinkSpells[Began]], has_moved: Callable[[Subject], bool], at_ns: int
) -> tuple[dict[str, LinkSpells[Began]], list[Symptom]]:
    """Return spells by link, of which those of moved links end by a time, and the symptoms that began the open ones."""
    found, symptoms = dict(links), list[Symptom]()
    for key, link in links.items():
        if has_moved(link.subject):
            symptoms += [
                Symptom(spell.reporter.device, spell.reporter.port, spell.began, spell.reported_ns, source=spell.source)
                for spell in link.spells
                if spell.end_ns == FOREVER
            ]
            ended = (replace(spell, end_ns=max(spell.begin_ns, min(spell.end_ns, at_ns))) for spell in link.spells)
            found[key] = replace(link, spells=tuple(ended))
    return found, symptoms


def _bounded(spells: list[Spell[Began]]) -> tuple[Spell[Began], ...]:
    """Return the spells; of too many, the two of one key that are closest are joined, so that the start is retained.

    The second must not be stronger than the first, unless all are.
    """
    if len(spells) <= _CAPACITY:
        return tuple(spells)
    newest: dict[tuple[Endpoint, Source, CongestionState], int] = {}
    pairs = []
    for place, spell in enumerate(spells):
        if spell.end_ns != FOREVER and not spell.is_instant:
            if (before := newest.get(spell.key)) is not None:
                is_stronger = spell.strength > spells[before].strength
                pairs.append((is_stronger, spell.begin_ns - spells[before].end_ns, before, place))
            newest[spell.key] = place
    if pairs:
        *_, first, second = min(pairs)
        gone = spells.pop(second)
        spells[first] = replace(spells[first], end_ns=max(spells[first].end_ns, gone.end_ns))
    return tuple(spells)


def _spell_order(spell: Spell[Any]) -> tuple[int, str, str, Source, bool]:
    return spell.begin_ns, spell.reporter.device, spell.reporter.port, spell.source, spell.is_paused


class SpellRun(list[Spell[Began]], Generic[Began]):
    """Consecutive spells of one link, between which the state was never absent for long."""

    @property
    def begin_ns(self) -> int:
        return self[0].begin_ns

    @property
    def end_ns(self) -> int:
        """Return the end of its last spell; FOREVER while it is open."""
        return max(spell.end_ns for spell in self)

    @property
    def reported_ns(self) -> int:
        return min(spell.reported_ns for spell in self)

    @property
    def seen_ns(self) -> int:
        """Return the time of the newest report; for an open spell, that of its start."""
        return max(spell.reported_ns if spell.end_ns == FOREVER else spell.end_ns for spell in self)

    @property
    def reporters(self) -> list[Endpoint]:
        return list(dict.fromkeys(spell.reporter for spell in self))

    def over_ns(self, quiet_ns: int) -> int:
        """Return the time of its end if no spell follows; FOREVER while an end is in the state."""
        end_ns = self.end_ns
        return FOREVER if end_ns == FOREVER else end_ns + quiet_ns + report_delay_ns(quiet_ns, self)


def report_delay_ns(quiet_ns: int, spells: Iterable[Spell[Any]]) -> int:
    """Return the delay of the next spell's report after its start, by these spells; it joins them within `quiet_ns`.

    A gap in the readings makes the delay seem long; it is at most twice `quiet_ns`.
    """
    return min(2 * quiet_ns, min((spell.reported_ns - spell.begin_ns for spell in spells), default=0))


def group_spells(quiet_ns: int, spells: Sequence[Spell[Began]]) -> Iterator[SpellRun[Began]]:
    """Yield groups of spells between which the state was never absent from the link for `quiet_ns`."""
    yield from map(SpellRun, split_at_gaps(spells, lambda spell: (spell.begin_ns, spell.end_ns), quiet_ns))
