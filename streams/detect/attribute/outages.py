"""Computes when the uplinks of a device were broken: links that are down, and links to devices that are down.

Redundancy is rated by how many were broken at the same time. The intervals of a device are cached until something
changes at it.
"""

import itertools
from collections.abc import Collection, Iterable

from streams.detect.attribute.case_index import CaseIndex
from streams.detect.attribute.sides import fabric_side
from streams.detect.evidence.link_history import FOREVER
from streams.detect.fabric_side import Loss
from streams.fabric.intervals import Interval, clip, max_overlap, merge_intervals
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import Finding


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
        """Drop the intervals that a changed finding affects; return the devices whose uplinks these are."""
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
        """Return the intervals in which each uplink of a device was broken; without those that never were."""
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
        """Return how many of these uplinks were broken at the same time within an interval, at most."""
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
        """Return those of these links that were broken at a time."""
        return [
            link
            for device, own in itertools.groupby(links, key=lambda link: link.lower.device)
            if (broken := self.broken_uplinks(device))
            for link in own
            if link.id in broken and any(begin <= at_ns < end for begin, end in broken[link.id])
        ]
