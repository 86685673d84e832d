"""Finds the flows of one probe report that take longer than the others of its prober: packets queue on their path.

The lower quartile of the report's flows is the usual round-trip time: a host whose own kernel or clock is slow delays
all of them alike, and is no queue. The time at the responder is not part of a round-trip time. Pure.
"""

from dataclasses import dataclass, field
from statistics import median_low

from streams.detect.detectors.congestion_incast.report import IncastParams
from streams.detect.measure.probes.flow_layout import FlowLayout
from streams.wire.models import ProbeReport

_MIN_FLOWS = 3
"""Flows from which on a rail, or a prober, has a usual time: those of a ToR mesh."""


@dataclass(slots=True)
class RailTimes:
    """The delayed flows of and to one rail in one window, of the reports of one partition."""

    own: tuple[int, int, int] = (0, 0, 0)
    """Flows from the rail, those delayed, and the median of their delays in ns; zeros unless nearly all are."""
    peers: dict[str, int] = field(default_factory=dict)
    """By other host, the largest delay of its flows to the rail, in ns."""

    @property
    def delay_ns(self) -> int:
        """Return the median delay: of the rail's own flows, else of those to it."""
        return self.own[2] or median_low(self.peers.values())


def add_delays(params: IncastParams, report: ProbeReport, layout: FlowLayout, rails: dict[int, RailTimes]) -> None:
    """Add the delayed flows of a report to the rails of a window, which are named by number of the element.

    A rail of which nearly all flows are delayed casts no votes for their targets: its own port delays them.
    """
    limit_ns, times = round(params.delay_us * 1e3), report.flow_rtt_p50_ns
    if max(times, default=0) < limit_ns:
        return
    answered = sorted(time for time in times if time)
    usual_ns = answered[len(answered) // 4]
    if len(answered) < _MIN_FLOWS or answered[-1] < usual_ns + limit_ns:
        return
    flows: dict[int, list[tuple[int, int]]] = {}
    for path, time in zip(layout.paths, times, strict=True):
        if path is not None and time:
            flows.setdefault(path.source, []).append((path.target, time - usual_ns))
    for rail, own in flows.items():
        delayed = [(target, delay_ns) for target, delay_ns in own if delay_ns >= limit_ns]
        if len(own) >= _MIN_FLOWS and len(delayed) >= params.delayed_ratio * len(own):
            delays = [delay_ns for _, delay_ns in delayed]
            rails.setdefault(rail, RailTimes()).own = len(own), len(delayed), median_low(delays)
            continue
        for target, delay_ns in delayed:
            peers = rails.setdefault(target, RailTimes()).peers
            peers[report.device] = max(delay_ns, peers.get(report.device, 0))
