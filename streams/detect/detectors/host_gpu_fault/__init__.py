"""host/gpu-fault: detects a GPU for which the driver reports a fault.

Opens at the first Xid that no program causes, or when uncorrectable ECC errors are counted. A corrected or contained
fault closes after `quiet_s` without another. A fault that needs a reset lasts until the host restarts, the driver
reports that the GPU needs no action, or `reset_quiet_s` have passed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

from streams.detect.detector import (
    NOW,
    Context,
    Detector,
    Evaluation,
    FaultOf,
    JobDomain,
    Observed,
    Placement,
    PodSide,
    Scope,
)
from streams.detect.detectors.host_gpu_fault import xids
from streams.detect.detectors.host_gpu_fault.xids import GpuReport, Grade
from streams.detect.evidence.episodes import Conclusion, evidence_of, open_intervals
from streams.detect.evidence.link_history import FOREVER, growth_of, supersedes
from streams.detect.evidence.port_faults import part_evidence
from streams.detect.evidence.spells import PartState
from streams.detect.evidence.subjects import part_subject
from streams.detect.fabric_side import CapacityEffect, FabricSide, device_at
from streams.detect.measure.monitors.monitor import Monitor
from streams.detect.measure.storage.reading_store import ReadingStore
from streams.detect.thresholds import Thresholds, ns
from streams.fabric.topology import Topology
from streams.wire.models import (
    Cause,
    Condition,
    Coverage,
    Endpoint,
    Event,
    EventKind,
    Evidence,
    Severity,
    Symptom,
)
from streams.wire.symptoms import Fault, GpuXid, SymptomKind


class GpuParams(Thresholds):
    """`[detect.gpu]`: when a fault closes whose end is not reported."""

    quiet_s: ClassVar[float] = 3600
    """Corrected and contained faults: the driver reports the same row or program again within minutes, if at all."""
    reset_quiet_s: ClassVar[float] = 86_400
    """A fault that needs an unobserved reset: gpud and NVSentinel wait for the restart; a reset alone is not reported.
    After a day the GPU was repaired, or its next Xid begins a new finding."""


ECC_COUNTED = "gpu_ecc_uncorrected"


def _code_of_line(detail: str) -> int | None:
    """Return the Xid of an equivalent line of the driver, AMD for a report of amdgpu, and None for other lines."""
    if "fallen off the bus" in detail:
        return xids.OFF_BUS
    if "RmInitAdapter failed" in detail or "rm_init_adapter failed" in detail:
        return xids.INIT_FAILED
    return xids.AMD if xids.is_amd(detail) else None


_KINDS = (EventKind.GPU_XID, EventKind.LOG)
_MAX_XID = 1 << 32
"""The driver prints an Xid as an unsigned integer of 32 bits."""


class XidMonitor(Monitor):
    """Finds Xids; it has no state."""

    name = "xids"
    previews_events = True

    def process_event(self, event: Event, at_ns: int, readings: ReadingStore, topology: Topology) -> Iterator[Symptom]:
        if event.kind not in _KINDS or not event.port:
            return
        is_xid = event.kind is EventKind.GPU_XID
        code = event.code if is_xid else _code_of_line(event.detail)
        if code is not None and is_xid <= code < _MAX_XID:  # another code is not an Xid
            payload = GpuXid(code, xids.needs_nothing(code, event.detail), event.detail)
            yield Symptom(event.device, event.port, payload, at_ns, source=event.source, by_event=True)


_MOST_EVIDENCE = 4


def _report(symptom: Symptom) -> GpuReport:
    """Return the grade of a report of the driver, or of counted ECC errors."""
    if isinstance(symptom.payload, GpuXid):
        return xids.report(symptom.payload.xid, symptom.payload.message)
    return GpuReport(Grade.CONTAINED, f"{growth_of(symptom)} uncorrectable ECC errors", Cause.GPU_MEMORY)


def _conclusion(
    context: Context, state: PartState, run: Sequence[Symptom], ended_ns: int | None, known_ns: int
) -> Conclusion:
    """Return the episode of a fault. `ended_ns` is None while it is open; `known_ns` is when the end is known."""
    first, last = run[0].at_ns, run[-1].at_ns
    worst = _report(max(run, key=lambda symptom: (_report(symptom).grade, -symptom.at_ns)))
    at = state.subject.a or Endpoint("")
    return Conclusion(
        state.subject, first, last, opened_ns=first, seen_ns=ended_ns or last, resolved_ns=ended_ns, over_ns=known_ns,
        summary=f"GPU {at.port} of {at.device}: {worst.headline}",
        cause=worst.cause,
        evidence=(
            *_evidence(at, run, state.dropped),
            *part_evidence(context, at, (first, ended_ns or FOREVER), (Fault.NVLINK,)),
        ),
        confidence=1.0,
        coverage=Coverage(seen=1, expected=1),
        severity=Severity.CRITICAL if worst.grade >= Grade.UNCORRECTABLE else Severity.WARNING,
    )  # fmt: skip


def _evidence(at: Endpoint, run: Sequence[Symptom], dropped: Mapping[str, tuple[int, int]]) -> Iterable[Evidence]:
    """Yield evidence for each kind of report, the most severe first: the count, the first and the last report."""
    graded = sorted(_by_kind(run).items(), key=lambda item: (-_report(item[1][0]).grade, item[1][0].at_ns, item[0]))
    for (code, headline), reported in graded[:_MOST_EVIDENCE]:
        reports, growth = dropped.get(_drop_key(reported[0]), (0, 0))
        count = reports + len(reported)
        statement = f"{headline}, reported {count} times" if count > 1 else headline
        if code == _COUNTED:
            count = growth + sum(map(growth_of, reported))
            statement = f"{count} uncorrectable ECC errors"
        yield evidence_of(
            statement, ECC_COUNTED if code == _COUNTED else "xid", at, (reported[0].at_ns, reported[-1].at_ns),
            float(count), 0.0,
        )  # fmt: skip


_COUNTED = -1


def _kind(symptom: Symptom) -> tuple[int, str]:
    """Return the code and the text of a report, without the counted number of ECC errors."""
    payload = symptom.payload
    return (payload.xid, _report(symptom).headline) if isinstance(payload, GpuXid) else (_COUNTED, "")


_Run = tuple[list[Symptom], int, int]
"""The symptoms of one fault, its end, and the time at which the end is known."""

_CAPACITY = 64
"""The most retained Xids of one GPU. Beyond it, of each Xid of a fault the first and the last are, and their count."""

_RETENTION_NS = ns(3600)
"""A closed fault is retained for this long, because it may explain others of the same hour."""


def _observe(_: GpuParams, state: PartState | None, symptom: Symptom, context: Context) -> Observed[PartState]:
    """Add a symptom, unless it is irrelevant, known, or known more precisely."""
    if _report(symptom).grade is Grade.NONE and not _is_recovered(symptom) and not _ended_code(symptom):
        return Observed(state)
    state = state or PartState(part_subject(context.topology, symptom.device, symptom.port, "gpu"))
    if symptom in state.symptoms or any(supersedes(known, symptom) for known in state.symptoms):
        return Observed(state)
    symptoms = [known for known in state.symptoms if not supersedes(symptom, known)]
    if state.dropped and any(begin.at_ns <= symptom.at_ns <= end.at_ns for begin, end in _gaps(state, symptom)):
        return Observed(state)  # as old as those that were dropped, so that it may be one
    return Observed(replace(state, symptoms=tuple(sorted([*symptoms, symptom], key=_order))), NOW)


def _by_kind(run: Iterable[Symptom]) -> dict[tuple[int, str], list[Symptom]]:
    """Return the symptoms of a fault by kind of report."""
    by_kind: dict[tuple[int, str], list[Symptom]] = {}
    for symptom in run:
        by_kind.setdefault(_kind(symptom), []).append(symptom)
    return by_kind


def _gaps(state: PartState, symptom: Symptom) -> Iterator[tuple[Symptom, Symptom]]:
    """Yield the successive symptoms of a symptom's kind between which others were dropped."""
    own = [known for known in state.symptoms if _kind(known) == _kind(symptom)]
    yield from (pair for pair in pairwise(own) if _drop_key(pair[0]) in state.dropped)


