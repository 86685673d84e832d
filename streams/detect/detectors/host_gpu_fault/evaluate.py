"""host/gpu-fault: a GPU of which the driver says that something of it broke.

Opens at the first Xid that is not the program's own doing, or when uncorrectable ECC errors are counted. What was
corrected or contained is over when nothing follows for `quiet_s`; what needs a reset lasts until the host restarts,
the driver says that the GPU needs nothing any more, or `reset_quiet_s` have passed. What an Xid means is in xids.py.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from streams.detect.evidence import xids
from streams.detect.evidence.episodes import Conclusion, PublishedEpisodes, finding_defaults, next_final_ns, reconcile
from streams.detect.evidence.link_history import FOREVER, Interval, growth_of, supersedes
from streams.detect.evidence.xids import Grade
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.wire.models import (
    Condition,
    Coverage,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    Severity,
    Subject,
    Symptom,
)
from streams.wire.symptoms import GpuXid

SLUG = "host/gpu-fault"
VERSION = "1"

_CAPACITY = 64
"""Xids kept of one GPU: a driver that repeats one each second says nothing new after a minute."""
_MOST_EVIDENCE = 4


@dataclass(slots=True)
class GpuState:
    """One GPU that had a fault: what was told of it, in order, and what was said of it."""

    subject: Subject
    symptoms: list[Symptom] = field(default_factory=list)
    state: PublishedEpisodes = ()
    forgotten_ns: int = 0

    def add(self, symptom: Symptom) -> bool:
        """Take one in; False where it says nothing, or was known already, or better."""
        if not (is_relevant(symptom)) or symptom in self.symptoms:
            return False
        if any(supersedes(known, symptom) for known in self.symptoms):
            return False
        self.symptoms = [known for known in self.symptoms if not supersedes(symptom, known)]
        self.symptoms = sorted([*self.symptoms, symptom], key=_order)
        if len(self.symptoms) > _CAPACITY:
            # The second newest of what is kept says least: the first tells since when, the last until when.
            self.forgotten_ns = max(self.forgotten_ns, self.symptoms.pop(_CAPACITY // 2).at_ns)
        return True

    def forget(self, before_ns: int) -> None:
        """Drop what is older and belongs to nothing that is open."""
        spans = [(said.begin_ns, said.end_ns) for said in self.state if not said.episode.finding.final]
        self.symptoms = [s for s in self.symptoms if s.at_ns >= before_ns or any(b <= s.at_ns <= e for b, e in spans)]
        self.state = tuple(s for s in self.state if s.end_ns >= before_ns or not s.episode.finding.final)


def is_relevant(symptom: Symptom) -> bool:
    """Whether it says anything of the GPU."""
    return xids.grade(code_of(symptom)) is not Grade.NONE or _is_recovered(symptom)


def code_of(symptom: Symptom) -> int:
    """The Xid, or what stands for counted ECC errors."""
    return symptom.payload.xid if isinstance(symptom.payload, GpuXid) else xids.ECC


def _is_recovered(symptom: Symptom) -> bool:
    return isinstance(symptom.payload, GpuXid) and symptom.payload.needs_nothing


def _order(symptom: Symptom) -> tuple[int, int, int, str]:
    payload = symptom.payload
    if isinstance(payload, GpuXid):
        return symptom.at_ns, symptom.kind, payload.xid, payload.message
    return symptom.at_ns, symptom.kind, growth_of(symptom), ""


def step(
    params: DetectParams, own: GpuState, restarts: Iterable[Interval], watermark_ns: int
) -> tuple[list[Episode], int]:
    """Conclude from all that was told; answers what changed, and the watermark at which to look again."""
    ends = [at for _, at in restarts]
    conclusions: list[Conclusion] = []
    due_ns = FOREVER
    for run, over_ns, seen_ns in _runs(params, own.symptoms, ends):
        over = seen_ns <= watermark_ns
        if not over:
            due_ns = min(due_ns, seen_ns)
        conclusions.append(_conclusion(params, own.subject, run, over_ns if over else None, seen_ns))
    own.state, episodes = reconcile(own.state, conclusions, watermark_ns, own.forgotten_ns)
    return episodes, min(due_ns, next_final_ns(conclusions, watermark_ns))


Run = tuple[list[Symptom], int, int]
"""The symptoms of one fault, when it was over, and when that is known."""


def _runs(params: DetectParams, symptoms: Sequence[Symptom], restarts: Sequence[int]) -> list[Run]:
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
    params: DetectParams, run: Sequence[Symptom], symptoms: Sequence[Symptom], restarts: Sequence[int]
) -> tuple[int, int]:
    """When a fault was over, and when that is known: by a restart, the driver's word, or quiet."""
    last = run[-1].at_ns
    told = [s.at_ns for s in symptoms if _is_recovered(s) and s.at_ns >= last]
    told += [at_ns for at_ns in restarts if at_ns > last]
    own = params.gpu
    needs_reset = max(xids.grade(code_of(symptom)) for symptom in run) >= Grade.UNCORRECTABLE
    quiet_ns = last + ns(own.reset_quiet_s if needs_reset else own.quiet_s)
    first = min(told, default=FOREVER)
    return (first, first) if first < quiet_ns else (last, quiet_ns)


