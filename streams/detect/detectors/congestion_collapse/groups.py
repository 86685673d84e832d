"""Finds groups of hosts that share paths in one pod, and the times at which enough of them are throttled together."""

import math
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import ClassVar, NamedTuple

from streams.detect.evidence.spells import LinkSpells, SpellRun, group_spells
from streams.detect.thresholds import Ratio, Seconds, Thresholds
from streams.fabric.ids import Port
from streams.fabric.intervals import Interval, merge_intervals
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.symptoms import ThrottledBegan


class CollapseParams(Thresholds):
    """`[detect.collapse]`: pause increases and throughput falls across a group (DETECTION 3).

    No source gives numbers for it; each comment names the condition that separates a collapse from other causes.
    """

    paused: Ratio = 0.3
    """Share of time paused by the network: three times the pause of a host's own incast (`[detect.incast]`)."""
    retransmits_per_s: ClassVar[float] = 100
    """Packets that a sender retransmits (`packet_sequence_errors` or `adaptive_retransmits`): as many as a switch drops
    in an incast (`[detect.incast]` `drops_per_s`)."""
    timeouts_per_s: ClassVar[float] = 10
    """Timeouts and slow restarts of a sender: slow_restart 10/s (DETECTION 3)."""
    max_tx_ratio: ClassVar[float] = 0.5
    """The most traffic, relative to before: a rail is slow from 10 % less (Greyhound), here whole collectives stop."""
    busy: ClassVar[float] = 0.1
    """The least traffic before, as a ratio of speed: a port that hardly sent cannot collapse."""
    before_s: ClassVar[float] = 20
    """The shortest time of the traffic to compare with: the last whole window and the time since."""
    hosts: ClassVar[float] = 0.5
    """The least share of the group's hosts at the same time; fewer hosts are the senders of an incast."""
    min_hosts: ClassVar[int] = 3
    """The fewest hosts: two that wait for each other are not a group."""
    sustained_s: Seconds = 60
    """The least duration, as for an incast: a shorter change is a phase of the job."""
    quiet_s: ClassVar[float] = 60
    """Closes when too few hosts were throttled for this long."""
    remember_s: ClassVar[float] = 600
    """A closed collapse is retained for this long, for comparison with others that began at the same time."""


ThrottledSpells = LinkSpells[ThrottledBegan]


class GroupKind(Enum):
    """The property that the hosts of a group share."""

    JOB = "job"
    PLANE = "plane"
    RAIL = "rail"


class ThrottledLink(NamedTuple):
    """One link of a host during one time in which it was throttled."""

    cable: TopologyLink
    run: SpellRun[ThrottledBegan]

    @property
    def host(self) -> str:
        return self.cable.lower.device

    def overlaps(self, span: Interval) -> bool:
        """Return whether it was throttled at any time of a span, ends included."""
        return self.run.begin_ns <= span[1] and span[0] <= self.run.end_ns


class Group(NamedTuple):
    """Hosts of one pod that share a job, a plane or a rail, and their throttled links."""

    kind: GroupKind
    key: str
    hosts: int
    throttled: list[ThrottledLink]

    @property
    def name(self) -> str:
        return f"{self.kind.value} {self.key}"

    @property
    def throttled_hosts(self) -> set[str]:
        return {link.host for link in self.throttled}

    def enough(self, params: CollapseParams) -> int:
        return max(params.min_hosts, math.ceil(params.hosts * self.hosts))

    def spans(self, enough: int, quiet_ns: int) -> list[Interval]:
        """Return the spans in which `enough` hosts were throttled at once; gaps up to `quiet_ns` divide none."""
        by_host: dict[str, list[Interval]] = {}
        for link in self.throttled:
            by_host.setdefault(link.host, []).append((link.run.begin_ns, link.run.end_ns))
        # Starts (0) sort before ends (1): a link that ends when another begins was throttled together with it.
        edges = [
            edge
            for own in by_host.values()
            for begin, end in merge_intervals(own)
            for edge in ((begin, 0, 1), (end, 1, -1))
        ]
        count, since_ns, spans = 0, 0, list[Interval]()
        for at_ns, _, change in sorted(edges):
            before, count = count, count + change
            if before < enough <= count:
                since_ns = at_ns
            elif count < enough <= before:
                spans.append((since_ns, at_ns))
        return merge_intervals(spans, quiet_ns + 1)


def throttled_links(
    topology: Topology, links: Mapping[str, ThrottledSpells], quiet_ns: int
) -> Iterator[tuple[str, ThrottledLink]]:
    """Yield (subject id, throttled link) for each time at which a known link was throttled."""
    for key, link in links.items():
        at = link.subject.a
        cable = topology.link_at(Port(at.device, at.port)) if at is not None else None
        if cable is not None:
            for run in group_spells(quiet_ns, link.spells):
                yield key, ThrottledLink(cable, run)


def groups_of(topology: Topology, pod: str, throttled: Iterable[ThrottledLink]) -> Iterator[Group]:
    """Yield the groups of the throttled links, with the number of their hosts in this pod."""
    by_name: dict[tuple[str, str], list[ThrottledLink]] = {}
    for link in throttled:
        for job in topology.jobs_on([link.host], link.run.begin_ns):
            by_name.setdefault((GroupKind.JOB.value, job), []).append(link)
        if link.cable.plane is not None:
            by_name.setdefault((GroupKind.PLANE.value, str(link.cable.plane)), []).append(link)
        by_name.setdefault((GroupKind.RAIL.value, str(link.cable.rail)), []).append(link)
    for (value, key), own in sorted(by_name.items()):
        kind = GroupKind(value)
        first = min(own, key=lambda link: (link.run.begin_ns, link.cable.id))
        if kind is GroupKind.JOB:
            allocated = topology.placement.hosts_of(key, first.run.begin_ns)
            hosts = {host for host in allocated if topology.pod_of(host) == pod}
        else:
            equal = topology.peers_of(first.cable, ("role", "pod", "rail" if kind is GroupKind.RAIL else "plane"))
            hosts = {cable.lower.device for cable in (first.cable, *equal)}
        if hosts:
            yield Group(kind, key, len(hosts), own)
