"""The finding of host/gpu-fault: its Xids, worst first."""

from collections.abc import Iterable, Sequence

from streams.detect.detector import Context
from streams.detect.evidence import xids
from streams.detect.evidence.episodes import Conclusion, finding_defaults
from streams.detect.evidence.link_history import FOREVER, growth_of
from streams.detect.evidence.port_faults import part_evidence
from streams.detect.evidence.xids import Grade
from streams.detect.thresholds import ns
from streams.wire.models import Condition, Coverage, Endpoint, Evidence, Finding, Severity, Subject, Symptom
from streams.wire.symptoms import Fault, GpuXid

SLUG = "host/gpu-fault"
VERSION = "1"

_MOST_EVIDENCE = 4


def code_of(symptom: Symptom) -> int:
    """Return the Xid, or the code for counted ECC errors."""
    return symptom.payload.xid if isinstance(symptom.payload, GpuXid) else xids.ECC


def conclusion(
    context: Context, subject: Subject, run: Sequence[Symptom], ended_ns: int | None, known_ns: int
) -> Conclusion:
    """Return the episode of a fault. `ended_ns` is None while it goes on; `known_ns` is when the end is known."""
    first, last = run[0], run[-1]
    worst = max(run, key=lambda symptom: (xids.grade(code_of(symptom)), -symptom.at_ns))
    code = code_of(worst)
    at = subject.a or Endpoint("")
    finding = Finding(
        **finding_defaults(context.settings, SLUG, VERSION),
        condition=Condition.HOST_GPU_FAULT,
        severity=Severity.CRITICAL if xids.grade(code) >= Grade.UNCORRECTABLE else Severity.WARNING,
        subject=subject,
        started_at_ns=first.at_ns,
        observed_at_ns=ended_ns or last.at_ns,
        resolved_at_ns=ended_ns,
        detected_at_ns=first.at_ns,
        summary=f"GPU {at.port} of {at.device}: {_headline(code, growth_of(worst))}",
        cause=xids.cause(code),
        evidence=(
            *_evidence(at, run),
            *part_evidence(context, at, (first.at_ns, ended_ns or FOREVER), (Fault.NVLINK,)),
        ),
        confidence=1.0,
        coverage=Coverage(seen=1, expected=1),
    )
    final_at = known_ns + ns(context.settings.lateness_s) if ended_ns is not None else None
    return Conclusion(first.at_ns, last.at_ns, finding, str(first.at_ns), final_at)


def _headline(code: int, count: int) -> str:
    if code == xids.ECC:
        return f"{count} uncorrectable ECC errors"
    text = xids.name(code)
    return f"Xid {code}, {text}" if text else f"Xid {code}, which is in no catalogue"


def _evidence(at: Endpoint, run: Sequence[Symptom]) -> Iterable[Evidence]:
    """Yield one for each Xid, the worst first: how often it was reported, from when to when."""
    by_code: dict[int, list[Symptom]] = {}
    for symptom in run:
        by_code.setdefault(code_of(symptom), []).append(symptom)
    graded = sorted(by_code.items(), key=lambda item: (-xids.grade(item[0]), item[1][0].at_ns, item[0]))
    for code, reported in graded[:_MOST_EVIDENCE]:
        count = sum(map(growth_of, reported)) if code == xids.ECC else len(reported)
        headline = _headline(code, count)
        repeated = len(reported) > 1 and code != xids.ECC
        yield Evidence(
            statement=f"{headline}, reported {len(reported)} times" if repeated else headline,
            metric="gpu_ecc_uncorrected" if code == xids.ECC else "xid",
            at=at,
            observed=float(count),
            expected=0.0,
            comparison="threshold",
            window_start_ns=reported[0].at_ns,
            window_end_ns=reported[-1].at_ns,
        )
