"""congestion/imbalance: the uplinks of one switch carry unevenly for minutes, and one of them is nearly full.

Upwards, or downwards: flows that the tier above puts onto one of the links to this switch.

Opens when some windows in a row are uneven, closes after as many even ones. `measure` compares the uplinks of all
switches as one array, and emits windows only of switches that may be uneven.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from streams.detect.detector import NOW, Context, Detector, Evaluation, Observed, PodSide, Scope
from streams.detect.evidence.episodes import (
    Conclusion,
    PublishedEpisodes,
    finding_defaults,
    has_open,
    next_final_ns,
    reconcile,
)
from streams.detect.evidence.subjects import device_subject
from streams.detect.evidence.uplinks import DIRECTIONS, deviations
from streams.detect.evidence.windows import BadPeriod, bad_periods, next_check_ns, watch_window
from streams.detect.fabric_side import CapacityEffect, FabricSide
from streams.detect.thresholds import Ratio, Thresholds, ns
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.intervals import closed, overlaps_any
from streams.wire.models import (
    Cause,
    Condition,
    Coverage,
    Endpoint,
    Evidence,
    Finding,
    PeerGroup,
    PeerWindow,
    Severity,
    Source,
    Subject,
)


class ImbalanceParams(Thresholds):
    """`[detect.imbalance]`: uplinks of one switch that differ persistently (DETECTION 3)."""

    uneven: Ratio = 0.15
    """Off the mean of its uplinks: five times the deviation of a healthy fabric (3 %, `a100-roce-leaf`)."""

    busy: ClassVar[float] = 0.5
    """Of its speed that the fullest must carry at least: where none is half full, unevenness delays no traffic."""

    unused: ClassVar[float] = 0.01
    """Of the fullest; an uplink that carries less is down, drained or a standby, and is not compared."""

    windows: ClassVar[int] = 5
    """In a row, uneven to open and even to close: a new collective has new flows, and with them new hashes."""


SLUG = "congestion/imbalance"
VERSION = "1"


@dataclass(frozen=True, slots=True)
class UplinkMark:
    """The uplink of a switch that is furthest off the mean in one window, and the fullest."""

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
    is_received: bool = False
    """The bytes are those that the tier above sends down these links."""


def conclusion(
    params: ImbalanceParams, context: Context, subject: Subject, period: BadPeriod[UplinkMark]
) -> Conclusion:
    """Return the episode of a bad period."""
    marks, ended_at_ns = period.bad, period.ended_at_ns
    first, last = marks[0], marks[-1]
    worst = max(marks, key=lambda mark: abs(mark.off))
    switch = subject.a.device if subject.a is not None else ""
    lateness_ns = ns(context.settings.lateness_s)
    received = worst.is_received
    verb, of_one, metric = ("receive", "receives", "rx_bytes") if received else ("carry", "carries", "tx_bytes")
    full_at = Endpoint(switch, worst.full_port)
    cable = context.topology.link_at(Port(switch, worst.full_port)) if received else None
    sender = f"{switch}/{worst.full_port}" if cable is None else f"{cable.upper.device}/{cable.upper.port}"
    finding = Finding(
        **finding_defaults(context.settings, SLUG, VERSION),
        condition=Condition.CONGESTION_IMBALANCE,
        severity=Severity.WARNING,
        subject=subject,
        started_at_ns=first.begin_ns,
        observed_at_ns=last.end_ns,
        resolved_at_ns=None if ended_at_ns is None else last.end_ns,
        detected_at_ns=marks[params.windows - 1].end_ns + lateness_ns,
        summary=f"the {worst.peers + 1} uplinks of {switch} {verb} unevenly: "
        f"{worst.port} {worst.off:+.0%} of the mean, {worst.full_port} is {worst.full:.0%} full",
        cause=Cause.CONGESTION,
        evidence=(
            Evidence(
                statement=f"{switch}/{worst.port} {of_one} {worst.mean_bps * (1 + worst.off) / 1e9:.1f} Gb/s; the mean "
                f"of {worst.peers + 1} uplinks is {worst.mean_bps / 1e9:.1f}",
                metric=metric,
                at=Endpoint(switch, worst.port),
                observed=worst.mean_bps * (1 + worst.off),
                expected=worst.mean_bps,
                comparison="peers",
                peers=worst.peers,
                window_start_ns=first.begin_ns,
                window_end_ns=last.end_ns,
            ),
            Evidence(
                statement=f"{sender} is {worst.full:.0%} full",
                metric=metric,
                at=full_at,
                observed=worst.full,
                expected=params.busy,
                comparison="threshold",
                window_start_ns=worst.begin_ns,
                window_end_ns=worst.end_ns,
            ),
        ),
        confidence=0.9,
        coverage=Coverage(seen=worst.peers + 1, expected=worst.peers + 1),
    )
    final_at = None if ended_at_ns is None else ended_at_ns + lateness_ns
    return Conclusion(first.begin_ns, last.end_ns, finding, str(first.begin_ns), final_at)


_CAPACITY = 64
"""Windows retained of a switch: an hour."""


@dataclass(frozen=True, slots=True)
class ImbalanceState:
    """One switch: its windows since the first uneven one, and its published episodes."""

    subject: Subject
    marks: tuple[UplinkMark, ...] = ()
    published: PublishedEpisodes = ()
    pruned_until_ns: int = 0


def observe(
    params: ImbalanceParams, state: ImbalanceState | None, window: PeerWindow, context: Context
) -> Observed[ImbalanceState]:
    """Add a window, unless an uplink was down, trained or was shut in it."""
    mark, switch = mark_of(params, window), window.device
    if state is None and not mark.is_bad:
        return Observed(None)
    uplinks = [link.lower for link in context.topology.uplinks_of.get(switch, ()) if link.is_uplink]
    if any(overlaps_any(context.training_intervals(port), closed(window.since_ns, window.end_ns)) for port in uplinks):
        return Observed(state)
    state = state or ImbalanceState(device_subject(context.topology, switch))
    changed = with_mark(state, mark)
    return Observed(changed, None if changed is state else NOW)


def with_mark(state: ImbalanceState, mark: UplinkMark) -> ImbalanceState:
    """Return the state with one more window; of two sources the first by number counts."""
    known = next((m for m in state.marks if m.begin_ns == mark.begin_ns), None)
    if mark.end_ns <= state.pruned_until_ns or (known is not None and known.source <= mark.source):
        return state
    marks = sorted([*(m for m in state.marks if m is not known), mark], key=lambda one: one.begin_ns)
    pruned_until_ns = state.pruned_until_ns
    while len(marks) > _CAPACITY:
        pruned_until_ns = marks.pop(0).end_ns
    return replace(state, marks=tuple(marks), pruned_until_ns=pruned_until_ns)


def mark_of(params: ImbalanceParams, window: PeerWindow) -> UplinkMark:
    """Return the most deviant and the fullest uplink of a window, of the direction that is bad or deviates more."""
    directions = [metric for metric in DIRECTIONS if metric in window.metric]
    if Metric.SPEED_BPS not in window.metric or not directions:
        return UplinkMark(window.begin_ns, window.end_ns, window.source, is_bad=False)
    marks = (_mark(params, window, metric) for metric in directions)
    return max(marks, key=lambda mark: (mark.is_bad, abs(mark.off)))


def _mark(params: ImbalanceParams, window: PeerWindow, metric: Metric) -> UplinkMark:
    """Return the mark of one direction; without values where fewer than two uplinks are in use."""
    count = len(window.port)
    carried, speeds = (
        np.array(window.value[window.metric.index(one) * count :][:count])[None] for one in (metric, Metric.SPEED_BPS)
    )
    carried, speeds = np.where(carried >= 0, carried, np.nan), np.where(speeds > 0, speeds, np.nan)
    rates = carried * 8 / (max(window.at_ns - window.since_ns, 1) / 1e9)
    off, fill = deviations(rates, speeds, params.unused)
    if np.isnan(off).all():
        return UplinkMark(window.begin_ns, window.end_ns, window.source, is_bad=False)
    worst, fullest = int(np.nanargmax(np.abs(off))), int(np.nanargmax(fill))
    is_bad = bool(abs(off[0, worst]) >= params.uneven and fill[0, fullest] >= params.busy)
    return UplinkMark(
        window.begin_ns, window.end_ns, window.source, is_bad, window.port[worst], float(off[0, worst]),
        float(rates[0, worst] / (1 + off[0, worst])), window.port[fullest], float(fill[0, fullest]),
        int((~np.isnan(off)).sum()) - 1, metric is Metric.RX_BYTES,
    )  # fmt: skip


def evaluate(
    params: ImbalanceParams, key: str, state: ImbalanceState | None, context: Context
) -> Evaluation[ImbalanceState]:
    """Conclude from the windows of a switch."""
    if state is None:
        return Evaluation(None)
    settings, now_ns = context.settings, context.watermark_ns
    watch = watch_window(settings, now_ns, is_read=context.is_reporting(key))
    periods = list(
        bad_periods(
            state.marks, lambda mark: mark.is_bad, lambda bad: len(bad) >= params.windows, params.windows, watch
        )
    )
    conclusions = [conclusion(params, context, state.subject, period) for period in periods]
    published, episodes = reconcile(state.published, conclusions, now_ns, state.pruned_until_ns)
    due_ns = min(next_check_ns(settings, periods, watch, now_ns), next_final_ns(conclusions, now_ns))
    is_over = not any(mark.is_bad for mark in state.marks[-_CAPACITY // 2 :]) and not has_open(published)
    return Evaluation(None if is_over else replace(state, published=published), episodes, due_ns)


FABRIC = FabricSide(capacity=CapacityEffect.NONE)


DETECTOR = Detector(
    slug=SLUG,
    condition=Condition.CONGESTION_IMBALANCE,
    version=VERSION,
    params=ImbalanceParams,
    section="imbalance",
    fabric=FABRIC,
    pod=PodSide(
        state=ImbalanceState,
        scope=Scope.DEVICE,
        inputs=(PeerGroup.SWITCH_UPLINKS,),
        observe=observe,
        evaluate=evaluate,
    ),
)
