"""congestion/imbalance: the uplinks of one switch carry unevenly for minutes, and one of them is getting full.

Opens when some windows in a row say so, closes after as many in which they were even. What a window says is measured
in one array for all switches (measure/windows/uplink_selection.py), and told only where it may be uneven.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from streams.detect.detectors.congestion_imbalance.params import ImbalanceParams
from streams.detect.evidence.episodes import Conclusion, PublishedEpisodes, finding_defaults, next_final_ns, reconcile
from streams.detect.evidence.hysteresis import BadPeriod, WatchWindow, bad_periods, next_check_ns, watch_window
from streams.detect.measure.windows.uplink_selection import deviations
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.wire.models import (
    Cause,
    Condition,
    Coverage,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    PeerWindow,
    Severity,
    Source,
    Subject,
)

SLUG = "congestion/imbalance"
VERSION = "1"

_KEEP = 64
"""Windows of a switch that are kept: an hour."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What one window says of a switch's uplinks: the one that is furthest off the mean, and the fullest."""

    begin_ns: int
    end_ns: int
    source: Source
    is_bad: bool
    port: str = ""
    off: float = 0.0
    mean_bps: float = 0.0
    full_port: str = ""
    full: float = 0.0
    peers: int = 0


@dataclass(slots=True)
class SwitchUplinks:
    """One switch: what its windows said since it was first uneven, and what was said of it."""

    subject: Subject
    marks: list[Mark] = field(default_factory=list)
    state: PublishedEpisodes = ()
    forgotten_ns: int = 0

    def add(self, mark: Mark) -> bool:
        """The window's mark; of two sources the first by number speaks for the window."""
        known = next((m for m in self.marks if m.begin_ns == mark.begin_ns), None)
        if known is not None:
            if known.source <= mark.source:
                return False
            self.marks.remove(known)
        if mark.end_ns <= self.forgotten_ns:
            return False
        self.marks.append(mark)
        self.marks.sort(key=lambda one: one.begin_ns)
        while len(self.marks) > _KEEP:
            self.forgotten_ns = self.marks.pop(0).end_ns
        return True

    @property
    def is_over(self) -> bool:
        """Nothing of it can change any more, and nothing has begun."""
        return not any(mark.is_bad for mark in self.marks[-_KEEP // 2 :]) and all(
            said.episode.finding.final for said in self.state
        )


def mark_of(params: ImbalanceParams, window: PeerWindow) -> Mark:
    """What a window says."""
    count = len(window.port)
    sent, speeds = (
        np.array(window.value[window.metric.index(metric) * count :][:count])[None]
        for metric in (Metric.TX_BYTES, Metric.SPEED_BPS)
    )
    sent, speeds = np.where(sent >= 0, sent, np.nan), np.where(speeds > 0, speeds, np.nan)
    rates = sent * 8 / (max(window.at_ns - window.since_ns, 1) / 1e9)
    off, fill = deviations(rates, speeds, params.unused)
    blank = Mark(window.begin_ns, window.end_ns, window.source, is_bad=False)
    if np.isnan(off).all():
        return blank
    worst, fullest = int(np.nanargmax(np.abs(off))), int(np.nanargmax(fill))
    is_bad = bool(abs(off[0, worst]) >= params.uneven and fill[0, fullest] >= params.busy)
    return Mark(
        window.begin_ns, window.end_ns, window.source, is_bad, window.port[worst], float(off[0, worst]),
        float(rates[0, worst] / (1 + off[0, worst])), window.port[fullest], float(fill[0, fullest]),
        int((~np.isnan(off)).sum()) - 1,
    )  # fmt: skip


def step(
    params: DetectParams, own: SwitchUplinks, watermark_ns: int, *, is_read: bool = True
) -> tuple[list[Episode], int]:
    """Conclude from the marks; answers what changed, and the watermark at which to look again."""
    watch = watch_window(params, watermark_ns, is_read=is_read)
    runs = list(_runs(params.imbalance, own.marks, watch))
    conclusions = [_conclusion(params, own.subject, run) for run in runs]
    own.state, episodes = reconcile(own.state, conclusions, watermark_ns, own.forgotten_ns)
    due_ns = next_check_ns(params, runs, watch, watermark_ns)
    return episodes, min(due_ns, next_final_ns(conclusions, watermark_ns))


def _runs(params: ImbalanceParams, marks: Sequence[Mark], watch: WatchWindow) -> Iterator[BadPeriod[Mark]]:
    return bad_periods(marks, lambda mark: mark.is_bad, lambda run: len(run) >= params.windows, params.windows, watch)


def _conclusion(params: DetectParams, subject: Subject, case: BadPeriod[Mark]) -> Conclusion:
    run, over_ns = case.bad, case.ended_at_ns
    last = run[-1]
    worst = max(run, key=lambda mark: abs(mark.off))
    switch = subject.a.device if subject.a is not None else ""
    finding = Finding(
        **finding_defaults(params, SLUG, VERSION),
        condition=Condition.CONGESTION_IMBALANCE,
        severity=Severity.WARNING,
        subject=subject,
        started_at_ns=run[0].begin_ns,
        observed_at_ns=last.end_ns,
        resolved_at_ns=None if over_ns is None else last.end_ns,
        detected_at_ns=run[params.imbalance.windows - 1].end_ns + ns(params.lateness_s),
        summary=f"the {worst.peers + 1} uplinks of {switch} carry unevenly: {worst.port} {worst.off:+.0%} of the mean, "
        f"{worst.full_port} is {worst.full:.0%} full",
        cause=Cause.CONGESTION,
        evidence=(
            Evidence(
                statement=f"{switch}/{worst.port} carries {worst.mean_bps * (1 + worst.off) / 1e9:.1f} Gb/s, where "
                f"{worst.peers + 1} uplinks carry {worst.mean_bps / 1e9:.1f} on the average",
                metric="tx_bytes",
                at=Endpoint(switch, worst.port),
                observed=worst.mean_bps * (1 + worst.off),
                expected=worst.mean_bps,
                comparison="peers",
                peers=worst.peers,
                window_start_ns=run[0].begin_ns,
                window_end_ns=last.end_ns,
            ),
            Evidence(
                statement=f"{switch}/{worst.full_port} is {worst.full:.0%} full",
                metric="tx_bytes",
                at=Endpoint(switch, worst.full_port),
                observed=worst.full,
                expected=params.imbalance.busy,
                comparison="threshold",
                window_start_ns=worst.begin_ns,
                window_end_ns=worst.end_ns,
            ),
        ),
        confidence=0.9,
        coverage=Coverage(seen=worst.peers + 1, expected=worst.peers + 1),
    )
    final_at = None if over_ns is None else over_ns + ns(params.lateness_s)
    return Conclusion(run[0].begin_ns, last.end_ns, finding, str(run[0].begin_ns), final_at)
