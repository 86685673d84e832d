"""The spells of a part of a host: the stretches for which symptoms show a state that begins, changes and ends.

Used by detectors of GPUs, NICs and modules. A spell opens after `open_after_s`, and is over once the part has been
well for `clear_s`; spells that are closer are one. Everything is concluded from the retained symptoms.
"""

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

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
from streams.detect.thresholds import ns
from streams.wire.models import Subject, Symptom

_CAPACITY = 64
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


def observe(
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
    if len(symptoms) > _CAPACITY:
        pruned_until_ns = max(pruned_until_ns, symptoms.pop(0).at_ns)
    return Observed(replace(state, symptoms=tuple(symptoms), pruned_until_ns=pruned_until_ns), NOW)


def evaluate(rules: SpellRules, state: PartState | None, context: Context, conclude: Conclude) -> Evaluation[PartState]:
    """Conclude from all symptoms of a part."""
    if state is None:
        return Evaluation(None)
    now_ns = context.watermark_ns
    state = _prune(rules, state, now_ns - _RETENTION_NS)
    conclusions: list[Conclusion] = []
    due_ns = FOREVER
    for spell in _spells(rules, state.symptoms):
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


def _spells(rules: SpellRules, symptoms: Sequence[Symptom]) -> list[PartSpell]:
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
