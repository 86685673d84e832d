"""rail/degraded: a rail that is up but slower than its peers.

Opens when three windows in a row say so of a rail (one, where it trained below its speed), and closes after five in
which it was seen well. What a window says is rails.py's; a link that loses frames is link_degrading.py's as well.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from streams.detect.detectors.rail_degraded.params import RailParams
from streams.detect.detectors.rail_degraded.screening import PCIE, RETRANSMITS, SLOW, TRAINED_LOW, RailPort, RailVerdict
from streams.detect.evidence.episodes import Conclusion, PublishedEpisodes, finding_defaults, next_final_ns, reconcile
from streams.detect.evidence.hysteresis import BadPeriod, WatchWindow, bad_periods, next_check_ns, watch_window
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.wire.models import Cause, Condition, Coverage, Endpoint, Episode, Evidence, Finding, Severity, Subject

SLUG = "rail/degraded"
VERSION = "1"

_KEEP = 64
"""Marks of a rail that are kept: an hour."""

_CAUSES = {SLOW: Cause.UNKNOWN, TRAINED_LOW: Cause.NIC, RETRANSMITS: Cause.UNKNOWN, PCIE: Cause.PCIE}
_METRICS = {
    SLOW: "tx_bytes", TRAINED_LOW: "speed_bps", RETRANSMITS: "local_ack_timeouts", PCIE: "pcie_stalled_read_seconds"
}  # fmt: skip


@dataclass(slots=True)
class RailState:
    """One rail of a host that was bad: what its windows said since, and what was said of it."""

    subject: Subject
    marks: list[RailVerdict] = field(default_factory=list)
    state: PublishedEpisodes = ()
    forgotten_ns: int = 0

    def add(self, mark: RailVerdict) -> None:
        """The next window's mark; windows come in order."""
        if self.marks and mark.begin_ns <= self.marks[-1].begin_ns:
            return
        self.marks.append(mark)
        while len(self.marks) > _KEEP:
            self.forgotten_ns = self.marks.pop(0).end_ns

    @property
    def is_over(self) -> bool:
        """Nothing of it can change any more, and nothing has begun."""
        return not any(mark.reason for mark in self.marks[-_KEEP // 2 :]) and all(
            s.episode.finding.final for s in self.state
        )


def subject_of(rail: RailPort, like: Subject) -> Subject:
    """A rail of a host, at its port; pod, site and team are those of its link."""
    return replace(
        like, id=f"rail:{rail.host}/{rail.rail}", a=Endpoint(rail.host, rail.port), z=None, role="rail", rail=rail.rail,
        former_ids=(),
    )  # fmt: skip


def step(params: DetectParams, own: RailState, watermark_ns: int, *, is_read: bool = True) -> tuple[list[Episode], int]:
    """Conclude from the marks; answers what changed, and the watermark at which to look again."""
    watch = watch_window(params, watermark_ns, is_read=is_read)
    runs = list(_runs(params.rail, own.marks, watch))
    conclusions = [_conclusion(params, own.subject, run) for run in runs]
    own.state, episodes = reconcile(own.state, conclusions, watermark_ns, own.forgotten_ns)
    due_ns = next_check_ns(params, runs, watch, watermark_ns)
    return episodes, min(due_ns, next_final_ns(conclusions, watermark_ns))


def _runs(params: RailParams, marks: Sequence[RailVerdict], watch: WatchWindow) -> Iterator[BadPeriod[RailVerdict]]:
    return bad_periods(
        marks, lambda mark: bool(mark.reason), lambda run: is_case(params, run), params.good_windows, watch
    )


def is_case(params: RailParams, run: Sequence[RailVerdict]) -> bool:
    """Whether so many bad windows make a case."""
    return len(run) >= params.bad_windows or any(mark.reason == TRAINED_LOW for mark in run)


def _conclusion(params: DetectParams, subject: Subject, case: BadPeriod[RailVerdict]) -> Conclusion:
    run, over_ns = case.bad, case.ended_at_ns
    last = run[-1]
    worst = _worst(run)
    opened = next(run[n] for n in range(len(run)) if is_case(params.rail, run[: n + 1]))
    at = subject.a or Endpoint("")
    finding = Finding(
        **finding_defaults(params, SLUG, VERSION),
        condition=Condition.RAIL_DEGRADED,
        severity=Severity.WARNING,
        subject=subject,
        started_at_ns=run[0].begin_ns,
        observed_at_ns=last.end_ns,
        resolved_at_ns=None if over_ns is None else last.end_ns,
        detected_at_ns=opened.end_ns + ns(params.lateness_s),
        summary=f"rail {subject.rail} of {at.device} {_headline(worst)}",
        cause=_CAUSES[worst.reason],
        evidence=(
            Evidence(
                statement=f"{at.device}/{at.port} {_headline(worst)}",
                metric=_METRICS[worst.reason],
                at=at,
                observed=worst.observed,
                expected=worst.expected,
                comparison="peers" if worst.peers else "threshold",
                peers=worst.peers or None,
                window_start_ns=run[0].begin_ns,
                window_end_ns=last.end_ns,
            ),
        ),
        confidence=0.9 if worst.peers >= 2 * params.rail.peers or worst.reason == TRAINED_LOW else 0.7,
        coverage=Coverage(seen=worst.peers + 1, expected=worst.peers + 1) if worst.peers else None,
    )
    final_at = None if over_ns is None else over_ns + ns(params.lateness_s)
    return Conclusion(run[0].begin_ns, last.end_ns, finding, str(run[0].begin_ns), final_at)


_ORDER = (TRAINED_LOW, PCIE, SLOW, RETRANSMITS)


def _worst(run: Sequence[RailVerdict]) -> RailVerdict:
    """What says most: the reason first that explains the others, then the window that is furthest from its peers."""
    return min(
        run, key=lambda mark: (_ORDER.index(mark.reason), mark.observed / mark.expected * _sign(mark), mark.begin_ns)
    )


def _sign(mark: RailVerdict) -> int:
    return -1 if mark.reason in (PCIE, RETRANSMITS) else 1


def _headline(mark: RailVerdict) -> str:
    match mark.reason:
        case "trained-low":
            return f"trained at {mark.observed / 1e9:.0f} instead of {mark.expected / 1e9:.0f} Gb/s"
        case "pcie":
            return f"is slow: its NIC stalled on PCIe for {mark.observed:.0%} of the time"
        case "retransmits":
            return f"retransmits {mark.observed:.1f} times the limit, which {mark.peers} other hosts do not"
        case _:
            share = mark.observed / mark.expected
            return (
                f"is slow: {mark.observed / 1e9:.1f} Gb/s, {share:.0%} of the {mark.expected / 1e9:.1f} Gb/s"
                f" of the host's other rails, unlike at {mark.peers} other hosts"
            )
