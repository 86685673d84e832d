"""device/clock-skew: detects a clock that is ahead or behind, jumps or drifts.

Opens when the samples of a device, or the statuses of a collector, differ from the brokers' time by the same offset for
30 s, or are ahead of it for 30 s. Resolves when the clock was right for `clear_s`. Meanwhile `measure` corrects the
times of the samples, so that no other detector depends on the clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from streams.detect.detector import Detector, JobDomain
from streams.detect.evidence.device_evidence import DeviceEvidence, WrongClock
from streams.detect.evidence.episodes import Conclusion, Ledger, PublishedEpisodes, evidence_of
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.subjects import collector_subject
from streams.detect.fabric_side import (
    CapacityEffect,
    DeviceEvaluation,
    FabricSide,
    GroupKey,
    GroupKind,
    device_at,
    evaluate_whole,
)
from streams.detect.thresholds import Seconds, Thresholds, ns
from streams.fabric.intervals import split_at_gaps
from streams.fabric.topology import Topology
from streams.wire.models import Cause, Condition, Coverage, Endpoint, Evidence, Finding, Severity, Subject


class ClockParams(Thresholds):
    """`[detect.clock]`: the offset of a clock that is reported, and its severity."""

    min_offset_s: Seconds = 5
    """Below it the correction suffices: reports of a link's two ends are joined within 5 s. A clock that is behind by
    less than 10 s looks like a delay."""
    warning_s: ClassVar[float] = 300
    """WARNING from this offset on, else INFO: Kerberos refuses such a host (RFC 4120, 5 min)."""
    clear_s: ClassVar[float] = 300
    """Closes when right for this long, so that repeated jumps are one finding. As `grouping.outlive_s` (choice)."""


_CERTAIN, _MAY_BE_DELAY = 1.0, 0.9
"""The confidence for a clock that is ahead, and for one that is behind by no more than a possible queueing delay."""

_LONGEST_DELAY_S = 600


def _evaluate(
    params: ClockParams, ledger: Ledger, published: Mapping[str, PublishedEpisodes], evidence: DeviceEvidence
) -> DeviceEvaluation:
    """Conclude on the clock of a device or collector from all sources that it dates."""
    conclusions = []
    off = (clock for clock in evidence.clocks if abs(clock.offset_ns) >= ns(params.min_offset_s))
    ordered = sorted(off, key=lambda clock: (clock.since_ns, clock.source))
    for clocks in split_at_gaps(ordered, lambda clock: (clock.since_ns, clock.right_ns), ns(params.clear_s)):
        right_ns = max(clock.right_ns for clock in clocks)
        clear_ns = right_ns + ns(params.clear_s) if right_ns != FOREVER else FOREVER
        if clear_ns > ledger.watermark_ns:
            right_ns = FOREVER
        conclusions.append(_conclusion(params, evidence.subject, clocks, right_ns, clear_ns))
    return evaluate_whole(ledger, published, conclusions)


def _conclusion(
    params: ClockParams, subject: Subject, clocks: Sequence[WrongClock], right_ns: int, clear_ns: int
) -> Conclusion:
    largest = max(clocks, key=lambda clock: abs(clock.offset_ns))
    name = device_at(subject)
    if largest.of_collector:
        subject, name = collector_subject(name), f"collector {name}"
    is_over = right_ns != FOREVER
    last_ns = right_ns if is_over else max(clock.detected_ns for clock in clocks)
    offset_s = largest.offset_ns / 1e9
    return Conclusion(
        subject, clocks[0].since_ns, right_ns, opened_ns=min(clock.detected_ns for clock in clocks), seen_ns=last_ns,
        resolved_ns=right_ns if is_over else None, over_ns=clear_ns,
        summary=f"the clock of {name} is {_offset(largest.offset_ns)}",
        cause=Cause.COLLECTOR if largest.of_collector else Cause.DEVICE,
        evidence=(_evidence(params, name, clock, last_ns) for clock in clocks[:_MAX_EVIDENCE]),
        confidence=_CERTAIN if not -_LONGEST_DELAY_S < offset_s < 0 else _MAY_BE_DELAY,
        coverage=Coverage(seen=1, expected=1),
        severity=Severity.WARNING if abs(offset_s) >= params.warning_s else Severity.INFO,
    )  # fmt: skip


_MAX_EVIDENCE = 8
"""The most intervals listed in a finding: a clock may jump back and forth for days."""


def _evidence(params: ClockParams, name: str, clock: WrongClock, last_ns: int) -> Evidence:
    sent = "statuses" if clock.of_collector else "samples"
    statement = f"{sent} of {name} by {clock.source.label} are dated {_offset(clock.offset_ns)} of their arrival"
    if abs(clock.offset_ns - clock.first_offset_ns) >= ns(1):
        statement += f", at first {_offset(clock.first_offset_ns)}"
    if not clock.is_constant:
        statement += "; the offset is not constant"
    line = evidence_of(
        statement, "clock_offset_s", None if clock.of_collector else Endpoint(name),
        (clock.since_ns, min(clock.right_ns, last_ns)), clock.offset_ns / 1e9,
        params.min_offset_s if clock.offset_ns > 0 else -params.min_offset_s,
    )  # fmt: skip
    return replace(line, collector=name if clock.of_collector else "", source=clock.source)


def _offset(offset_ns: int) -> str:
    """Return the text of an offset."""
    seconds = abs(offset_ns) / 1e9
    size = f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min" if seconds < 7200 else _hours(seconds)
    return f"{size} {'ahead' if offset_ns > 0 else 'behind'}"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"


def _group_keys(finding: Finding, topology: Topology) -> tuple[GroupKey, ...]:
    known = topology.devices.get(device_at(finding.subject))
    return (GroupKey(GroupKind.CLOCKS, known.site),) if known is not None else ()


DETECTOR = Detector(
    Condition.DEVICE_CLOCK_SKEW,
    version="1",
    opens_when="the clock of a device, host or collector is off by 5 s or more, jumps or drifts",
    params=ClockParams,
    section="clock",
    placement=None,
    job_domain=JobDomain.NEITHER,
    lemon=None,
    hidden_in={},
    fabric=FabricSide(
        explained_by_outages=False, ends_with_parent=True, capacity=CapacityEffect.NONE, severity_by_detector=True,
        group_keys=_group_keys, evaluate_device=_evaluate,
    ),
)  # fmt: skip
