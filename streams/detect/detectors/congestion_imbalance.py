"""congestion/imbalance: detects a switch whose uplinks carry unequal traffic for minutes, one of them nearly full.

Either the switch sends unequally, or the tier above sends unequally down the links to it. Where packets are sprayed
(`load_balancing` of the switch in the inventory), unequal load is the symptom of a path that is slower or avoided.

Opens when several consecutive windows are uneven, closes after as many even ones. `measure` compares the uplinks of all
switches as one array, and emits windows only of switches that may be uneven.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from streams.detect.detector import NOW, Context, Detector, Evaluation, JobDomain, Observed, PodSide, Scope
from streams.detect.evidence.episodes import Conclusion, evidence_of
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.subjects import device_subject
from streams.detect.evidence.windows import BadPeriod, Marks, watch_window
from streams.detect.fabric_side import CapacityEffect, FabricSide, device_at
from streams.detect.thresholds import Ratio, Thresholds, ns
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.intervals import closed, overlaps_any
from streams.wire.models import Cause, Condition, Coverage, Endpoint, PeerGroup, PeerWindow, Source, Subject


class ImbalanceParams(Thresholds):
    """`[detect.imbalance]`: uplinks of one switch that differ persistently (DETECTION 3)."""

    uneven: Ratio = 0.15
    """Deviation from the mean of the switch's uplinks: five times that of a healthy fabric (3 %, `a100-roce-leaf`)."""
    busy: ClassVar[float] = 0.5
    """The least load of the fullest uplink: if none is half full, unequal load delays no traffic."""
    unused: ClassVar[float] = 0.01
    """Share of the fullest uplink's load; an uplink below it is down, drained or a standby, and is not compared."""
    windows: ClassVar[int] = 5
    """Consecutive uneven windows to open, and even ones to close: a new collective has new flows and new hashes."""


DIRECTIONS = (Metric.TX_BYTES, Metric.RX_BYTES)
"""Uplinks are compared by the bytes they send, and by the bytes that the tier above sends down to them."""

Values = npt.NDArray[np.float64]


def deviations(rates: Values, speeds: Values, unused: float) -> tuple[Values, Values]:
    """Return, for each uplink, its relative deviation from the mean of those in use, and its load.

    NaN for an uplink not in use. `rates` and `speeds` have shape (switches, ports), with NaN if a port is no uplink or
    was not read. Uplinks of different speeds are compared by their load.
    """
    fill = rates / speeds
    with np.errstate(invalid="ignore"):
        fill = np.where(fill > unused * np.nan_to_num(fill).max(axis=1, initial=0.0)[:, None], fill, np.nan)
    count = (~np.isnan(fill)).sum(axis=1)
    mean = np.nansum(fill, axis=1) / np.maximum(count, 1)
    off: Values = fill / np.where(mean > 0, mean, np.nan)[:, None] - 1
    off[count < 2] = np.nan
    return off, fill


@dataclass(frozen=True, slots=True)
class UplinkMark:
    """The uplink of a switch that deviates most from the mean in one window, and the fullest uplink."""

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
    """True if the bytes are those that the tier above sends down these links."""


def _conclusion(
    params: ImbalanceParams, context: Context, subject: Subject, period: BadPeriod[UplinkMark]
) -> Conclusion:
    """Return the episode of a bad period."""
    marks, ended_at_ns = period.bad, period.ended_at_ns
    span = begin_ns, end_ns = marks[0].begin_ns, marks[-1].end_ns
    worst = _worst(marks)
    switch = device_at(subject)
    received = worst.is_received
    verb, of_one, metric = ("receive", "receives", "rx_bytes") if received else ("carry", "carries", "tx_bytes")
    cable = context.topology.link_at(Port(switch, worst.full_port)) if received else None
    sender = f"{switch}/{worst.full_port}" if cable is None else f"{cable.upper.device}/{cable.upper.port}"
    is_avoided = _is_sprayed(context, switch) and worst.off < 0
    rate_bps, mean_bps, uplinks = worst.mean_bps * (1 + worst.off), worst.mean_bps, worst.peers + 1
    return Conclusion(
        subject, begin_ns, end_ns, opened_ns=marks[params.windows - 1].end_ns + ns(context.settings.lateness_s),
        seen_ns=end_ns, resolved_ns=None if ended_at_ns is None else end_ns, over_ns=ended_at_ns or FOREVER,
        summary=f"the {uplinks} uplinks of {switch} {verb} unevenly: "
        f"{worst.port} {worst.off:+.0%} of the mean, {worst.full_port} is {worst.full:.0%} full"
        + (f"; packets are sprayed: the path of {worst.port} is slower or avoided" if is_avoided else ""),
        cause=Cause.CONGESTION,
        evidence=(
            evidence_of(
                f"{switch}/{worst.port} {of_one} {rate_bps / 1e9:.1f} Gb/s; the mean of {uplinks} uplinks is"
                f" {mean_bps / 1e9:.1f}",
                metric, Endpoint(switch, worst.port), span, rate_bps, mean_bps, "peers", worst.peers,
            ),
            evidence_of(
                f"{sender} is {worst.full:.0%} full", metric, Endpoint(switch, worst.full_port),
                (worst.begin_ns, worst.end_ns), worst.full, params.busy,
            ),
        ),
        confidence=0.9,
        coverage=Coverage(seen=uplinks, expected=uplinks),
    )  # fmt: skip


def _is_sprayed(context: Context, switch: str) -> bool:
    device = context.topology.devices.get(switch)
    return device is not None and device.is_sprayed


