"""Spells: intervals in which a part of a host, or an end of a link, was in one state by its symptoms."""

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar, cast

from streams.detect.detector import NOW, Context, Evaluation, Observed
from streams.detect.evidence.episodes import (
    Conclusion,
    PublishedEpisodes,
    has_open,
    next_final_ns,
    open_intervals,
    prune,
    reconcile,
)
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.subjects import subject_ends
from streams.detect.thresholds import ns
from streams.wire.models import Endpoint, Source, Subject, Symptom, SymptomsReplaced
from streams.wire.symptoms import (
    CnpThrottledBegan,
    CongestionBegan,
    CongestionEnded,
    CongestionState,
    IncastBegan,
    LinkFullBegan,
    PauseBegan,
    PcieStall,
    PfcWatchdogStorm,
    SlowedByCnpBegan,
    SlowedByLossBegan,
    ThrottledByPauseBegan,
)

_PART_CAPACITY = 64
"""Symptoms retained of one part: one that changes each minute stays one episode, with the begin it had."""

_RETENTION_NS = ns(3600)
"""A closed episode is retained this long: other findings of the same hour may have it as their parent."""


class SpellRules(NamedTuple):
    """The meaning of a detector's symptoms, and its times."""

    open_after_s: float
    clear_s: float
    is_end: Callable[[Symptom], bool]
    rank: Callable[[Symptom], float]
    """Lower is worse."""


@dataclass(frozen=True, slots=True)
class PartSpell:
    """A state lasted from `begin_ns` to `end_ns` (FOREVER: it lasts); `worst` is its worst symptom."""

    begin_ns: int
    end_ns: int
    worst: Symptom


@dataclass(frozen=True, slots=True)
class PartState:
    """One part with symptoms: these in order, and its published episodes."""

    subject: Subject
    symptoms: tuple[Symptom, ...] = ()
    published: PublishedEpisodes = ()
    pruned_until_ns: int = 0


Conclude = Callable[[Subject, PartSpell, int], Conclusion]
"""(subject, spell, opens_ns): the episode of a spell that opened."""


def observe_part(
    rules: SpellRules, state: PartState | None, symptom: Symptom, subject: Callable[[], Subject]
) -> Observed[PartState]:
    """Add a symptom, unless it is known, whatever the reading before it was."""
    if state is None:
        if rules.is_end(symptom):
            return Observed(None)
        state = PartState(subject())

    def order(one: Symptom) -> tuple[int, int, float]:
        return one.at_ns, one.kind, rules.rank(one)

    if any(order(symptom) == order(known) for known in state.symptoms):
        return Observed(state)
    symptoms = list(state.symptoms)
    insort(symptoms, symptom, key=order)
    pruned_until_ns = state.pruned_until_ns
    if len(symptoms) > _PART_CAPACITY:
        pruned_until_ns = max(pruned_until_ns, symptoms.pop(0).at_ns)
    return Observed(replace(state, symptoms=tuple(symptoms), pruned_until_ns=pruned_until_ns), NOW)


def evaluate_part(
    rules: SpellRules, state: PartState | None, context: Context, conclude: Conclude
) -> Evaluation[PartState]:
    """Conclude from all symptoms of a part."""
    if state is None:
        return Evaluation(None)
    now_ns = context.watermark_ns
    state = _prune(rules, state, now_ns - _RETENTION_NS)
    conclusions: list[Conclusion] = []
    due_ns = FOREVER
    for spell in _part_spells(rules, state.symptoms):
        opens_ns = spell.begin_ns + ns(rules.open_after_s)
        if spell.end_ns < opens_ns:
            continue
        if opens_ns > now_ns:
            due_ns = min(due_ns, opens_ns)
            continue
        conclusions.append(conclude(state.subject, spell, opens_ns))
        if spell.end_ns != FOREVER and (clear_ns := spell.end_ns + ns(rules.clear_s)) > now_ns:
            due_ns = min(due_ns, clear_ns)
    published, episodes = reconcile(state.published, conclusions, now_ns, state.pruned_until_ns)
    state = replace(state, published=published)
    due_ns = min(due_ns, next_final_ns(conclusions, now_ns), _prune_at_ns(state, now_ns))
    return Evaluation(state if state.symptoms or state.published else None, episodes, due_ns)


def _prune(rules: SpellRules, state: PartState, before_ns: int) -> PartState:
    """Return the state without older symptoms and episodes that belong to nothing that is open."""
    spans = open_intervals(state.published)
    symptoms = list(state.symptoms)
    while len(symptoms) > 1 and symptoms[1].at_ns < before_ns:
        if any(begin <= symptoms[0].at_ns <= end for begin, end in spans):
            break
        symptoms.pop(0)
    if len(symptoms) == 1 and rules.is_end(symptoms[0]) and symptoms[0].at_ns < before_ns:
        symptoms.clear()
    return replace(state, symptoms=tuple(symptoms), published=prune(state.published, before_ns))


