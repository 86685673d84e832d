"""Rates findings by DETECTION 3a: applies the detectors' rules to jobs, redundancy and concurrent outages."""

from collections.abc import Callable, Mapping
from typing import Any

from streams.detect.attribute.case_index import CaseIndex
from streams.detect.attribute.outages import Outages, jobs_during, link_at, open_interval
from streams.detect.attribute.planes import PlaneCounter
from streams.detect.attribute.sides import DetectorParams, fabric_side
from streams.detect.attribute.state import Case
from streams.detect.evidence.episodes import evidence_of
from streams.detect.evidence.link_history import FOREVER
from streams.detect.fabric_side import Loss, devices_of
from streams.detect.params import DetectParams
from streams.fabric.inventory_rows import HOST_LINK
from streams.fabric.topology import TopologyLink
from streams.wire.models import UPLINKS, Endpoint, Evidence, Finding, Severity


class SeverityRater:
    """Rates findings; implements the `SeverityContext` of the detectors' side."""

    def __init__(self, params: DetectParams, index: CaseIndex, outages: Outages, cases: Mapping[str, Case]) -> None:
        self.topology = index.topology
        self.floor = params.capacity_floor
        self.watermark_ns = 0
        self.silent_devices: Callable[[int], int] | None = None
        """Counts the silent devices at a time; None between two watermarks."""
        self._params = DetectorParams(params)
        self._outages = outages
        self._cases = cases
        self.planes = PlaneCounter(index, outages)

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
        if link.role == HOST_LINK:
            return self.planes.at_link(link, finding, self.watermark_ns).is_sufficient
        return self._keeps_floor(link.lower.device, {link.id}, finding)

    def isolates_neighbor(self, device: str, finding: Finding) -> bool:
        known = self.topology.devices.get(device)
        if known is None or known.kind == "host":
            return False
        planes = self.planes.below(device, finding, self.watermark_ns)
        if planes is not None and not planes.is_sufficient:
            return True
        by_lower: dict[str, set[str]] = {}
        for link in self.topology.links_of.get(device, ()):
            if link.upper.device == device and link.role != HOST_LINK:
                by_lower.setdefault(link.lower.device, set()).add(link.id)
        return any(not self._keeps_floor(lower, lost, finding) for lower, lost in by_lower.items())

    def silent_devices_at(self, at_ns: int) -> int | None:
        return None if self.silent_devices is None else self.silent_devices(at_ns)

    def was_critical(self, finding: Finding) -> bool:
        published = self._cases[finding.id].published
        return published is not None and published.severity is Severity.CRITICAL

    def lost_uplinks(self, finding: Finding) -> tuple[Evidence, ...]:
        """Return how many uplinks of its lower end are down with the link of a finding; nothing for another finding.

        Of an open finding it is the number now, of one that is over the largest while it was open.
        """
        link = self.link_of(finding)
        if link is None or not link.is_uplink or fabric_side(finding).loss is not Loss.LINK:
            return ()
        device, uplinks = link.lower.device, self._uplinks(link.lower.device)
        others = [one for one in uplinks if one.id != link.id]
        if finding.resolved_at_ns is None:
            down, verbs = 1 + len(self._outages.broken_at(others, FOREVER - 1)), ("is", "are")
        else:
            ids = [one.id for one in others]
            down, verbs = 1 + self._outages.max_concurrent(device, ids, *open_interval(finding)), ("was", "were")
        noun = "links" if link.role == HOST_LINK else "uplinks"
        count = f"all {down}" if down == len(uplinks) else f"{down} of the {len(uplinks)}"
        statement = f"{count} {noun} of {device} {verbs[down > 1]} down"
        if not others:
            statement = f"{device} has no other {noun[:-1]}"
        span = finding.started_at_ns, finding.resolved_at_ns
        return (evidence_of(statement, UPLINKS, Endpoint(*link.lower), span, float(down), 0.0, peers=len(uplinks)),)

    def _uplinks(self, device: str) -> list[TopologyLink]:
        return [link for link in self.topology.uplinks_of.get(device, ()) if link.is_uplink]

    def _keeps_floor(self, device: str, lost: set[str], finding: Finding) -> bool:
        """Return whether a device retained enough uplinks without these, all the time that the finding was open."""
        uplinks = self._uplinks(device)
        others = [link.id for link in uplinks if link.id not in lost]
        remaining = len(others) - self._outages.max_concurrent(device, others, *open_interval(finding))
        return remaining >= self.floor * len(uplinks)