def _drop_key(first: Symptom) -> str:
    """Return the key of the count of dropped symptoms between the first of its kind in a fault and the last."""
    code, text = _kind(first)
    return f"{code}/{first.at_ns}/{text}"


def _limited(state: PartState, runs: Iterable[_Run]) -> PartState:
    """Return the state without the symptoms between the first and the last of each kind in a fault, which it counts."""
    first_keys = set(map(_drop_key, state.symptoms)) if state.dropped else ()
    dropped = {key: count for key, count in state.dropped.items() if key in first_keys}
    gone: list[Symptom] = []
    for run, *_ in runs if len(state.symptoms) > _CAPACITY else ():
        for own in _by_kind(run).values():
            if middle := own[1:-1]:
                reports, growth = dropped.get(key := _drop_key(own[0]), (0, 0))
                dropped[key] = reports + len(middle), growth + sum(map(growth_of, middle))
                gone += middle
    symptoms = [symptom for symptom in state.symptoms if symptom not in gone]
    while len(symptoms) > 2 * _CAPACITY:  # as many different codes as no driver has
        symptoms.remove(min(symptoms, key=lambda symptom: (_report(symptom).grade, symptom.at_ns)))
    return replace(state, symptoms=tuple(symptoms), dropped=dropped)


def _is_recovered(symptom: Symptom) -> bool:
    return isinstance(symptom.payload, GpuXid) and symptom.payload.needs_nothing


