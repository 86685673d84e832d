"""The rails of one pod: holds each window until all hosts' have come, lets rail_peers.py judge it, and concludes.

A window is judged once the watermark has passed its end by the lateness: by then every host's was told.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from streams.detect.detectors.rail_degraded import evaluate as rail_degraded
from streams.detect.detectors.rail_degraded.comparison import compare_rails
from streams.detect.detectors.rail_degraded.evaluate import RailState, subject_of
from streams.detect.evidence.link_history import FOREVER, Interval
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.intervals import closed, overlaps_any
from streams.fabric.topology import Topology
from streams.wire.models import Episode, PeerWindow, Subject

NAME = "rails of "
"""Before a pod's name, where what is due are its rails."""

SubjectOf = Callable[[Port], Subject]
UnsettledAt = Callable[[Port], list[Interval]]
"""When a port's link was down, trained or was shut: a rail that is not up is not slow."""


def hosts_by_pod(topology: Topology) -> dict[str, list[str]]:
    """The hosts of each pod, once an inventory: a pod is judged each minute."""
    hosts: dict[str, list[str]] = {}
    for device in topology.devices.values():
        if device.kind == "host":
            hosts.setdefault(topology.pod_of(device.name), []).append(device.name)
    return hosts


@dataclass(slots=True)
class PodRails:
    """What is known of a pod's rails."""

    waiting: dict[int, dict[str, PeerWindow]] = field(default_factory=dict)
    """Begin of a window -> host -> what was read of it; by the first of its sources."""
    judged_ns: int = 0
    """The end of the newest window that was judged: what comes of one before is too late."""
    own: dict[str, RailState] = field(default_factory=dict)
    """`host/rail` -> a rail that is or was bad."""

    def add(self, rails: PeerWindow) -> None:
        """One host's window."""
        if rails.end_ns <= self.judged_ns:
            return
        hosts = self.waiting.setdefault(rails.begin_ns, {})
        known = hosts.get(rails.device)
        if known is None or rails.source < known.source:
            hosts[rails.device] = rails

    def due_ns(self, params: DetectParams) -> int:
        """When the next window can be judged."""
        ends = (next(iter(hosts.values())).end_ns for hosts in self.waiting.values())
        return min((end + ns(params.lateness_s) for end in ends), default=FOREVER)

    def look(
        self,
        params: DetectParams,
        topology: Topology,
        subject_at: SubjectOf,
        unsettled_at: UnsettledAt,
        read: Collection[str],
        watermark_ns: int,
    ) -> tuple[list[Episode], int]:
        """Judge what is complete, and conclude on every rail that it concerns; answers when to look again.

        `read` are the pod's hosts that are not silent.
        """
        for begin_ns in sorted(self.waiting):
            hosts = self.waiting[begin_ns]
            end_ns = next(iter(hosts.values())).end_ns
            if end_ns + ns(params.lateness_s) > watermark_ns:
                break
            del self.waiting[begin_ns]
            self.judged_ns = max(self.judged_ns, end_ns)
            for rail, mark in compare_rails(params.rail, topology, hosts, read, self.own.keys()).values():
                port = Port(rail.host, rail.port)
                if overlaps_any(unsettled_at(port), closed(hosts[rail.host].since_ns, end_ns)):
                    continue
                name = f"{rail.host}/{rail.rail}"
                if name not in self.own:
                    subject = subject_of(rail, subject_at(port))
                    self.own[name] = RailState(subject)
                self.own[name].add(mark)
        episodes: list[Episode] = []
        due_ns = self.due_ns(params)
        for name, state in list(self.own.items()):
            host = state.subject.a.device if state.subject.a is not None else ""
            said, again_ns = rail_degraded.step(params, state, watermark_ns, is_read=host in read)
            episodes += said
            due_ns = min(due_ns, again_ns)
            if state.is_over:
                del self.own[name]
        return episodes, due_ns


def observe(params: DetectParams, pods: dict[str, PodRails], pod: str, rails: PeerWindow) -> tuple[str, int] | None:
    """Take a host's window in; answers what to look at, and when."""
    own = pods.setdefault(pod, PodRails())
    own.add(rails)
    due_ns = own.due_ns(params)
    return (NAME + pod, due_ns) if due_ns != FOREVER else None