def _conclusion(
    params: DetectParams, subject: Subject, run: Sequence[Symptom], over_ns: int | None, seen_ns: int
) -> Conclusion:
    first, last = run[0], run[-1]
    worst = max(run, key=lambda symptom: (xids.grade(code_of(symptom)), -symptom.at_ns))
    code = code_of(worst)
    at = subject.a or Endpoint("")
    finding = Finding(
        **finding_defaults(params, SLUG, VERSION),
        condition=Condition.HOST_GPU_FAULT,
        severity=Severity.CRITICAL if xids.grade(code) >= Grade.UNCORRECTABLE else Severity.WARNING,
        subject=subject,
        started_at_ns=first.at_ns,
        observed_at_ns=over_ns or last.at_ns,
        resolved_at_ns=over_ns,
        detected_at_ns=first.at_ns,
        summary=f"GPU {at.port} of {at.device}: {_headline(code, growth_of(worst))}",
        cause=xids.cause(code),
        evidence=tuple(_evidence(at, run)),
        confidence=1.0,
        coverage=Coverage(seen=1, expected=1),
    )
    final_at = seen_ns + ns(params.lateness_s) if over_ns is not None else None
    return Conclusion(first.at_ns, last.at_ns, finding, str(first.at_ns), final_at)


def _headline(code: int, count: int) -> str:
    if code == xids.ECC:
        return f"{count} uncorrectable ECC errors"
    said = xids.name(code)
    return f"Xid {code}, {said}" if said else f"Xid {code}, which is in no catalogue"


def _evidence(at: Endpoint, run: Sequence[Symptom]) -> Iterable[Evidence]:
    """One for each Xid, the gravest first: how often it was told, from when to when."""
    by_code: dict[int, list[Symptom]] = {}
    for symptom in run:
        by_code.setdefault(code_of(symptom), []).append(symptom)
    graded = sorted(by_code.items(), key=lambda item: (-xids.grade(item[0]), item[1][0].at_ns, item[0]))
    for code, told in graded[:_MOST_EVIDENCE]:
        count = sum(map(growth_of, told)) if code == xids.ECC else len(told)
        said = _headline(code, count)
        yield Evidence(
            statement=f"{said}, told {len(told)} times" if len(told) > 1 and code != xids.ECC else said,
            metric="gpu_ecc_uncorrected" if code == xids.ECC else "xid",
            at=at,
            observed=float(count),
            expected=0.0,
            comparison="threshold",
            window_start_ns=told[0].at_ns,
            window_end_ns=told[-1].at_ns,
        )
