"""Joins the verdicts on windows of active probes to periods. A period begins with enough bad windows, and ends after
some time without one.

Windows within the lateness may still change, so their verdicts are retained one by one; older ones are merged into
their period. The state of a subject therefore does not grow with time.
"""

from dataclasses import dataclass, field, replace

from streams.detect.evidence.episodes import Conclusion, evidence_of
from streams.detect.evidence.link_history import FOREVER
from streams.detect.thresholds import ns
from streams.wire.models import Cause, Coverage, Endpoint, Evidence, Source, Subject


@dataclass(frozen=True, slots=True)
class ProbeStatement:
    """One line of evidence: the observed and the expected value at a port or device."""

    text: str
    device: str
    port: str = ""
    observed: float = 0.0
    expected: float = 0.0


@dataclass(frozen=True, slots=True)
class ProbeVerdict:
    """The losses of one subject in the windows that were evaluated together, up to `end_ns`."""

    begin_ns: int
    """The start of the first window with a loss."""
    last_ns: int
    """The end of the last window with a loss."""
    end_ns: int
    lost: int
    sent: int
    summary: str
    statements: tuple[ProbeStatement, ...] = ()
    confidence: float = 0.9
    is_switch: bool = False


@dataclass(frozen=True, slots=True)
class ProbePeriod:
    """Verdicts that follow each other."""

    begin_ns: int
    opened_ns: int
    """The end of the window that opened the period; 0 before that."""
    last_ns: int
    """The end of the last window with a loss."""
    end_ns: int
    """The end of the last verdict."""
    count: int
    worst: ProbeVerdict


@dataclass(frozen=True, slots=True)
class Verdicts:
    """All verdicts on one subject: final ones as a period, the others by the end of their window."""

    period: ProbePeriod | None = None
    pending: dict[str, ProbeVerdict] = field(default_factory=dict)

    def with_pending(self, end_ns: int, verdict: ProbeVerdict | None) -> "Verdicts":
        """Return the verdicts with a verdict on one more window; None means that the window is good."""
        pending = {end: one for end, one in self.pending.items() if end != str(end_ns)}
        return replace(self, pending=pending if verdict is None else pending | {str(end_ns): verdict})

    def periods(self, enough: int, width_ns: int, clear_ns: int) -> list[ProbePeriod]:
        """Return the periods in order, including those that have not opened."""
        found = [] if self.period is None else [self.period]
        for verdict in sorted(self.pending.values(), key=lambda verdict: verdict.end_ns):
            # A period that has not opened needs consecutive windows.
            gap_ns = clear_ns if found and found[-1].opened_ns else width_ns
            if found and verdict.end_ns <= found[-1].end_ns + gap_ns:
                found[-1] = _extended(found[-1], verdict, enough)
            else:
                opened_ns = verdict.end_ns if enough <= 1 else 0
                found.append(
                    ProbePeriod(verdict.begin_ns, opened_ns, verdict.last_ns, verdict.end_ns, count=1, worst=verdict)
                )
        return found

    def settled(self, final_ns: int, enough: int, width_ns: int, clear_ns: int) -> "Verdicts":
        """Return the verdicts with those up to `final_ns` merged; an ended period is dropped after `clear_ns`."""
        final = {end: one for end, one in self.pending.items() if one.end_ns <= final_ns}
        periods = replace(self, pending=final).periods(enough, width_ns, clear_ns)
        last = periods[-1] if periods else None
        if last is not None and last.end_ns + clear_ns <= final_ns:
            last = None
        return Verdicts(last, {end: one for end, one in self.pending.items() if end not in final})


def _extended(period: ProbePeriod, verdict: ProbeVerdict, enough: int) -> ProbePeriod:
    count = period.count + 1
    return ProbePeriod(
        min(period.begin_ns, verdict.begin_ns), period.opened_ns or (verdict.end_ns if count >= enough else 0),
        max(period.last_ns, verdict.last_ns), verdict.end_ns, count,
        verdict if verdict.lost > period.worst.lost else period.worst,
    )  # fmt: skip


def probe_conclusion(
    subject: Subject, period: ProbePeriod, clear_s: float, watermark_ns: int, cause: Cause, coverage: Coverage
) -> Conclusion:
    """Return the episode of a period."""
    clear_ns = period.end_ns + ns(clear_s)
    is_over, worst = clear_ns <= watermark_ns, period.worst
    return Conclusion(
        subject, period.begin_ns, period.last_ns if is_over else FOREVER, opened_ns=period.opened_ns,
        seen_ns=period.last_ns, resolved_ns=period.last_ns if is_over else None, over_ns=clear_ns,
        summary=worst.summary,
        cause=cause,
        evidence=(_probe_evidence(one, worst) for one in worst.statements),
        confidence=worst.confidence,
        coverage=coverage,
    )  # fmt: skip


def _probe_evidence(statement: ProbeStatement, worst: ProbeVerdict) -> Evidence:
    at = Endpoint(statement.device, statement.port) if statement.device else None
    line = evidence_of(
        statement.text, "probe_loss", at, (worst.begin_ns, worst.last_ns), statement.observed, statement.expected
    )  # fmt: skip
    return replace(line, source=Source.SOURCE_PROBE)
