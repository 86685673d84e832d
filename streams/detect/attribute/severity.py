"""Rates findings by DETECTION 3a: applies the detectors' rules to jobs, redundancy and concurrent outages."""

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from streams.detect.attribute.case_index import CaseIndex
from streams.detect.attribute.sides import DetectorParams, fabric_side
from streams.detect.attribute.state import Case
from streams.detect.evidence.link_history import FOREVER
from streams.detect.fabric_side import Loss, devices_of
from streams.detect.params import DetectParams
from streams.fabric.ids import Port
from streams.fabric.intervals import Interval, clip, max_overlap, merge_intervals
from streams.fabric.inventory_rows import HOST_LINK
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import Finding, Severity, Subject


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


class SeverityRater:
    """Rates findings; implements the `SeverityContext` of the detectors' side."""

    def __init__(self, params: DetectParams, topology: Topology, outages: Outages, cases: Mapping[str, Case]) -> None:
        self.topology = topology
        self.floor = params.capacity_floor
        self.watermark_ns = 0
        self.silent_devices: Callable[[int], int] | None = None
        """Counts the silent devices at a time; None between two watermarks."""
        self._params = DetectorParams(params)
        self._outages = outages
        self._cases = cases

    def rate(self, finding: Finding) -> Severity:
        """Return the highest severity that a finding had while it was open."""
        side = fabric_side(finding)
        if finding.severity is Severity.INFO:
            return finding.severity
        devices = devices_of(finding)
        if devices and not any(device in self.topology.devices for device in devices):
            return Severity.WARNING  # devices outside the inventory are listed but never page
        if side.severity_by_detector:
            return finding.severity
        is_critical = side.is_critical is not None and side.is_critical(finding, self)
        return Severity.CRITICAL if is_critical else Severity.WARNING

    def params_of(self, finding: Finding) -> Any:
        return self._params.of(finding)

    @property
    def device_count(self) -> int:
        return len(self.topology.devices)

    def link_of(self, finding: Finding) -> TopologyLink | None:
        return link_at(self.topology, finding.subject)

    def has_job(self, host: str, finding: Finding) -> bool:
        return bool(jobs_during(self.topology, [host], finding, self.watermark_ns))

    def has_redundancy(self, link: TopologyLink, finding: Finding) -> bool:
        return self._has_redundancy(link.lower.device, {link.id: link}, finding)

    def isolates_neighbor(self, device: str, finding: Finding) -> bool:
        known = self.topology.devices.get(device)
        if known is None or known.kind == "host":
            return False
        by_lower: dict[str, dict[str, TopologyLink]] = {}
        for link in self.topology.links_of.get(device, ()):
            if link.upper.device == device:
                by_lower.setdefault(link.lower.device, {})[link.id] = link
        return any(not self._has_redundancy(lower, links, finding) for lower, links in by_lower.items())

    def silent_devices_at(self, at_ns: int) -> int | None:
        return None if self.silent_devices is None else self.silent_devices(at_ns)

    def was_critical(self, finding: Finding) -> bool:
        published = self._cases[finding.id].published
        return published is not None and published.severity is Severity.CRITICAL

    def _has_redundancy(self, device: str, lost: dict[str, TopologyLink], finding: Finding) -> bool:
        """Return whether a device retained enough uplinks without these, all the time that the finding was open."""
        begin_ns, end_ns = open_interval(finding)
        uplinks = [link for link in self.topology.uplinks_of.get(device, ()) if link.is_uplink]
        if all(link.role == HOST_LINK for link in lost.values()):
            return all(self._has_other_plane(uplinks, link, lost, begin_ns, end_ns) for link in lost.values())
        others = [link.id for link in uplinks if link.id not in lost]
        remaining = len(others) - self._outages.max_concurrent(device, others, begin_ns, end_ns)
        return remaining >= self.floor * len(uplinks)

    def _has_other_plane(
        self, uplinks: Sequence[TopologyLink], link: TopologyLink, lost: Collection[str], begin_ns: int, end_ns: int
    ) -> bool:
        """Return whether the host always had another plane of the link's rail."""
        others = [
            other.id
            for other in uplinks
            if other.role == HOST_LINK
            and other.rail == link.rail
            and other.plane != link.plane
            and other.id not in lost
        ]
        return len(others) > self._outages.max_concurrent(link.lower.device, others, begin_ns, end_ns)