def _ended_code(symptom: Symptom) -> int:
    """Return the code whose end this Xid reports; 0 for others."""
    return xids.catalogue().ends.get(symptom.payload.xid, 0) if isinstance(symptom.payload, GpuXid) else 0


def _order(symptom: Symptom) -> tuple[int, int, int, str]:
    payload = symptom.payload
    if isinstance(payload, GpuXid):
        return symptom.at_ns, symptom.kind, payload.xid, payload.message
    return symptom.at_ns, symptom.kind, growth_of(symptom), ""


def _evaluate(params: GpuParams, _: str, state: PartState, context: Context) -> Evaluation[PartState]:
    """Conclude from all symptoms of a GPU."""
    now_ns = context.watermark_ns
    retention_ns = _RETENTION_NS + ns(params.quiet_s)
    before_ns, spans = now_ns - retention_ns, open_intervals(state.published)
    state = state.pruned(
        before_ns, (s for s in state.symptoms if s.at_ns >= before_ns or any(b <= s.at_ns <= e for b, e in spans))
    )
    restarts = [at_ns for _, at_ns in context.restarts(device_at(state.subject))]
    state = _limited(state, _runs(params, state.symptoms, restarts))
    conclusions = [
        _conclusion(context, state, run, ended_ns if known_ns <= now_ns else None, known_ns)
        for run, ended_ns, known_ns in _runs(params, state.symptoms, restarts)
    ]
    published, episodes, due_ns = context.reconcile(state.published, conclusions, state.pruned_until_ns)
    state = replace(state, published=published)
    due_ns = min(due_ns, state.prune_at_ns(retention_ns, now_ns))
    return Evaluation(state if state.symptoms or state.published else None, episodes, due_ns)


def _runs(params: GpuParams, symptoms: Sequence[Symptom], restarts: Sequence[int]) -> list[_Run]:
    runs: list[list[Symptom]] = []
    for symptom in symptoms:
        if _is_recovered(symptom) or _ended_code(symptom):
            continue
        if runs and symptom.at_ns < _end(params, runs[-1], symptoms, restarts)[1]:
            runs[-1].append(symptom)
        else:
            runs.append([symptom])
    return [(run, *_end(params, run, symptoms, restarts)) for run in runs]


def _end(
    params: GpuParams, run: Sequence[Symptom], symptoms: Sequence[Symptom], restarts: Sequence[int]
) -> tuple[int, int]:
    """Return the end of a fault (by a restart, by the driver, or without another), and the time it is known."""
    last = run[-1].at_ns
    codes = {_kind(symptom)[0] for symptom in run}
    own = codes.pop() if len(codes) == 1 else 0
    ends = [s.at_ns for s in symptoms if s.at_ns >= last and (_is_recovered(s) or 0 < _ended_code(s) == own)]
    ends += [at_ns for at_ns in restarts if at_ns > last]
    needs_reset = max(_report(symptom).grade for symptom in run) >= Grade.UNCORRECTABLE
    quiet_ns = last + ns(params.reset_quiet_s if needs_reset else params.quiet_s)
    first = min(ends, default=FOREVER)
    return (first, first) if first < quiet_ns else (last, quiet_ns)


DETECTOR = Detector(
    Condition.HOST_GPU_FAULT,
    version="1",
    opens_when="Xid or uncorrected memory errors of a GPU, graded by the vendor's recommended action",
    params=GpuParams,
    section="gpu",
    placement=Placement.DOUBTFUL,
    job_domain=JobDomain.HOST,
    lemon=FaultOf.HOST,
    hidden_in={
        "snmp": "GPU faults are in the host's kernel log",
        "nic": "PCIe links and GPUs are read by the host's agent",
    },
    fabric=FabricSide(capacity=CapacityEffect.NONE, severity_by_detector=True),
    pod=PodSide(
        PartState, Scope.PORT, _evaluate, (SymptomKind.GPU_XID, SymptomKind.GPU_ECC_COUNTED), _observe,
        device_of=lambda state: device_at(state.subject),
    ),
    monitor=lambda _: XidMonitor(),
)  # fmt: skip
