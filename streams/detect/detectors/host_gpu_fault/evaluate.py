"""host/gpu-fault: a GPU of which the driver reports a fault.

Opens at the first Xid that is not caused by a program, or when uncorrectable ECC errors are counted. A corrected or
contained fault closes after `quiet_s` without another; one that needs a reset lasts until the host restarts, the
driver reports that the GPU needs no action, or `reset_quiet_s` have passed. evidence/xids.py grades the Xids.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from streams.detect.detector import NOW, Context, Evaluation, Observed
from streams.detect.detectors.host_gpu_fault import report
from streams.detect.detectors.host_gpu_fault.params import GpuParams
from streams.detect.detectors.host_gpu_fault.report import code_of
from streams.detect.evidence import xids
from streams.detect.evidence.episodes import (
    Conclusion,
    PublishedEpisodes,
    has_open,
    next_final_ns,
    open_intervals,
    prune,
    reconcile,
)
from streams.detect.evidence.link_history import FOREVER, growth_of, supersedes
from streams.detect.evidence.subjects import part_subject
from streams.detect.evidence.xids import Grade
from streams.detect.thresholds import ns
from streams.wire.models import Subject, Symptom
from streams.wire.symptoms import GpuXid

_CAPACITY = 64
"""Xids retained of one GPU: a driver that repeats one each second adds nothing after a minute."""

_RETENTION_NS = ns(3600)
"""A closed fault is retained this long: others of the same hour may be explained by it."""


@dataclass(frozen=True, slots=True)
class GpuState:
    """One GPU that had a fault: its symptoms in order, and its published episodes."""

    subject: Subject
    symptoms: tuple[Symptom, ...] = ()
    published: PublishedEpisodes = ()
    pruned_until_ns: int = 0


def device_of(state: GpuState) -> str:
    """Return the host of a GPU, whose restart ends a fault."""
    return state.subject.a.device if state.subject.a is not None else ""


def observe(_: GpuParams, state: GpuState | None, symptom: Symptom, context: Context) -> Observed[GpuState]:
    """Add a symptom, unless it is irrelevant, known, or known more precisely."""
    if not _is_relevant(symptom):
        return Observed(state)
    state = state or GpuState(part_subject(context.topology, symptom.device, symptom.port, "gpu"))
    if symptom in state.symptoms or any(supersedes(known, symptom) for known in state.symptoms):
        return Observed(state)
    symptoms = [known for known in state.symptoms if not supersedes(symptom, known)]
    symptoms = sorted([*symptoms, symptom], key=_order)
    pruned_until_ns = state.pruned_until_ns
    if len(symptoms) > _CAPACITY:
        # One in the middle matters least: the first shows since when, the last until when.
        pruned_until_ns = max(pruned_until_ns, symptoms.pop(_CAPACITY // 2).at_ns)
    return Observed(replace(state, symptoms=tuple(symptoms), pruned_until_ns=pruned_until_ns), NOW)


def _is_relevant(symptom: Symptom) -> bool:
    """Return whether a symptom is of a fault of the GPU, or of its end."""
    return xids.grade(code_of(symptom)) is not Grade.NONE or _is_recovered(symptom)


def _is_recovered(symptom: Symptom) -> bool:
    return isinstance(symptom.payload, GpuXid) and symptom.payload.needs_nothing


def _order(symptom: Symptom) -> tuple[int, int, int, str]:
    payload = symptom.payload
    if isinstance(payload, GpuXid):
        return symptom.at_ns, symptom.kind, payload.xid, payload.message
    return symptom.at_ns, symptom.kind, growth_of(symptom), ""


def evaluate(params: GpuParams, _: str, state: GpuState | None, context: Context) -> Evaluation[GpuState]:
    """Conclude from all symptoms of a GPU."""
    if state is None:
        return Evaluation(None)
    now_ns = context.watermark_ns
    retention_ns = _RETENTION_NS + ns(params.quiet_s)
    state = _prune(state, now_ns - retention_ns)
    restarts = [at_ns for _, at_ns in context.restarts(device_of(state))]
    conclusions: list[Conclusion] = []
    due_ns = FOREVER
    for run, ended_ns, known_ns in _runs(params, state.symptoms, restarts):
        is_over = known_ns <= now_ns
        if not is_over:
            due_ns = min(due_ns, known_ns)
        conclusions.append(report.conclusion(context, state.subject, run, ended_ns if is_over else None, known_ns))
    published, episodes = reconcile(state.published, conclusions, now_ns, state.pruned_until_ns)
    state = replace(state, published=published)
    due_ns = min(due_ns, next_final_ns(conclusions, now_ns), _prune_at_ns(state, retention_ns, now_ns))
    return Evaluation(state if state.symptoms or state.published else None, episodes, due_ns)


def _prune(state: GpuState, before_ns: int) -> GpuState:
    """Return the state without older symptoms and episodes that belong to nothing that is open."""
    spans = open_intervals(state.published)
    symptoms = tuple(s for s in state.symptoms if s.at_ns >= before_ns or any(b <= s.at_ns <= e for b, e in spans))
    return replace(state, symptoms=symptoms, published=prune(state.published, before_ns))


def _prune_at_ns(state: GpuState, retention_ns: int, watermark_ns: int) -> int:
    """Return when a closed fault can be pruned; FOREVER while it is open, and where nothing is left."""
    if not state.symptoms or has_open(state.published):
        return FOREVER
    return max(state.symptoms[-1].at_ns + retention_ns + 1, watermark_ns + _RETENTION_NS // 60)


_Run = tuple[list[Symptom], int, int]
"""The symptoms of one fault, when it ended, and when that is known."""


def _runs(params: GpuParams, symptoms: Sequence[Symptom], restarts: Sequence[int]) -> list[_Run]:
    runs: list[list[Symptom]] = []
    for symptom in symptoms:
        if _is_recovered(symptom):
            continue
        if runs and symptom.at_ns < _end(params, runs[-1], symptoms, restarts)[1]:
            runs[-1].append(symptom)
        else:
            runs.append([symptom])
    return [(run, *_end(params, run, symptoms, restarts)) for run in runs]


def _end(
    params: GpuParams, run: Sequence[Symptom], symptoms: Sequence[Symptom], restarts: Sequence[int]
) -> tuple[int, int]:
    """Return when a fault ended, and when that is known: by a restart, by the driver, or without another."""
    last = run[-1].at_ns
    ends = [s.at_ns for s in symptoms if _is_recovered(s) and s.at_ns >= last]
    ends += [at_ns for at_ns in restarts if at_ns > last]
    needs_reset = max(xids.grade(code_of(symptom)) for symptom in run) >= Grade.UNCORRECTABLE
    quiet_ns = last + ns(params.reset_quiet_s if needs_reset else params.quiet_s)
    first = min(ends, default=FOREVER)
    return (first, first) if first < quiet_ns else (last, quiet_ns)
