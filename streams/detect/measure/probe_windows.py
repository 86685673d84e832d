"""Sums up the probe reports of one partition by window; emits lossy paths, and unreachable or delayed rails.

A window is emitted when the watermark reaches its end, and again for each report that arrives within the lateness.
Reports of a prober that stalled do not count, because its own delay looks like loss. A fabric without loss costs one
sum of arrays per report, and one short message per window. An element of the network is named `device/port`, the link
in the direction into that port, or `device`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from statistics import median_low
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streams.detect.detectors.congestion_incast.report import IncastParams
from streams.detect.detectors.path_loss.flows import PathParams
from streams.detect.detectors.rail_unreachable import UnreachableParams
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import ProbeReport, ProbeWindow, RailDelays, RailProbes

Numbers = npt.NDArray[np.int64]
TO = ">"
"""The prefix of the name of an element that counts only the probes to a rail, without the replies that it receives."""


class FlowPath(NamedTuple):
    """The elements of a flow: its rails, and the ports at which it enters switches, -1 if a port is unknown."""

    source: int
    target: int
    forward: tuple[int, ...]
    back: tuple[int, ...]


class FlowLayout(NamedTuple):
    """The elements of all flows of a report."""

    key: tuple[tuple[object, ...], ...]
    paths: tuple[FlowPath | None, ...]
    """None for a flow whose rails the inventory does not have."""
    flow: Numbers
    element: Numbers
    """Each element that a flow crosses, beside the number of the flow."""


def layout_key(report: ProbeReport) -> tuple[tuple[object, ...], ...]:
    """Return the fields that determine the layout."""
    return (
        report.address, report.flow_source, report.flow_target, report.flow_forward_hops, report.flow_reverse_hops,
        report.hop,
    )  # fmt: skip


def make_layout(report: ProbeReport, addresses: Mapping[str, Port], number: Callable[[str], int]) -> FlowLayout:
    """Return the layout of a report; `number` returns the number of an element."""
    ports = [addresses.get(address) for address in report.address]
    entered = [-1 if port is None else number(f"{port.device}/{port.port}") for port in ports]
    flows: list[int] = []
    elements: list[int] = []
    paths: list[FlowPath | None] = []
    place = 0
    for flow, (source, target) in enumerate(zip(report.flow_source, report.flow_target, strict=True)):
        middle = place + report.flow_forward_hops[flow]
        end = middle + report.flow_reverse_hops[flow]
        hops, place = (report.hop[place:middle], report.hop[middle:end]), end
        own, other = ports[source], ports[target]
        if own is None or other is None:
            paths.append(None)
            continue
        forward, back = (tuple(entered[hop - 1] if hop else -1 for hop in path) for path in hops)
        paths.append(FlowPath(entered[source], entered[target], forward, back))
        switches = [ports[hop - 1] for path in hops for hop in path if hop]
        links = (one for one in (*forward, *back, entered[source], entered[target]) if one >= 0)
        devices = [*(port.device for port in switches if port is not None), own.device, other.device]
        to_rail = f"{TO}{other.device}/{other.port}"
        crossed = dict.fromkeys((*links, *map(number, devices), number(to_rail)))
        elements += crossed
        flows += [flow] * len(crossed)
    return FlowLayout(
        layout_key(report), tuple(paths), np.array(flows, np.int64), np.array(elements, np.int64)
    )  # fmt: skip


_MIN_FLOWS = 3
"""The fewest flows with which a rail, or a prober, has a usual time: those of a ToR mesh."""


@dataclass(slots=True)
class RailTimes:
    """The delayed flows from and to one rail in one window, of the reports of one partition."""

    own: tuple[int, int, int] = (0, 0, 0)
    """Flows from the rail, delayed flows, and the median of their delays in ns; zeros unless nearly all are delayed."""
    peers: dict[str, int] = field(default_factory=dict)
    """Other host -> the largest delay of its flows to the rail, in ns."""

    @property
    def delay_ns(self) -> int:
        """Return the median delay of the rail's own flows, else of the flows to it."""
        return self.own[2] or median_low(self.peers.values())


def add_delays(params: IncastParams, report: ProbeReport, layout: FlowLayout, rails: dict[int, RailTimes]) -> None:
    """Add the delayed flows of a report to the rails of a window, which are named by number of the element.

    A rail with nearly all flows delayed casts no votes for their targets, because its own port delays them.
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


_MAX_FLOWS = 4096
"""The most lossy flows per window and partition: all of 39 hosts. More are lost only if whole pods are cut off."""
_MAX_DELAYED = 1024
"""The most emitted rails with delayed flows per window and partition: 170 hosts with six of eight rails delayed. More
delayed rails are a load of the whole fabric."""


@dataclass(slots=True)
class LossyFlow:
    """One flow of a window that lost probes."""

    path: FlowPath
    source_port: int
    sent: int
    lost: tuple[int, int, int]
    """The losses forward, in reverse, and unanswered."""
    lost_run: int
    reach: tuple[int, int]


@dataclass(slots=True)
class OpenWindow:
    """The reports of one window so far."""

    sent: Any = field(default_factory=lambda: np.zeros(0, np.int64))
    """Probes by number of the element."""
    devices: dict[str, list[int]] = field(default_factory=dict)
    """Prober -> the ends of its reports."""
    left_out: list[str] = field(default_factory=list)
    """Probers in `devices` that stalled."""
    total: int = 0
    flows: list[LossyFlow] = field(default_factory=list)
    rails: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    """Element of a rail that lost own probes -> sent and lost, and the same of the host's other rails."""
    emitted_rails: list[int] = field(default_factory=list)
    """Elements of emitted rails, which a later report may show to be reached."""
    is_emitted: bool = False
    delays: dict[int, RailTimes] = field(default_factory=dict)
    """Element of a rail with delayed flows from or to it -> the delays."""


