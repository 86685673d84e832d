"""What goes wrong with links: they flap, stay down, degrade, or end where they should not."""

from streams.fabric.catalogue import Metric
from streams.simulation.effects import (
    BitErrors,
    CablesSwapped,
    CounterIncrement,
    Effect,
    GaugeOverride,
    Interval,
    SignalLoss,
)
from streams.simulation.fault_placement import FaultPlacer, NoRoom
from streams.simulation.ground_truth import WINDOW_TOLERANCE_S, GroundTruth, InjectedFault, truth_at
from streams.wire.models import Condition

_S = 10**9
_DOWN_NS, _HELD_NS = 30 * _S, 5 * _S
"""By DETECTION 3 a link that is away for so long is down, and up again once it stayed up for so long."""
_UNSURE_S = (14.0, 34.0)
"""Downs that last so long together are left out: a switch that is polled dates them by ten seconds."""
_TRIES = 100


def _some_link(places: FaultPlacer) -> list[int]:
    """Host links as often as fabric links."""
    return places.host_links if places.chance.random() < 0.5 or not places.fabric_links else places.fabric_links


def flap(places: FaultPlacer, within: Interval) -> InjectedFault:
    """Three to eight downs of half a second to 20 s, closer or further apart, within ten minutes."""
    link, span = places.link(_some_link(places), within, (10, 540), lambda link, _: places.is_unused(link))
    places.reserve(link)
    downs = _downs(places, link, span)
    for _ in range(_TRIES):
        if not _UNSURE_S[0] * _S < _longest(downs) < _UNSURE_S[1] * _S:
            break
        downs = _downs(places, link, span)
    port, own = places.ports(link)[0], Interval(span.start_ns, downs[-1].interval.end_ns)
    third_ns = downs[2].interval.start_ns
    known = [GroundTruth(truth_at(places, Condition.LINK_FLAP, port, own), third_ns, (link, third_ns))]
    known += [
        GroundTruth(
            truth_at(places, Condition.LINK_DOWN, port, joined), joined.start_ns + _DOWN_NS, (link, joined.start_ns)
        )
        for joined in _joined(downs)
        if joined.end_ns - joined.start_ns >= _DOWN_NS
    ]
    return InjectedFault(tuple(known), tuple(downs), "burst")


def _downs(places: FaultPlacer, link: int, span: Interval) -> list[SignalLoss]:
    chance = places.chance
    count = int(chance.integers(3, 9))
    step_ns = (span.end_ns - span.start_ns) // count
    starts = (span.start_ns + n * step_ns for n in range(count))
    return [
        SignalLoss(
            link,
            Interval(at_ns, at_ns + round(min(chance.uniform(0.5, 20.0) * _S, 0.6 * step_ns))),
            dark_port=_dark(places, link),
        )
        for at_ns in starts
    ]


def _joined(downs: list[SignalLoss]) -> list[Interval]:
    """Downs between which no up held are one (DETECTION 3: `link/down` resolves at the first up that holds 5 s)."""
    found = [downs[0].interval]
    for one in downs[1:]:
        if one.interval.start_ns - found[-1].end_ns < _HELD_NS:
            found[-1] = Interval(found[-1].start_ns, one.interval.end_ns)
        else:
            found.append(one.interval)
    return found


def _longest(downs: list[SignalLoss]) -> int:
    return max(span.end_ns - span.start_ns for span in _joined(downs))


def _dark(places: FaultPlacer, link: int) -> int | None:
    """The end that gets no light, where it is the light that fails."""
    return places.ports(link)[int(places.chance.integers(2))] if places.chance.random() < 0.5 else None


def down(places: FaultPlacer, within: Interval) -> InjectedFault:
    """A link is away for 35 s to 20 min."""
    link, span = places.link(_some_link(places), within, (38, 1200))
    truth = truth_at(places, Condition.LINK_DOWN, places.ports(link)[0], span)
    return InjectedFault(
        (GroundTruth(truth, span.start_ns + _DOWN_NS, (link, span.start_ns)),),
        (SignalLoss(link, span, dark_port=_dark(places, link)),),
        "down",
    )


def degrading(places: FaultPlacer, within: Interval) -> InjectedFault:
    """One end receives badly: frames are lost, or FEC corrects ever more, or both, or the light fades as well."""
    chance = places.chance
    link, span = places.link(_some_link(places), within, (480, 1500), places.is_busy)
    port = places.ports(link)[int(chance.integers(2))]
    kind = ("lossy", "noisy", "both", "fading")[int(chance.integers(4))]
    effects: list[Effect] = []
    lane = int(chance.integers(4)) if chance.random() < 0.5 else None
    if kind in ("lossy", "both"):
        lost = 10 ** chance.uniform(-6.5, -4)
        effects += [
            CounterIncrement(port, Metric.RX_FCS_ERRORS, span, share=lost, of_metric=Metric.RX_PACKETS),
            CounterIncrement(port, Metric.RX_ERRORS, span, share=lost, of_metric=Metric.RX_PACKETS),
            CounterIncrement(port, Metric.RX_SYMBOL_ERRORS, span, share=3 * lost, of_metric=Metric.RX_PACKETS),
            CounterIncrement(port, Metric.FEC_UNCORRECTED_CODEWORDS, span, share=2 * lost, of_metric=Metric.RX_PACKETS),
        ]
        effects.append(BitErrors(port, span, 10 ** chance.uniform(-5.6, -5.1), lane))
    if kind in ("noisy", "both", "fading"):
        effects.append(BitErrors(port, span, 10 ** chance.uniform(-4.85, -4.2), lane))
    if kind == "fading":
        drop, ramp_s = -chance.uniform(3.6, 7.0), chance.uniform(30, 180)
        effects.append(GaugeOverride(port, Metric.RX_POWER_DBM, span, offset=drop, ramp_s=ramp_s))
    truth = truth_at(places, Condition.LINK_DEGRADING, port, span, WINDOW_TOLERANCE_S)
    return InjectedFault((GroundTruth(truth, span.start_ns),), tuple(effects), kind)


def miscabled(places: FaultPlacer, within: Interval) -> InjectedFault:
    """A person puts two cables of a leaf back in each other's place, and later right again; each time both go down."""
    chance = places.chance
    link, span = places.link(places.host_links, within, (600, 1500))
    others = [o for o in places.links_of(places.ends[link][1]) if o in places.of_hosts and o != link]
    chance.shuffle(others)
    other = next((o for o in others if places.claim(o, span)), None)
    if other is None:
        raise NoRoom("no other cable of the switch is free")
    downs = [
        SignalLoss(
            each, Interval(edge_ns - round(chance.uniform(3, 8) * _S), edge_ns + round(chance.uniform(1, 5) * _S))
        )
        for each in (link, other)
        for edge_ns in span
    ]
    known = [
        GroundTruth(truth_at(places, Condition.LINK_MISCABLED, places.ports(each)[0], span, 180.0), span.start_ns)
        for each in (link, other)
    ]
    swapped = CablesSwapped((link, other), span, float(chance.uniform(10, 120)))
    return InjectedFault(tuple(known), (swapped, *downs), "swapped")