def _prune_at_ns(state: PartState, watermark_ns: int) -> int:
    """Return when a closed episode can be pruned; FOREVER while it is open, and where nothing is left."""
    if not state.symptoms or has_open(state.published):
        return FOREVER
    return max(state.symptoms[-1].at_ns + _RETENTION_NS + 1, watermark_ns + _RETENTION_NS // 60)


def _part_spells(rules: SpellRules, symptoms: Sequence[Symptom]) -> list[PartSpell]:
    """Return the spells; those closer than `clear_s` are one."""
    spells: list[PartSpell] = []
    for symptom in symptoms:
        last = spells[-1] if spells else None
        if rules.is_end(symptom):
            if last is not None and last.end_ns == FOREVER:
                spells[-1] = replace(last, end_ns=symptom.at_ns)
        elif last is None or (last.end_ns != FOREVER and symptom.at_ns >= last.end_ns + ns(rules.clear_s)):
            spells.append(PartSpell(symptom.at_ns, FOREVER, symptom))
        else:
            worst = min(last.worst, symptom, key=lambda s: (rules.rank(s), s.at_ns))
            spells[-1] = PartSpell(last.begin_ns, FOREVER, worst)
    return spells


_CAPACITY = 64
"""Spells retained of one link: a state that comes and goes for hours fills it."""

Began = TypeVar("Began", bound=CongestionBegan)
"""The payload with which the spells of a detector begin."""


@dataclass(frozen=True, slots=True)
class Spell(Generic[Began]):
    """One end, as one source reads it, was in the state of `began` from `begin_ns` to `end_ns`."""

    reporter: Endpoint
    source: Source
    began: Began
    begin_ns: int
    reported_ns: int
    end_ns: int = FOREVER
    stalls: float = 0.0
    """Share of the time in which the NIC of an end that pauses waited for PCIe."""

    @property
    def is_paused(self) -> bool:
        """The far end pauses; otherwise the reporting end does, or the spell is not about pause."""
        return self.began.state is CongestionState.PAUSE_RECEIVED

    @property
    def is_instant(self) -> bool:
        """A watchdog reported it: the state is known at that moment, and has no duration."""
        return isinstance(self.began, PfcWatchdogStorm)

    @property
    def key(self) -> tuple[Endpoint, Source, CongestionState]:
        """Spells of one key follow each other."""
        return self.reporter, self.source, self.began.state


@dataclass(frozen=True, slots=True)
class LinkSpells(Generic[Began]):
    """The spells of one link, in order of time."""

    subject: Subject
    spells: tuple[Spell[Began], ...] = ()

    def observe(self, observed: Symptom | SymptomsReplaced) -> "LinkSpells[Began]":
        """Return the spells after an observation; itself where it adds nothing."""
        if isinstance(observed, SymptomsReplaced):
            return self._replace_since(observed)
        payload, reporter = observed.payload, Endpoint(observed.device, observed.port)
        match payload:
            case PcieStall():
                key = (reporter, observed.source, payload.state)
                changes = {s: payload.stalled_ratio for s in self._of(key) if s.begin_ns == payload.began_ns}
                return self._with(tuple(replace(s, stalls=changes.get(s, s.stalls)) for s in self.spells), changes)
            case PfcWatchdogStorm():
                at_ns = observed.at_ns
                return self._begin(Spell(reporter, observed.source, cast("Began", payload), at_ns, at_ns, at_ns))
            case (
                PauseBegan() | IncastBegan() | ThrottledByPauseBegan() | CnpThrottledBegan() | SlowedByCnpBegan()
                | SlowedByLossBegan() | LinkFullBegan()
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
        """Return only the spells that are retained."""
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
        """Take back later symptoms, and apply those that replace them."""
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
        """Return the end that pauses: the reporter, or the end beyond it."""
        if not spell.is_paused:
            return spell.reporter
        ends = subject_ends(self.subject)
        return next((end for end in ends if end.device != spell.reporter.device), Endpoint("the far end"))


def _bounded(spells: list[Spell[Began]]) -> tuple[Spell[Began], ...]:
    """Return the spells with the oldest two joined where there are too many, so that the begin is retained."""
    if len(spells) > _CAPACITY and spells[1].end_ns != FOREVER:
        gone = spells.pop(1)
        spells[0] = replace(spells[0], end_ns=max(spells[0].end_ns, gone.end_ns))
    return tuple(spells)


def _spell_order(spell: Spell[Any]) -> tuple[int, str, str, Source, bool]:
    return spell.begin_ns, spell.reporter.device, spell.reporter.port, spell.source, spell.is_paused


def ends_at_ns(quiet_ns: int, spells: Sequence[Spell[Any]]) -> int:
    """Return when a group of spells is over if none follows; FOREVER while an end is in the state."""
    end_ns = max(spell.end_ns for spell in spells)
    return FOREVER if end_ns == FOREVER else end_ns + quiet_ns + report_delay_ns(quiet_ns, spells)


def report_delay_ns(quiet_ns: int, spells: Iterable[Spell[Any]]) -> int:
    """Return how long after its begin a next spell is reported, as these were; it belongs to them within `quiet_ns`.

    A gap in the readings makes the delay seem long; it is at most twice `quiet_ns`.
    """
    return min(2 * quiet_ns, min((spell.reported_ns - spell.begin_ns for spell in spells), default=0))


def group_spells(quiet_ns: int, spells: Sequence[Spell[Began]]) -> Iterator[list[Spell[Began]]]:
    """Yield groups of spells between which the link was never free of the state for `quiet_ns`."""
    group: list[Spell[Began]] = []
    for spell in spells:
        end_ns = max((s.end_ns for s in group), default=FOREVER)
        if group and end_ns != FOREVER and spell.begin_ns > end_ns + quiet_ns:
            yield group
            group = []
        group.append(spell)
    if group:
        yield group