def _worst(marks: Sequence[UplinkMark]) -> UplinkMark:
    return max(marks, key=lambda mark: abs(mark.off))


ImbalanceState = Marks[UplinkMark]
"""One switch: its windows since the first uneven one, and its published episodes."""


def _observe(
    params: ImbalanceParams, state: ImbalanceState | None, window: PeerWindow, context: Context
) -> Observed[ImbalanceState]:
    """Add a window, unless an uplink was down, trained or was administratively down in it."""
    switch = window.device
    mark = mark_of(params, window, _planes(context, window) if _is_sprayed(context, switch) else ())
    if state is None and not mark.is_bad:
        return Observed(None)
    uplinks = [link.lower for link in context.topology.uplinks_of.get(switch, ()) if link.is_uplink]
    if any(overlaps_any(context.training_intervals(port), closed(window.since_ns, window.end_ns)) for port in uplinks):
        return Observed(state)
    state = state or Marks(device_subject(context.topology, switch))
    changed = with_mark(state, mark)
    return Observed(changed, None if changed is state else NOW)


def with_mark(state: ImbalanceState, mark: UplinkMark) -> ImbalanceState:
    """Return the state with one more window; of two sources the one with the lower number counts."""
    known = next((m for m in state.marks if m.begin_ns == mark.begin_ns), None)
    if mark.end_ns <= state.pruned_until_ns or (known is not None and known.source <= mark.source):
        return state
    return state.with_marks(sorted([*(m for m in state.marks if m is not known), mark], key=lambda one: one.begin_ns))


def _planes(context: Context, window: PeerWindow) -> list[int]:
    """Return the plane of each uplink of a window; senders spray over the paths of one plane."""
    links = (context.topology.link_at(Port(window.device, port)) for port in window.port)
    return [-1 if link is None or link.plane is None else link.plane for link in links]


def mark_of(params: ImbalanceParams, window: PeerWindow, planes: Sequence[int] = ()) -> UplinkMark:
    """Return the most deviant and the fullest uplink of a window, in the direction that is bad or deviates more.

    With `planes`, packets are sprayed: uplinks are compared within their plane, and the emptiest one is the deviant.
    """
    directions = [metric for metric in DIRECTIONS if metric in window.metric]
    if Metric.SPEED_BPS not in window.metric or not directions:
        return UplinkMark(window.begin_ns, window.end_ns, window.source, is_bad=False)
    compared: tuple[int | None, ...] = tuple(dict.fromkeys(planes)) or (None,)
    marks = (_mark(params, window, metric, planes, plane) for metric in directions for plane in compared)
    return max(marks, key=lambda mark: (mark.is_bad, abs(mark.off)))


def _mark(
    params: ImbalanceParams, window: PeerWindow, metric: Metric, planes: Sequence[int], plane: int | None
) -> UplinkMark:
    """Return the mark of one direction; without values if fewer than two uplinks are in use."""
    count = len(window.port)
    carried, speeds = (
        np.array(window.value[window.metric.index(one) * count :][:count])[None] for one in (metric, Metric.SPEED_BPS)
    )
    carried, speeds = np.where(carried >= 0, carried, np.nan), np.where(speeds > 0, speeds, np.nan)
    if plane is not None:
        carried = np.where(np.array(planes) == plane, carried, np.nan)
    rates = carried * 8 / (max(window.at_ns - window.since_ns, 1) / 1e9)
    off, fill = deviations(rates, speeds, params.unused)
    if np.isnan(off).all():
        return UplinkMark(window.begin_ns, window.end_ns, window.source, is_bad=False)
    fullest, emptiest = int(np.nanargmax(fill)), int(np.nanargmin(off))
    is_avoided = plane is not None and off[0, emptiest] <= -params.uneven
    worst = emptiest if is_avoided else int(np.nanargmax(np.abs(off)))
    is_bad = bool(abs(off[0, worst]) >= params.uneven and fill[0, fullest] >= params.busy)
    return UplinkMark(
        window.begin_ns, window.end_ns, window.source, is_bad, window.port[worst], float(off[0, worst]),
        float(rates[0, worst] / (1 + off[0, worst])), window.port[fullest], float(fill[0, fullest]),
        int((~np.isnan(off)).sum()) - 1, metric is Metric.RX_BYTES,
    )  # fmt: skip


def evaluate(params: ImbalanceParams, key: str, state: ImbalanceState, context: Context) -> Evaluation[ImbalanceState]:
    """Conclude from the windows of a switch."""
    watch = watch_window(context.settings, context.watermark_ns, is_read=context.is_reporting(key))
    state, episodes, due_ns = state.conclude(
        context.ledger, watch, lambda bad: len(bad) >= params.windows, params.windows, _worst,
        lambda subject, period: _conclusion(params, context, subject, period),
    )  # fmt: skip
    return Evaluation(None if state.is_over else state, episodes, due_ns)


DETECTOR = Detector(
    Condition.CONGESTION_IMBALANCE,
    version="1",
    opens_when="uplinks of one switch carry uneven load for minutes",
    params=ImbalanceParams,
    section="imbalance",
    placement=None,
    job_domain=JobDomain.NETWORK,
    lemon=None,
    hidden_in={"nic": "no uplink is read"},
    fabric=FabricSide(capacity=CapacityEffect.NONE),  # never CRITICAL (DETECTION 3a)
    pod=PodSide(ImbalanceState, Scope.DEVICE, evaluate, (PeerGroup.SWITCH_UPLINKS,), _observe),
)
