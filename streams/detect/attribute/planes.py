"""Counts the planes that a rail of a host retains, and finds a plane that several hosts of a job have lost.

A NIC of n planes retains 1 - k/n of its bandwidth without k of them. With two planes one is enough. With more planes
one may be lost, but not at several hosts of a job, because such a loss has one cause above the NICs.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from streams.detect.attribute.case_index import CaseIndex
from streams.detect.attribute.outages import Outages, jobs_during, link_at, open_interval
from streams.detect.attribute.sides import fabric_side
from streams.detect.evidence.episodes import evidence_of
from streams.detect.fabric_side import LINK_LOSS, PLANES, Loss, are_concurrent, device_at
from streams.fabric.inventory_rows import HOST_LINK, MANY_PLANES
from streams.fabric.topology import TopologyLink
from streams.wire.models import Finding


class RailPlanes(NamedTuple):
    """The planes of one rail of a host: the least number that was left while a finding was open, and all of them."""

    left: int
    total: int
    host: str
    rail: int | None
    plane: int | None
    shared_by: str = ""
    """A job that lost this plane at several of its hosts."""
    hosts: int = 1
    """The number of hosts that lost a plane with the subject of the finding."""

    @property
    def is_sufficient(self) -> bool:
        """Return whether a plane is left, at most one is lost, and no job lost it at several hosts."""
        return 0 < self.left >= self.total - 1 and not self.shared_by

    def complete(self, finding: Finding) -> Finding:
        """Return a finding with the planes in its summary and its evidence."""
        text = f"rail {self.rail} of {self.host} keeps {self.left or 'none'} of {self.total} planes"
        if self.hosts > 1:
            text = f"{self.hosts} hosts lose a plane: {text}"
        lost = f"{100 * (1 - self.left / self.total):.3g}% of its bandwidth is lost"
        shared = f"; job {self.shared_by} lost plane {self.plane} at several hosts" if self.shared_by else ""
        span = finding.started_at_ns, finding.resolved_at_ns
        evidence = evidence_of(
            f"{text}, {lost}{shared}", PLANES, finding.subject.a, span, float(self.left), float(self.total)
        )
        return replace(
            finding, summary=f"{finding.summary}; {text}{shared}", evidence=(*finding.evidence, evidence)
        )  # fmt: skip


class PlaneCounter:
    """Counts the planes that findings leave to the rails of hosts."""

    def __init__(self, cases: CaseIndex, outages: Outages) -> None:
        self._cases = cases
        self._outages = outages

    def of_finding(self, finding: Finding, watermark_ns: int) -> RailPlanes | None:
        """Return the planes that the loss of a link or switch leaves; None for a NIC of one or two planes."""
        loss, planes = fabric_side(finding).loss, None
        if loss in LINK_LOSS:
            link = link_at(self._cases.topology, finding.subject)
            if link is not None and link.role == HOST_LINK:
                planes = self.at_link(link, finding, watermark_ns)
        elif loss is Loss.DEVICE:
            planes = self.below(device_at(finding.subject), finding, watermark_ns)
        return None if planes is None or planes.total < MANY_PLANES else planes

    def at_link(self, link: TopologyLink, finding: Finding, watermark_ns: int) -> RailPlanes:
        """Return the planes that a host link leaves to its rail."""
        planes = self._without(link, {link.id}, finding)
        if planes.total < MANY_PLANES or link.plane is None or not planes.left:
            return planes
        return planes._replace(shared_by=self._job_with_the_loss(link, finding, watermark_ns))

    def below(self, switch: str, finding: Finding, watermark_ns: int) -> RailPlanes | None:
        """Return the planes of the rail that retains the fewest below a switch; None if no host link ends there."""
        topology = self._cases.topology
        links = [
            link for link in topology.links_of.get(switch, ()) if link.upper.device == switch and link.role == HOST_LINK
        ]
        if not links:
            return None
        lost = {link.id for link in links}
        worst = min((self._without(link, lost, finding) for link in links), key=lambda one: (one.left, -one.total))
        hosts = sorted({link.lower.device for link in links})
        if worst.total < MANY_PLANES:
            return worst
        counts = Counter(job for host in hosts for job in jobs_during(topology, [host], finding, watermark_ns))
        shared_by = min((job for job, count in counts.items() if count > 1), default="")
        return worst._replace(shared_by=shared_by, hosts=len(hosts))

    def _without(self, link: TopologyLink, lost: Collection[str], finding: Finding) -> RailPlanes:
        rail = [other for other in self._cases.topology.rail_links(link) if other.plane != link.plane]
        others = [other.id for other in rail if other.id not in lost]
        left = len(others) - self._outages.max_concurrent(link.lower.device, others, *open_interval(finding))
        return RailPlanes(left, len(rail) + 1, link.lower.device, link.rail, link.plane)

    def _job_with_the_loss(self, link: TopologyLink, finding: Finding, watermark_ns: int) -> str:
        """Return a job on the link's host that lost the same plane at another host at the same time; else empty.

        A rail or host that lost all planes has a cause of its own, which is not in the plane.
        """
        topology, host = self._cases.topology, link.lower.device
        for job in jobs_during(topology, [host], finding, watermark_ns):
            if len(topology.placement.all_hosts_of(job)) > 1:
                for lost, other in self._cases.losses_of_plane(link.plane):
                    if (
                        lost.lower.device != host
                        and are_concurrent(finding, other)
                        and job in jobs_during(topology, [lost.lower.device], other, watermark_ns)
                        and self._without(lost, {lost.id}, other).left
                    ):
                        return job
        return ""
