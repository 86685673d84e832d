"""Composes the report of one window from the measured flows. Pure."""

from collections.abc import Sequence

from collectors.probe.prober import MeasuredFlow
from collectors.probe.trace import TracedPath
from streams.wire.models import ProbeReport

_MAX_NS = 2**31 - 1
"""The codec's bound of a number: 2.1 s."""


class Identity:
    """The names of one prober's reports; numbers them."""

    def __init__(self, device: str, collector: str, run: int) -> None:
        self.device, self.collector, self.run = device, collector, run
        self._sequence = 0

    def next_sequence(self) -> int:
        """Return the next number."""
        self._sequence += 1
        return self._sequence


def compose(
    identity: Identity, flows: Sequence[MeasuredFlow], begin_ns: int, end_ns: int, now_ns: int, stalls: int = 0
) -> ProbeReport:
    """Return the report of a window [begin_ns, end_ns), numbered."""
    places: dict[str, int] = {}

    def place(address: str) -> int:
        return places.setdefault(address, len(places))

    sources = tuple(place(flow.key.rail.address) for flow in flows)
    targets = tuple(place(flow.key.target.address) for flow in flows)
    hops = tuple(
        1 + place(address) if address else 0
        for flow in flows
        for path in (flow.forward, flow.back)
        for address in path.hops
    )
    windows = [flow.window for flow in flows]
    return ProbeReport(
        identity.device, identity.collector, identity.run, identity.next_sequence(), begin_ns, end_ns, now_ns, stalls,
        tuple(places), sources, targets,
        tuple(flow.key.source_port for flow in flows),
        tuple(window.sent for window in windows),
        tuple(window.forward_lost for window in windows),
        tuple(window.reverse_lost for window in windows),
        tuple(window.unanswered for window in windows),
        tuple(window.discarded for window in windows),
        tuple(window.reordered for window in windows),
        tuple(window.lost_run for window in windows),
        tuple(_quantile(window.rtt_ns, 0.5) for window in windows),
        tuple(_quantile(window.rtt_ns, 0.99) for window in windows),
        tuple(_quantile(window.responder_ns, 0.5) for window in windows),
        tuple(len(flow.forward.hops) for flow in flows),
        tuple(len(flow.back.hops) for flow in flows),
        hops,
        tuple(_reach(flow.forward) for flow in flows),
        tuple(_reach(flow.back) for flow in flows),
    )  # fmt: skip


def _reach(path: TracedPath) -> int:
    return 0 if path.reach is None else 1 + path.reach


def _quantile(values: Sequence[int], ratio: float) -> int:
    """Return the nearest rank of sorted values; 0 where there is none."""
    return min(_MAX_NS, max(1, values[min(len(values) - 1, int(ratio * len(values)))])) if values else 0
