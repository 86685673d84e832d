"""link/flap: a link goes down three to eight times within ten minutes.

Losses of signal that last 30 s together, without a recovery of 5 s between them, are a link/down as well.
"""

from lab.world.effects import Interval, SignalLoss
from lab.world.fault_placement import FaultPlacer
from lab.world.faults.fault import Fault
from lab.world.faults.link_selection import dark_port, links_of_random_role
from lab.world.ground_truth import LINK_DOWN_AFTER_NS, GroundTruth, InjectedFault, truth_at
from streams.wire.models import Condition

_S = 10**9
_HOLD_NS = 5 * _S
"""`link/down` resolves at the first recovery that lasts 5 s (DETECTION 3)."""
_APART_NS = _S
"""Both ends report a recovery within a second: one that lasts as long as the hold time may be either."""
_AMBIGUOUS_S = (14.0, 34.0)
"""Losses that last so long together are redrawn: a switch that is only polled dates them within ten seconds."""
_TRIES = 100


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Take down one link three to eight times, for half a second to 20 s each."""
    link, interval = placer.link(
        links_of_random_role(placer), within, (10, 540), lambda link, _: placer.is_unused(link)
    )
    placer.reserve(link)
    losses = _losses(placer, link, interval)
    for _ in range(_TRIES):
        if not _AMBIGUOUS_S[0] * _S < _longest_ns(losses) < _AMBIGUOUS_S[1] * _S:
            break
        losses = _losses(placer, link, interval)
    port, whole = placer.ports(link)[0], Interval(interval.start_ns, losses[-1].interval.end_ns)
    third_ns = losses[2].interval.start_ns
    truths = [GroundTruth(truth_at(placer, Condition.LINK_FLAP, port, whole), third_ns, (link, third_ns))]
    truths += [
        GroundTruth(
            truth_at(placer, Condition.LINK_DOWN, port, down), down.start_ns + LINK_DOWN_AFTER_NS, (link, down.start_ns)
        )
        for down in _merged(losses)
        if down.end_ns - down.start_ns >= LINK_DOWN_AFTER_NS
    ]
    return InjectedFault(tuple(truths), tuple(losses), "burst")


def _losses(placer: FaultPlacer, link: int, interval: Interval) -> list[SignalLoss]:
    rng = placer.rng
    count = int(rng.integers(3, 9))
    step_ns = (interval.end_ns - interval.start_ns) // count
    starts_ns = (interval.start_ns + number * step_ns for number in range(count))
    return [
        SignalLoss(
            link,
            Interval(at_ns, at_ns + _lasting_ns(round(min(rng.uniform(0.5, 20.0) * _S, 0.6 * step_ns)), step_ns)),
            dark_port=dark_port(placer, link),
        )
        for at_ns in starts_ns
    ]


def _lasting_ns(drawn_ns: int, step_ns: int) -> int:
    """Return how long a loss lasts, so that the recovery after it is clearly shorter or longer than the hold time."""
    if abs(step_ns - drawn_ns - _HOLD_NS) >= _APART_NS:
        return drawn_ns
    longer_ns = step_ns - _HOLD_NS - _APART_NS
    return longer_ns if longer_ns >= _APART_NS else step_ns - _HOLD_NS + _APART_NS


def _merged(losses: list[SignalLoss]) -> list[Interval]:
    """Return the losses as intervals, merged where the recovery between two is shorter than the hold time."""
    merged = [losses[0].interval]
    for loss in losses[1:]:
        if loss.interval.start_ns - merged[-1].end_ns < _HOLD_NS:
            merged[-1] = Interval(merged[-1].start_ns, loss.interval.end_ns)
        else:
            merged.append(loss.interval)
    return merged


def _longest_ns(losses: list[SignalLoss]) -> int:
    return max(interval.end_ns - interval.start_ns for interval in _merged(losses))


LINK_FLAP = Fault(Condition.LINK_FLAP, inject, detection_goal_s=1.0)
