"""Provides look-ups over the cases of `attribute`: by device, by condition, and by group.

Rebuilt from the cases after a restart. The cost of a look-up depends on the cases at one device, not on the fabric.
"""

from collections.abc import Iterable, Iterator, Mapping

from streams.detect.attribute.grouping import GroupIndex
from streams.detect.attribute.sides import fabric_side
from streams.detect.attribute.state import Case
from streams.detect.fabric_side import Loss, devices_of
from streams.detect.params import DetectParams
from streams.fabric.ids import Port
from streams.fabric.inventory_rows import HOST_LINK, MANY_PLANES
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import Condition, Endpoint, Finding, Status


class CaseIndex:
    """The cases by the subjects to which they refer. Call `add` and `remove` for every change of a case."""

    def __init__(self, params: DetectParams, cases: Mapping[str, Case], topology: Topology, watermark_ns: int) -> None:
        self.topology = topology
        self.groups = GroupIndex(params, topology, self.finding, watermark_ns)
        self._cases = cases
        self._ids_by_device: dict[str, set[str]] = {}
        self._ids_by_condition: dict[Condition, dict[str, None]] = {}
        self._outages: dict[str, dict[str, None]] = {}
        self._losses_by_plane: dict[int | None, dict[str, TopologyLink]] = {}
        """Plane -> the lost host links in it by the id of their finding; only of NICs with many planes."""
        for case in cases.values():
            self.add(case.episode.finding)

    def add(self, finding: Finding) -> None:
        is_outage = fabric_side(finding).loss is Loss.DEVICE
        for device in devices_of(finding):
            self._ids_by_device.setdefault(device, set()).add(finding.id)
            if is_outage:
                self._outages.setdefault(device, {})[finding.id] = None
        self._ids_by_condition.setdefault(finding.condition, {})[finding.id] = None
        if (link := self.link_of_many_planes(finding)) is not None:
            self._losses_by_plane.setdefault(link.plane, {})[finding.id] = link
        self.groups.add(finding)

    def remove(self, finding: Finding) -> None:
        for device in devices_of(finding):
            self._ids_by_device[device].discard(finding.id)
            if not self._ids_by_device[device]:
                del self._ids_by_device[device]
            if device in self._outages:
                self._outages[device].pop(finding.id, None)
                if not self._outages[device]:
                    del self._outages[device]
        self._ids_by_condition[finding.condition].pop(finding.id, None)
        if (link := self.link_of_many_planes(finding)) is not None:
            self._losses_by_plane[link.plane].pop(finding.id, None)
        self.groups.remove(finding.id)

    def link_of_many_planes(self, finding: Finding) -> TopologyLink | None:
        """Return the host link that a finding reports lost, if its NIC has many planes."""
        end = finding.subject.a
        if fabric_side(finding).loss is not Loss.LINK or end is None:
            return None
        link = self.topology.link_at(Port(end.device, end.port))
        is_one = link is not None and link.role == HOST_LINK and len(self.topology.rail_links(link)) >= MANY_PLANES
        return link if is_one else None

    def losses_of_plane(self, plane: int | None) -> Iterator[tuple[TopologyLink, Finding]]:
        """Yield the lost host links of NICs with many planes in a plane, each with its finding."""
        for identity, link in self._losses_by_plane.get(plane, {}).items():
            finding = self._cases[identity].episode.finding
            if finding.status is not Status.RETRACTED:
                yield link, finding

    def finding(self, identity: str) -> Finding:
        return self._cases[identity].episode.finding

    def ids_at(self, device: str) -> Iterable[str]:
        return sorted(self._ids_by_device.get(device, ()))

    def count_at(self, device: str) -> int:
        return len(self._ids_by_device.get(device, ()))

    def findings_at(self, device: str) -> list[Finding]:
        return self._current(self.ids_at(device))

    def findings_of(self, condition: Condition) -> list[Finding]:
        return self._current(self._ids_by_condition.get(condition, ()))

    def link_faults_at(self, port: Endpoint) -> list[Finding]:
        ranked = [
            (rank, finding)
            for finding in self.findings_at(port.device)
            if (rank := fabric_side(finding).link_fault_rank) is not None
            and port in (finding.subject.a, finding.subject.z)
        ]
        return [finding for _, finding in sorted(ranked, key=lambda one: one[0])]

    def related_subjects(self, identity: str) -> tuple[str, ...]:
        case = self._cases.get(identity)
        return () if case is None else case.episode.related

    @property
    def has_outage(self) -> bool:
        """Return whether any device has had an outage recently."""
        return bool(self._outages)

    def outages_at(self, device: str) -> list[Finding]:
        return self._current(self._outages.get(device, ()))

    def _current(self, ids: Iterable[str]) -> list[Finding]:
        findings = (self._cases[identity].episode.finding for identity in ids)
        return [finding for finding in findings if finding.status is not Status.RETRACTED]
