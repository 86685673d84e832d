"""Tracks which uplinks of a device were broken at the same time, from the present findings."""

import itertools
from collections.abc import Collection, Iterable, Sequence

from streams.detect.attribute.case_index import CaseIndex
from streams.detect.attribute.sides import fabric_side
from streams.detect.evidence.link_history import FOREVER
from streams.detect.fabric_side import Loss
from streams.fabric.ids import Port
from streams.fabric.intervals import Interval, clip, max_overlap, merge_intervals
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import Finding, Subject


def open_interval(finding: Finding) -> Interval:
    """Return the interval in which a finding was open."""
    return finding.started_at_ns, FOREVER if finding.resolved_at_ns is None else finding.resolved_at_ns


class Outages:
    """The broken uplinks by device; call `invalidate` when a finding changes."""

    def __init__(self, cases: CaseIndex, topology: Topology) -> None:
        self._cases = cases
        self._topology = topology
        self._cache: dict[str, dict[str, list[Interval]]] = {}

    def invalidate(self, finding: Finding) -> tuple[str, ...]:
        """Drop the intervals that a changed finding affects; return the devices with these uplinks."""
        lower: tuple[str, ...] = ()
        loss = fabric_side(finding).loss
        if loss is Loss.LINK:
            link = self._topology.links.get(finding.subject.id)
            lower = (link.lower.device,) if link else ()
        elif loss is Loss.DEVICE and finding.subject.a is not None:
            links = self._topology.links_of.get(finding.subject.a.device, ())
            lower = tuple(dict.fromkeys(link.lower.device for link in links))
        for device in lower:
            self._cache.pop(device, None)
        return lower

    def broken_uplinks(self, device: str) -> dict[str, list[Interval]]:
        """Return the intervals in which each uplink of a device was broken; omits uplinks that never were."""
        broken = self._cache.get(device)
        if broken is None:
            broken = self._cache[device] = self._compute(device)
        return broken

    def _compute(self, device: str) -> dict[str, list[Interval]]:
        uplinks = self._topology.uplinks_of.get(device, ())
        intervals: dict[str, list[Interval]] = {link.id: [] for link in uplinks}
        outages: dict[str, list[Interval]] = {}
        for finding in self._cases.findings_at(device):
            loss = fabric_side(finding).loss
            if loss is Loss.LINK and finding.subject.id in intervals:
                intervals[finding.subject.id].append(open_interval(finding))
            elif loss is Loss.DEVICE:
                outages.setdefault(device, []).append(open_interval(finding))
        for link in uplinks:
            upper = link.upper.device
            if upper not in outages:
                outages[upper] = [open_interval(outage) for outage in self._cases.outages_at(upper)]
            intervals[link.id] += [*outages[upper], *outages.get(device, ())]
        return {identity: own for identity, own in intervals.items() if own}

    def max_concurrent(self, device: str, among: Collection[str], begin_ns: int, end_ns: int) -> int:
        """Return the largest number of these uplinks that were broken at the same time within an interval."""
        broken = self.broken_uplinks(device)
        within = begin_ns, end_ns
        # A link that is broken for two reasons counts once.
        return max_overlap(
            interval
            for identity in among
            if identity in broken
            for interval in clip(merge_intervals(broken[identity]), within)
        )

    def broken_at(self, links: Iterable[TopologyLink], at_ns: int) -> list[TopologyLink]:
        return [
            link
            for device, own in itertools.groupby(links, key=lambda link: link.lower.device)
            if (broken := self.broken_uplinks(device))
            for link in own
            if link.id in broken and any(begin <= at_ns < end for begin, end in broken[link.id])
        ]


def link_at(topology: Topology, subject: Subject) -> TopologyLink | None:
    """Return the link of a subject in the present inventory."""
    return topology.link_at(Port(subject.a.device, subject.a.port)) if subject.a and subject.a.port else None


def jobs_during(topology: Topology, hosts: Sequence[str], finding: Finding, watermark_ns: int) -> tuple[str, ...]:
    """Return the jobs that ran on any of these hosts when a finding started or while it was open."""
    end_ns = finding.resolved_at_ns
    if end_ns is None:
        end_ns = max(watermark_ns, finding.detected_at_ns or 0)
    return topology.jobs_between(hosts, finding.started_at_ns, end_ns)
