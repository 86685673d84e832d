"""Finds the elements of the network that explain the losses of probes: switches, single flows, then links. Pure.

Elements that lose all their probes are removed first, and failed rails and hosts cast no votes. Each remaining flow
with losses votes for the elements of its path. The element with the highest log-likelihood ratio of loss against noise
is selected, its explained losses are removed, and the rest is evaluated again.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from streams.detect.detectors.path_loss.flows import FlowName, LossyFlow, PathParams, device_of, lossy_flows
from streams.detect.thresholds import ns
from streams.wire.models import ProbeWindow

_MAX_SUSPECTS = 16
"""The most suspects: more bad links at once have one cause elsewhere, such as power or configuration."""
_SPREAD_RATIO = 0.5
"""Share of the flows expected to have losses from which the losses are attributed to the element (choice)."""
_REST_RATIO = 0.1
"""Share of losses outside the worst windows: a third, if three windows lose the same (choice)."""
_HOSTS = 3
"""The fewest hosts that lose all probes through a switch: as many are not at fault together."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """An element that explains losses, and its votes."""

    element: str
    lost: int
    sent: int
    """Probes over it, estimated for partitions that counted none of them."""
    begin_ns: int
    last_ns: int
    """The end of the last window with a loss; `begin_ns` is that of the first."""
    flows: int
    """Flows that lost probes."""
    votes: float = 0.0
    """The sum over its flows of one divided by the length of the path (007, NSDI'18)."""
    next_element: str = ""
    next_votes: float = 0.0
    equal: tuple[str, ...] = ()
    """Links that the same flows cross and that cannot be distinguished."""
    flow: FlowName | None = None
    """The flow, if only this one is lost."""
    is_located: bool = True
    others: float = 0.0
    """The highest share of the other probes over a link, switch or host of the flow that are lost."""


@dataclass(slots=True)
class _Tally:
    """The losses that each element may explain."""

    lost: Counter[str] = field(default_factory=Counter)
    flows: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Element -> the numbers of the lossy flows that cross it."""
    links: Counter[str] = field(default_factory=Counter)
    """Element -> the most links at which a probe over it may be lost; each votes for all elements of its path."""

    def add(self, number: int, flow: LossyFlow) -> frozenset[str]:
        """Add the losses of a flow; return its elements."""
        elements = flow.elements()
        both = len(flow.forward) + len(flow.back)
        links = dict.fromkeys(flow.forward, len(flow.forward)) | dict.fromkeys(flow.back, len(flow.back))
        for element in elements:
            self.lost[element] += flow.lost
            self.flows[element].add(number)
            self.links[element] = max(self.links[element], links.get(element, both))
        return elements

    def score(self, element: str, sent: int, noise: float) -> float:
        return log_likelihood_ratio(self.lost[element], sent, noise * self.links[element])


def log_likelihood_ratio(lost: int, sent: float, noise: float) -> float:
    """Return the logarithm of how much more likely `lost` of `sent` are at their own rate than at the noise's.

    By Chernoff's bound the probability that noise loses as many is at most its negative exponential.
    """
    mean = noise * sent
    return lost * math.log(lost / mean) - lost + mean if lost > mean > 0 else 0.0


def localize(params: PathParams, windows: Iterable[ProbeWindow]) -> list[Suspect]:
    """Return the suspects that explain the losses of these windows, of all partitions, the clearest first."""
    cells = list(windows)
    if not any(cell.flow_sent for cell in cells):
        return []
    sent = _Sent(cells)
    at_switches: dict[str, list[LossyFlow]] = defaultdict(list)
    by_window: dict[int, list[LossyFlow]] = {}
    sent_in: dict[int, _Sent] = {}
    unreached: dict[int, set[str]] = {}
    for end_ns in sorted({cell.at_ns for cell in cells}):
        of_window = [cell for cell in cells if cell.at_ns == end_ns]
        sent_in[end_ns] = _Sent(of_window)
        by_window[end_ns], unreached[end_ns] = _without_lost_switches(params, of_window, sent_in[end_ns], at_switches)
    flows = _without_rails(by_window, unreached, ns(params.window_s))
    found = [
        _suspect(element, own, sent)
        for element, own in at_switches.items()
        if len({flow.end_ns for flow in own}) >= params.min_windows
    ]
    single = _lost_flows(params, flows, sent_in)
    names = {one.flow for one in single}
    flows = [flow for flow in flows if flow.name not in names and flow.is_traced]
    return [*sorted(found, key=lambda one: one.element), *single, *_lossy_elements(params, flows, sent)]


def _without_lost_switches(
    params: PathParams, cells: Sequence[ProbeWindow], sent: "_Sent", at_switches: dict[str, list[LossyFlow]]
) -> tuple[list[LossyFlow], set[str]]:
    """Return the lossy flows of one window without those of switches that lose all probes, and the unreached rails.

    Adds the flows of such switches to `at_switches`.
    """
    flows = [flow for cell in cells for flow in lossy_flows(cell)]
    switches = _lost_switches(params, flows, sent)
    for element, own in switches.items():
        at_switches[element] += own
    left = [flow for flow in flows if switches.keys().isdisjoint(flow.elements())]
    return left, _unreached_rails(params, flows, sent)


def _without_rails(
    by_window: Mapping[int, list[LossyFlow]], unreached: Mapping[int, set[str]], width_ns: int
) -> list[LossyFlow]:
    """Return the lossy flows without those of unreached rails (rail/unreachable, or a link or host that is down).

    The flows of such a rail do not count in the adjacent windows either, because they may be partly affected.
    """
    found: list[LossyFlow] = []
    for end_ns, flows in by_window.items():
        rails = {rail for near in (-1, 0, 1) for rail in unreached.get(end_ns + near * width_ns, ())}
        found += [flow for flow in flows if rails.isdisjoint((flow.name.source, flow.name.target))]
    return found


class _Sent:
    """The probes over each element in all windows."""

    def __init__(self, cells: Sequence[ProbeWindow]) -> None:
        self._known: Counter[str] = Counter()
        self._totals: Counter[str] = Counter()
        for cell in cells:
            self._known.update(dict(zip(cell.element, cell.element_sent, strict=True)))
            self._totals.update(dict.fromkeys(cell.element, cell.sent))
        self._total = sum(cell.sent for cell in cells)
        self.windows = len({cell.at_ns for cell in cells})

    def over(self, element: str) -> int:
        """Return the probes over an element; estimates windows and partitions without losses there from the rest."""
        total = self._totals[element]
        return round(self._known[element] * self._total / total) if total else 0


def _lost_switches(params: PathParams, flows: Sequence[LossyFlow], sent: _Sent) -> dict[str, list[LossyFlow]]:
    """Return the switches through which no probe passes in a window, with their flows."""
    lost: dict[str, list[LossyFlow]] = defaultdict(list)
    for flow in flows:
        for element in flow.elements():
            if "/" not in element and element not in flow.name.hosts:
                lost[element].append(flow)
    return {
        element: own
        for element, own in lost.items()
        if sum(flow.lost for flow in own) >= params.lost_ratio * sent.over(element)
        and len({host for flow in own for host in flow.name.hosts}) > _HOSTS
    }


def _unreached_rails(params: PathParams, flows: Iterable[LossyFlow], sent: _Sent) -> set[str]:
    """Return the rails that lose nearly all probes from and to them: rail/unreachable, or a host that is down."""
    lost: Counter[str] = Counter()
    for flow in flows:
        for rail in (flow.name.source, flow.name.target):
            lost[rail] += flow.lost
    return {rail for rail, count in lost.items() if count >= params.lost_ratio * sent.over(rail)}


def _lost_flows(params: PathParams, flows: Sequence[LossyFlow], sent_in: Mapping[int, _Sent]) -> list[Suspect]:
    """Return the flows lost in two windows in which the losses of others over their links and hosts do not explain it.

    The more probes in a row a flow loses, the more may others lose. Its other windows do not count: a link that also
    goes down did not cause the former losses.
    """
    by_name: dict[FlowName, list[LossyFlow]] = defaultdict(list)
    for flow in flows:
        by_name[flow.name].append(flow)
    least = params.min_windows - 1

    def lost_in(windows: Iterable[LossyFlow]) -> int:
        return sum(one.is_lost and one.lost_run >= params.flow_losses for one in windows)

    lost = {name: own for name, own in by_name.items() if lost_in(own) >= least}
    if not lost:
        return []
    other_lost: Counter[tuple[int, str]] = Counter()
    lost_sent: Counter[tuple[int, str]] = Counter()
    for flow in flows:
        for element in _crossed(flow):
            if flow.name in lost:
                lost_sent[flow.end_ns, element] += flow.sent
            else:
                other_lost[flow.end_ns, element] += flow.lost

    def others(flow: LossyFlow) -> float:
        """Return the highest share of others' probes that an element of the flow loses; 1 if no other crosses one."""
        at_ns, sent = flow.end_ns, sent_in[flow.end_ns]
        of = {element: sent.over(element) - lost_sent[at_ns, element] for element in _crossed(flow)}
        return min(1.0, max(other_lost[at_ns, e] / other if other > 0 else 1.0 for e, other in of.items()))

    found = []
    for name, windows in lost.items():
        shares = {one.end_ns: others(one) for one in windows}
        own = [one for one in windows if shares[one.end_ns] ** max(one.lost, one.lost_run) <= params.chance]
        if lost_in(own) < least:
            continue
        # Prefer a trace that shows the place, then a window in which others lose the least, then the newest one.
        newest = max(own, key=lambda one: (_located(one)[1], -shares[one.end_ns], one.end_ns))
        element, is_located = _located(newest)
        ends = [one.end_ns for one in own]
        found.append(
            Suspect(
                element, sum(one.lost for one in own), sum(one.sent for one in own), min(ends), max(ends), 1,
                flow=name, is_located=is_located, others=max(shares[end_ns] for end_ns in ends),
            )
        )  # fmt: skip
    return sorted(found, key=lambda one: (one.element, one.flow))


def _crossed(flow: LossyFlow) -> frozenset[str]:
    """Return the elements of a path in both directions, its rails, and its hosts."""
    return flow.links_and_switches() | {flow.name.source, flow.name.target, *flow.name.hosts}


def _located(flow: LossyFlow) -> tuple[str, bool]:
    """Return the link after the last hop that answers, forward or else back; else the link of its target."""
    for links, reach in ((flow.forward, flow.forward_reach), (flow.back, flow.back_reach)):
        if reach is not None and reach < len(links) - 1 and links[reach]:
            return links[reach], True
    return flow.name.target, False


def _lossy_elements(params: PathParams, flows: Sequence[LossyFlow], sent: _Sent) -> list[Suspect]:
    """Return the links and switches that lose a share of the probes, each with the losses that it explains best."""
    tally = _Tally()
    crossed_by = [tally.add(number, flow) for number, flow in enumerate(flows)]
    hosts = {host for flow in flows for host in flow.name.hosts}
    scores = {e: tally.score(e, sent.over(e), params.noise) for e in tally.lost}
    found: list[Suspect] = []
    while scores and len(found) < _MAX_SUSPECTS:
        # Equal candidates: prefer the host, because whether it or its network is at fault is unknown.
        element = min(scores, key=lambda e: (-scores[e], e not in hosts, "/" not in e, e))
        if scores[element] < -math.log(params.chance):
            break
        own = [flows[number] for number in tally.flows[element]]
        if element not in hosts and not _is_spread(own, sent.over(element), sent.windows):
            del scores[element]
            continue
        if element not in hosts and _is_bad(params, own, sent.over(element)):
            found.append(_with_votes(_suspect(element, own, sent), tally, flows))
        for number in list(tally.flows[element]):
            for crossed in crossed_by[number]:
                tally.lost[crossed] -= flows[number].lost
                tally.flows[crossed].discard(number)
                scores[crossed] = tally.score(crossed, sent.over(crossed), params.noise)
        scores = {e: score for e, score in scores.items() if tally.lost[e] >= params.min_losses}
    return found


def _is_bad(params: PathParams, flows: Sequence[LossyFlow], sent: int) -> bool:
    """Return whether an element loses more than noise even without its worst windows."""
    by_window: Counter[int] = Counter()
    for flow in flows:
        by_window[flow.end_ns] += flow.lost
    rest = sum(sorted(by_window.values(), reverse=True)[params.min_windows - 1 :])
    return (
        rest >= max(params.min_losses, _REST_RATIO * by_window.total())
        and by_window.total() >= params.bad_ratio * sent
        and len({flow.name for flow in flows}) > 1
    )


def _is_spread(flows: Sequence[LossyFlow], sent: int, windows: int) -> bool:
    """Return whether as many flows have losses as if an element lost this share of all of them.

    Two lossy links of a switch are not a lossy switch, and a lost flow is not a lossy link. A flow of n probes loses
    some with a probability of 1 - (1 - share)^n.
    """
    of_flow = windows * sum(flow.sent for flow in flows) / len(flows)
    share = min(1.0, sum(flow.lost for flow in flows) / sent)
    expected = sent / of_flow * (1 - math.pow(1 - share, of_flow))
    return len({flow.name for flow in flows}) >= _SPREAD_RATIO * expected


def _suspect(element: str, flows: Sequence[LossyFlow], sent: _Sent) -> Suspect:
    ends = [flow.end_ns for flow in flows]
    return Suspect(
        element, sum(flow.lost for flow in flows), sent.over(element), min(ends), max(ends),
        len({flow.name for flow in flows}),
    )  # fmt: skip


def _with_votes(suspect: Suspect, tally: _Tally, flows: Sequence[LossyFlow]) -> Suspect:
    """Return a suspect with the votes of its flows, the next best of their links, and indistinguishable links."""
    own = tally.flows[suspect.element]
    votes: Counter[str] = Counter()
    for number in {flows[number].name: number for number in sorted(own)}.values():
        links = [element for element in flows[number].elements() if "/" in element]
        votes.update(dict.fromkeys(links, 0))
        for link in links:
            votes[link] += 1 / len(links)  # type: ignore[assignment]
    equal = tuple(sorted(e for e in votes if e != suspect.element and tally.flows[e] == own))
    others: Mapping[str, float] = {e: count for e, count in votes.items() if e not in (suspect.element, *equal)}
    best = min(others, key=lambda e: (-others[e], e), default="")
    is_switch = "/" not in suspect.element
    of_own = sum(count for e, count in votes.items() if device_of(e) == suspect.element) if is_switch else 0.0
    return Suspect(
        suspect.element, suspect.lost, suspect.sent, suspect.begin_ns, suspect.last_ns, suspect.flows,
        round(of_own if is_switch else votes[suspect.element], 3), best, round(others.get(best, 0.0), 3), equal,
    )  # fmt: skip
