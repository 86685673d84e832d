"""host/pcie-degraded: the PCIe link of a NIC or GPU trained below what it and its slot support.

Opens when it has been degraded for `open_after_s`, unlike equal parts of its host, and closes once it has been
restored for `full_s`. `measure` decides which links are degraded, and excludes GPUs that idle. The effect on the NIC
shows as rail/degraded, of which this is the parent.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, replace

from streams.detect.detector import NOW, Context, Evaluation, Observed
from streams.detect.detectors.host_pcie_degraded import report
from streams.detect.detectors.host_pcie_degraded.params import PcieParams
from streams.detect.detectors.host_pcie_degraded.report import PcieSpell, capacity
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
from streams.detect.evidence.subjects import part_subject
from streams.detect.thresholds import ns
from streams.wire.models import Subject, Symptom
from streams.wire.symptoms import SymptomKind

_CAPACITY = 64
"""Changes retained of one link: one that retrains each minute stays one episode, with the begin it had."""

_RETENTION_NS = ns(3600)
"""A closed episode is retained this long: others of the same hour may be explained by it."""


@dataclass(frozen=True, slots=True)
class PcieState:
    """One PCIe link that was degraded: its changes in order, and its published episodes."""

    subject: Subject
    symptoms: tuple[Symptom, ...] = ()
    published: PublishedEpisodes = ()
    pruned_until_ns: int = 0


def observe(_: PcieParams, state: PcieState | None, symptom: Symptom, context: Context) -> Observed[PcieState]:
    """Add a change, unless it is known, whatever the reading before it was."""
    if state is None:
        if symptom.kind is SymptomKind.PCIE_RESTORED:
            return Observed(None)
        state = PcieState(part_subject(context.topology, symptom.device, symptom.port, "pcie"))
    if any(_order(symptom) == _order(known) for known in state.symptoms):
        return Observed(state)
    symptoms = list(state.symptoms)
    insort(symptoms, symptom, key=_order)
    pruned_until_ns = state.pruned_until_ns
    if len(symptoms) > _CAPACITY:
        pruned_until_ns = max(pruned_until_ns, symptoms.pop(0).at_ns)
    return Observed(replace(state, symptoms=tuple(symptoms), pruned_until_ns=pruned_until_ns), NOW)


def _order(symptom: Symptom) -> tuple[int, int, float]:
    return symptom.at_ns, symptom.kind, capacity(symptom)


def evaluate(params: PcieParams, _: str, state: PcieState | None, context: Context) -> Evaluation[PcieState]:
    """Conclude from all changes of a link."""
    if state is None:
        return Evaluation(None)
    now_ns = context.watermark_ns
    state = _prune(state, now_ns - _RETENTION_NS)
    conclusions: list[Conclusion] = []
    due_ns = FOREVER
    for spell in _spells(params, state.symptoms):
        opens_ns = spell.begin_ns + ns(params.open_after_s)
        if spell.end_ns < opens_ns:
            continue
        if opens_ns > now_ns:
            due_ns = min(due_ns, opens_ns)
            continue
        conclusions.append(report.conclusion(params, context, state.subject, spell, opens_ns))
        if spell.end_ns != FOREVER and (full_ns := spell.end_ns + ns(params.full_s)) > now_ns:
            due_ns = min(due_ns, full_ns)
    published, episodes = reconcile(state.published, conclusions, now_ns, state.pruned_until_ns)
    state = replace(state, published=published)
    due_ns = min(due_ns, next_final_ns(conclusions, now_ns), _prune_at_ns(state, now_ns))
    return Evaluation(state if state.symptoms or state.published else None, episodes, due_ns)


def _prune(state: PcieState, before_ns: int) -> PcieState:
    """Return the state without older changes and episodes that belong to nothing that is open."""
    spans = open_intervals(state.published)
    symptoms = list(state.symptoms)
    while len(symptoms) > 1 and symptoms[1].at_ns < before_ns:
        if any(begin <= symptoms[0].at_ns <= end for begin, end in spans):
            break
        symptoms.pop(0)
    if len(symptoms) == 1 and symptoms[0].kind is SymptomKind.PCIE_RESTORED and symptoms[0].at_ns < before_ns:
        symptoms.clear()
    return replace(state, symptoms=tuple(symptoms), published=prune(state.published, before_ns))


def _prune_at_ns(state: PcieState, watermark_ns: int) -> int:
    """Return when a closed episode can be pruned; FOREVER while it is open, and where nothing is left."""
    if not state.symptoms or has_open(state.published):
        return FOREVER
    return max(state.symptoms[-1].at_ns + _RETENTION_NS + 1, watermark_ns + _RETENTION_NS // 60)


def _spells(params: PcieParams, symptoms: Sequence[Symptom]) -> list[PcieSpell]:
    """Return the times at which the link was degraded; those closer than `full_s` are one."""
    spells: list[PcieSpell] = []
    for symptom in symptoms:
        last = spells[-1] if spells else None
        if symptom.kind is SymptomKind.PCIE_RESTORED:
            if last is not None and last.end_ns == FOREVER:
                spells[-1] = replace(last, end_ns=symptom.at_ns)
        elif last is None or (last.end_ns != FOREVER and symptom.at_ns >= last.end_ns + ns(params.full_s)):
            spells.append(PcieSpell(symptom.at_ns, FOREVER, symptom))
        else:
            worst = min(last.worst, symptom, key=lambda s: (capacity(s), s.at_ns))
            spells[-1] = PcieSpell(last.begin_ns, FOREVER, worst)
    return spells