class ProbeWindows:
    """The open windows of one partition."""

    def __init__(
        self,
        params: PathParams,
        rail_params: UnreachableParams,
        delay_params: IncastParams,
        lateness_s: float,
        shard: int,
    ) -> None:
        self._params, self._rail_params, self._delay_params, self._shard = params, rail_params, delay_params, shard
        self._width_ns, self._lateness_ns = ns(params.window_s), ns(lateness_s)
        self._topology: Topology | None = None
        self._numbers: dict[str, int] = {}
        self._layouts: dict[str, FlowLayout] = {}
        self.windows: dict[int, OpenWindow] = {}
        self._closed_ns = 0

    def set_topology(self, topology: Topology) -> None:
        """Replace the version of the inventory; elements that no open window counts are discarded."""
        if self._topology is not None and topology.addresses is self._topology.addresses:
            return
        self._topology = topology
        self._layouts.clear()
        if not self.windows:
            self._numbers.clear()

    def add(self, report: ProbeReport, at_ns: int) -> bool:
        """Add a report whose window ended at a time; return False for a repeated or late report."""
        assert self._topology is not None
        end_ns = (at_ns + self._width_ns // 2) // self._width_ns * self._width_ns  # clocks differ slightly
        if end_ns <= self._closed_ns:
            return False
        window = self.windows.setdefault(end_ns, OpenWindow())
        known = window.devices.setdefault(report.device, [])
        if report.end_ns in known:
            return False
        known.append(report.end_ns)
        window.is_emitted = False
        if report.stalls > self._params.max_stalls:
            if report.device not in window.left_out:
                window.left_out.append(report.device)
            return True
        layout = self._layouts.get(report.device)
        if layout is None or layout.key != layout_key(report):
            layout = self._layouts[report.device] = make_layout(report, self._topology.addresses, self._number)
        sent = np.array(report.flow_sent, np.int64)
        counts = np.bincount(layout.element, sent[layout.flow], len(self._numbers)).astype(np.int64)
        counts[: len(window.sent)] += window.sent
        window.sent = counts
        window.total += int(sent.sum())
        if any(report.flow_forward_lost) or any(report.flow_reverse_lost) or any(report.flow_unanswered):
            self._add_losses(window, report, layout)
        add_delays(self._delay_params, report, layout, window.delays)
        return True

    def _number(self, element: str) -> int:
        return self._numbers.setdefault(element, len(self._numbers))

    def _add_losses(self, window: OpenWindow, report: ProbeReport, layout: FlowLayout) -> None:
        rails: dict[int, list[int]] = {}
        for flow, path in enumerate(layout.paths):
            if path is None:
                continue
            lost = report.flow_forward_lost[flow], report.flow_reverse_lost[flow], report.flow_unanswered[flow]
            of_rail = rails.setdefault(path.source, [0, 0])
            of_rail[0] += report.flow_sent[flow]
            of_rail[1] += sum(lost)
            if any(lost) and len(window.flows) < _MAX_FLOWS:
                reach = report.flow_forward_reach[flow], report.flow_reverse_reach[flow]
                window.flows.append(
                    LossyFlow(
                        path, report.flow_source_port[flow], report.flow_sent[flow], lost, report.flow_lost_run[flow],
                        reach,
                    )
                )  # fmt: skip
        all_sent, all_lost = (sum(counts[n] for counts in rails.values()) for n in range(2))
        for rail, (sent, lost_of) in rails.items():
            if lost_of and lost_of >= self._rail_params.unreached_ratio * sent:
                window.rails[rail] = sent, lost_of, all_sent - sent, all_lost - lost_of

    def due(self, watermark_ns: int) -> list[ProbeWindow | RailProbes | RailDelays]:
        """Return the windows that ended and changed since they were emitted; drop final windows."""
        found: list[ProbeWindow | RailProbes | RailDelays] = []
        for end_ns in sorted(self.windows):
            if end_ns > watermark_ns:
                break
            window = self.windows[end_ns]
            if not window.is_emitted:
                window.is_emitted = True
                found += self._compose(end_ns, window)
            if end_ns + self._lateness_ns <= watermark_ns:
                del self.windows[end_ns]
                self._closed_ns = end_ns
        return found

    def _compose(self, end_ns: int, window: OpenWindow) -> Iterator[ProbeWindow | RailProbes | RailDelays]:
        names = list(self._numbers)
        flows = sorted(
            window.flows, key=lambda flow: (names[flow.path.source], names[flow.path.target], flow.source_port)
        )  # fmt: skip
        places: dict[str, int] = {}

        def place(element: int) -> int:
            return places.setdefault(names[element], len(places)) if element >= 0 else -1

        sources = tuple(place(flow.path.source) for flow in flows)
        targets = tuple(place(flow.path.target) for flow in flows)
        hops = tuple(1 + place(hop) for flow in flows for hop in (*flow.path.forward, *flow.path.back))
        for name in list(places):
            places.setdefault(name.split("/", 1)[0], len(places))
        yield ProbeWindow(
            self._shard, end_ns, len(window.devices) - len(window.left_out), len(window.left_out), window.total,
            tuple(places), tuple(self._sent(window, name) for name in places), sources, targets,
            tuple(flow.source_port for flow in flows), tuple(flow.sent for flow in flows),
            tuple(flow.lost[0] for flow in flows), tuple(flow.lost[1] for flow in flows),
            tuple(flow.lost[2] for flow in flows), tuple(flow.lost_run for flow in flows),
            tuple(len(flow.path.forward) for flow in flows), tuple(len(flow.path.back) for flow in flows), hops,
            tuple(flow.reach[0] for flow in flows), tuple(flow.reach[1] for flow in flows),
        )  # fmt: skip
        yield from self._rails(end_ns, window, names)
        yield from self._delays(end_ns, window, names)

    def _sent(self, window: OpenWindow, name: str) -> int:
        number = self._numbers.get(name, -1)
        return int(window.sent[number]) if 0 <= number < len(window.sent) else 0

    def _rails(self, end_ns: int, window: OpenWindow, names: list[str]) -> Iterator[RailProbes]:
        """Yield the rails that lost nearly all probes from or to them."""
        lost_to: dict[int, int] = {}
        peers: dict[int, set[str]] = {}
        for flow in window.flows:
            lost_to[flow.path.target] = lost_to.get(flow.path.target, 0) + sum(flow.lost)
            peers.setdefault(flow.path.target, set()).add(names[flow.path.source].split("/", 1)[0])
        for rail in sorted({*lost_to, *window.rails, *window.emitted_rails}, key=names.__getitem__):
            sent_to, lost = self._sent(window, TO + names[rail]), lost_to.get(rail, 0)
            own = window.rails.get(rail, (0, 0, 0, 0))
            is_suspect = own[1] or (lost and lost >= self._rail_params.unreached_ratio * sent_to)
            if is_suspect and rail not in window.emitted_rails:
                window.emitted_rails.append(rail)
            if rail in window.emitted_rails:
                device, port = names[rail].split("/", 1)
                yield RailProbes(
                    device, port, self._shard, end_ns - self._width_ns, end_ns, *own, sent_to, lost,
                    len(peers.get(rail, ())),
                )  # fmt: skip

    def _delays(self, end_ns: int, window: OpenWindow, names: list[str]) -> Iterator[RailDelays]:
        """Yield the rails with delayed flows: first those with all flows delayed, then by number of other hosts."""
        order = sorted(
            window.delays, key=lambda rail: (-window.delays[rail].own[1], -len(window.delays[rail].peers), names[rail])
        )  # fmt: skip
        for rail in order[:_MAX_DELAYED]:
            times, (device, port) = window.delays[rail], names[rail].split("/", 1)
            yield RailDelays(
                device, port, self._shard, end_ns - self._width_ns, end_ns, times.own[0], times.own[1],
                len(times.peers), times.delay_ns,
            )  # fmt: skip

    def dump(self) -> dict[str, Any]:
        windows: dict[str, Any] = {}
        for end_ns, window in self.windows.items():
            values = windows[str(end_ns)] = asdict(window)
            values["sent"] = window.sent.tolist()
            values["rails"] = [[rail, *counts] for rail, counts in window.rails.items()]
            values["delays"] = [[rail, times.own, times.peers] for rail, times in window.delays.items()]
            for flow in values["flows"]:
                flow["path"] = list(flow["path"])
        return {"closed_ns": self._closed_ns, "elements": list(self._numbers), "windows": windows}

    def load(self, data: dict[str, Any]) -> None:
        self._closed_ns = int(data["closed_ns"])
        self._numbers = {str(name): number for number, name in enumerate(data["elements"])}
        for end_ns, values in data["windows"].items():
            flows = [
                LossyFlow(
                    FlowPath(source, target, tuple(forward), tuple(back)), one["source_port"], one["sent"],
                    tuple(one["lost"]), one["lost_run"], tuple(one["reach"]),
                )
                for one in values["flows"]
                for source, target, forward, back in (one["path"],)
            ]  # fmt: skip
            rails = {int(rail): tuple(counts) for rail, *counts in values["rails"]}
            self.windows[int(end_ns)] = OpenWindow(
                np.array(values["sent"], np.int64), values["devices"], values["left_out"], values["total"], flows,
                rails, values["emitted_rails"], values["is_emitted"],
                {rail: RailTimes(tuple(own), peers) for rail, own, peers in values["delays"]},
            )  # fmt: skip
