"""host/gpu-fault: detects a GPU for which the driver reports a fault.

Opens at the first Xid that no program causes, or when uncorrectable ECC errors are counted. A corrected or contained
fault closes after `quiet_s` without another. A fault that needs a reset lasts until the host restarts, the driver
reports that the GPU needs no action, or `reset_quiet_s` have passed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
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
from streams.detect.evidence.episodes import Conclusion, evidence_of, open_intervals
from streams.detect.evidence.link_history import FOREVER, growth_of, supersedes
from streams.detect.evidence.port_faults import part_evidence
from streams.detect.evidence.spells import PartState
from streams.detect.evidence.subjects import part_subject
from streams.detect.fabric_side import CapacityEffect, FabricSide, device_at
from streams.detect.measure.monitors.monitor import Monitor, MonitorSpec
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
    Subject,
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


class Grade(IntEnum):
    """The severity of an Xid, in order; DETECTION 3a makes the upper two CRITICAL."""

    NONE = 0
    """Caused by the program, or for information only."""
    CORRECTED = 1
    """The hardware corrected it; the GPU continues."""
    UNKNOWN = 2
    """Not in the catalogue, or "report an issue" in it."""
    CONTAINED = 3
    """One program ended because of it; the GPU continues."""
    UNCORRECTABLE = 4
    """The GPU must be reset, or its host restarted."""
    OFF_BUS = 5


ECC = 0
"""The code for uncorrectable ECC errors that a counter shows, without an Xid."""
OFF_BUS = 79
INIT_FAILED = 143
RECOVERY = 154
"""The driver reports the action that the GPU needs, or that it no longer needs one."""

_PROGRAM = frozenset(
    {8, 11, 13, 25, 31, 32, 39, 40, 41, 43, 44, 45, 60, *range(68, 73), *range(75, 78), 80, *range(82, 87), 88, 89,
     *range(96, 106), *range(126, 136), 139, 141, 159}
)  # fmt: skip
"""RESTART_APP: for example a page fault (31), an exception of the program (13), a removed channel (45)."""

_INFORMATION = frozenset({14, 37, 38, 66, 67, 93, 106, 107, 137, 152, 153, RECOVERY, 157, 161})
"""IGNORE in the catalogue."""

_XIDS_BY_CODE: dict[int, tuple[Grade, str]] = {
    ECC: (Grade.CONTAINED, "uncorrectable ECC errors"),
    46: (Grade.UNCORRECTABLE, "it stopped processing"),
    48: (Grade.UNCORRECTABLE, "double bit ECC error"),
    54: (Grade.UNCORRECTABLE, "its auxiliary power is not connected"),
    62: (Grade.UNCORRECTABLE, "its microcontroller halted"),
    63: (Grade.CORRECTED, "a row or page of memory is to be replaced"),
    64: (Grade.UNCORRECTABLE, "a row or page of memory could not be replaced"),
    74: (Grade.UNCORRECTABLE, "NVLink error"),
    OFF_BUS: (Grade.OFF_BUS, "it has fallen off the bus"),
    92: (Grade.CORRECTED, "many single bit ECC errors"),
    94: (Grade.CONTAINED, "contained ECC error"),
    95: (Grade.UNCORRECTABLE, "uncontained ECC error"),
    109: (Grade.UNCORRECTABLE, "a context switch timed out"),
    110: (Grade.UNCORRECTABLE, "security fault"),
    119: (Grade.UNCORRECTABLE, "its system processor does not answer"),
    120: (Grade.UNCORRECTABLE, "its system processor failed"),
    121: (Grade.CORRECTED, "corrected error between CPU and GPU"),
    136: (Grade.UNCORRECTABLE, "an NVLink does not train"),
    140: (Grade.UNCORRECTABLE, "unrecovered ECC error"),
    INIT_FAILED: (Grade.UNCORRECTABLE, "it could not be initialised"),
    **dict.fromkeys(range(144, 151), (Grade.UNCORRECTABLE, "NVLink error")),
    151: (Grade.UNCORRECTABLE, "its keys could not be changed"),
    155: (Grade.UNCORRECTABLE, "NVLink error"),
    156: (Grade.UNCORRECTABLE, "a part of it was retired; active after a reset"),
    158: (Grade.UNCORRECTABLE, "fatal time-out"),
    160: (Grade.UNCORRECTABLE, "a memory channel was retired; active after a restart"),
    162: (Grade.UNCORRECTABLE, "must be reset"),
}

_NVLINK = frozenset({74, 136, *range(144, 151), 155})
_MEMORY = frozenset({ECC, 48, 63, 64, 92, 94, 95, 140, 156, 160})


def grade(code: int) -> Grade:
    """Return the grade of an Xid."""
    if code in _XIDS_BY_CODE:
        return _XIDS_BY_CODE[code][0]
    return Grade.NONE if code in _PROGRAM or code in _INFORMATION else Grade.UNKNOWN


def _xid_name(code: int) -> str:
    """Return the text of an Xid; empty if the catalogue has none."""
    return _XIDS_BY_CODE[code][1] if code in _XIDS_BY_CODE else ""


def _xid_cause(code: int) -> Cause:
    """Return the part at fault."""
    if code == OFF_BUS:
        return Cause.GPU_OFF_BUS
    return Cause.NVLINK if code in _NVLINK else Cause.GPU_MEMORY if code in _MEMORY else Cause.GPU


def _reports_recovery(code: int, detail: str) -> bool:
    """Return whether the driver reports that no action is needed: `… from 0x1 (GPU Reset Required) to 0x0 (None)`."""
    return code == RECOVERY and detail.rstrip().endswith("to 0x0 (None)")


def _xid_of_line(detail: str) -> int | None:
    """Return the Xid for equivalent lines of the driver without one; None for others."""
    if "fallen off the bus" in detail:
        return OFF_BUS
    return INIT_FAILED if "RmInitAdapter failed" in detail else None


_KINDS = (EventKind.GPU_XID, EventKind.LOG)
_MAX_XID = 1 << 32
"""The driver prints an Xid as an unsigned integer of 32 bits."""


class XidMonitor(Monitor):
    """Finds Xids; it has no state."""

    name = "xids"

    def process_event(self, event: Event, at_ns: int, readings: ReadingStore, topology: Topology) -> Iterator[Symptom]:
        if event.kind not in _KINDS or not event.port:
            return
        xid = event.code if event.kind is EventKind.GPU_XID else _xid_of_line(event.detail)
        if xid is not None and 0 <= xid < _MAX_XID:  # another code is not an Xid
            payload = GpuXid(xid, _reports_recovery(xid, event.detail), event.detail)
            yield Symptom(event.device, event.port, payload, at_ns, source=event.source, by_event=True)


_MOST_EVIDENCE = 4


def _code_of(symptom: Symptom) -> int:
    """Return the Xid, or the code for counted ECC errors."""
    return symptom.payload.xid if isinstance(symptom.payload, GpuXid) else ECC


def _conclusion(
    context: Context, subject: Subject, run: Sequence[Symptom], ended_ns: int | None, known_ns: int
) -> Conclusion:
    """Return the episode of a fault. `ended_ns` is None while it is open; `known_ns` is when the end is known."""
    first, last = run[0].at_ns, run[-1].at_ns
    worst = max(run, key=lambda symptom: (grade(_code_of(symptom)), -symptom.at_ns))
    code, at = _code_of(worst), subject.a or Endpoint("")
    return Conclusion(
        subject, first, last, opened_ns=first, seen_ns=ended_ns or last, resolved_ns=ended_ns, over_ns=known_ns,
        summary=f"GPU {at.port} of {at.device}: {_headline(code, growth_of(worst))}",
        cause=_xid_cause(code),
        evidence=(*_evidence(at, run), *part_evidence(context, at, (first, ended_ns or FOREVER), (Fault.NVLINK,))),
        confidence=1.0,
        coverage=Coverage(seen=1, expected=1),
        severity=Severity.CRITICAL if grade(code) >= Grade.UNCORRECTABLE else Severity.WARNING,
    )  # fmt: skip


def _headline(code: int, count: int) -> str:
    if code == ECC:
        return f"{count} uncorrectable ECC errors"
    text = _xid_name(code)
    return f"Xid {code}, {text}" if text else f"Xid {code}, which is in no catalogue"


def _evidence(at: Endpoint, run: Sequence[Symptom]) -> Iterable[Evidence]:
    """Yield evidence for each Xid, the most severe first: the count, the first and the last report."""
    by_code: dict[int, list[Symptom]] = {}
    for symptom in run:
        by_code.setdefault(_code_of(symptom), []).append(symptom)
    graded = sorted(by_code.items(), key=lambda item: (-grade(item[0]), item[1][0].at_ns, item[0]))
    for code, reported in graded[:_MOST_EVIDENCE]:
        count = sum(map(growth_of, reported)) if code == ECC else len(reported)
        headline = _headline(code, count)
        repeated = len(reported) > 1 and code != ECC
        yield evidence_of(
            f"{headline}, reported {len(reported)} times" if repeated else headline,
            "gpu_ecc_uncorrected" if code == ECC else "xid", at, (reported[0].at_ns, reported[-1].at_ns),
            float(count), 0.0,
        )  # fmt: skip


_CAPACITY = 64
"""The most retained Xids of one GPU: an Xid that the driver repeats each second adds nothing after a minute."""

_RETENTION_NS = ns(3600)
"""A closed fault is retained for this long, because it may explain others of the same hour."""


def _observe(_: GpuParams, state: PartState | None, symptom: Symptom, context: Context) -> Observed[PartState]:
    """Add a symptom, unless it is irrelevant, known, or known more precisely."""
    if grade(_code_of(symptom)) is Grade.NONE and not _is_recovered(symptom):
        return Observed(state)
    state = state or PartState(part_subject(context.topology, symptom.device, symptom.port, "gpu"))
    if symptom in state.symptoms or any(supersedes(known, symptom) for known in state.symptoms):
        return Observed(state)
    symptoms = [known for known in state.symptoms if not supersedes(symptom, known)]
    symptoms = sorted([*symptoms, symptom], key=_order)
    pruned_until_ns = state.pruned_until_ns
    if len(symptoms) > _CAPACITY:
        # One in the middle matters least: the first shows the start, the last the end.
        pruned_until_ns = max(pruned_until_ns, symptoms.pop(_CAPACITY // 2).at_ns)
    return Observed(replace(state, symptoms=tuple(symptoms), pruned_until_ns=pruned_until_ns), NOW)


def _is_recovered(symptom: Symptom) -> bool:
    return isinstance(symptom.payload, GpuXid) and symptom.payload.needs_nothing


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
    conclusions = [
        _conclusion(context, state.subject, run, ended_ns if known_ns <= now_ns else None, known_ns)
        for run, ended_ns, known_ns in _runs(params, state.symptoms, restarts)
    ]
    published, episodes, due_ns = context.reconcile(state.published, conclusions, state.pruned_until_ns)
    state = replace(state, published=published)
    due_ns = min(due_ns, state.prune_at_ns(retention_ns, now_ns))
    return Evaluation(state if state.symptoms or state.published else None, episodes, due_ns)


_Run = tuple[list[Symptom], int, int]
"""The symptoms of one fault, its end, and the time at which the end is known."""


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
    """Return the end of a fault (by a restart, by the driver, or without another), and the time it is known."""
    last = run[-1].at_ns
    ends = [s.at_ns for s in symptoms if _is_recovered(s) and s.at_ns >= last]
    ends += [at_ns for at_ns in restarts if at_ns > last]
    needs_reset = max(grade(_code_of(symptom)) for symptom in run) >= Grade.UNCORRECTABLE
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
    monitor=MonitorSpec(lambda _: XidMonitor()),
)  # fmt: skip
