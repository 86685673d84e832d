"""Provides look-ups over the cases of `attribute`: by device, by condition, and by group.

Rebuilt from the cases after a restart. The cost of a look-up depends on the cases at one device, not on the fabric.
"""

from collections.abc import Iterable, Mapping

from streams.detect.attribute.grouping import GroupIndex
from streams.detect.attribute.sides import fabric_side
from streams.detect.attribute.state import Case
from streams.detect.fabric_side import Loss, devices_of
from streams.detect.params import DetectParams
from streams.fabric.topology import Topology
from streams.wire.models import Condition, Endpoint, Finding, Status


class CaseIndex:
    """The cases by the subjects to which they refer. Call `add` and `remove` for every change of a case."""

    def __init__(self, params: DetectParams, cases: Mapping[str, Case], topology: Topology) -> None:
        self.topology = topology
        self.groups = GroupIndex(params, topology, self.finding)
        self._cases = cases
        self._ids_by_device: dict[str, set[str]] = {}
        self._ids_by_condition: dict[Condition, dict[str, None]] = {}
        self._outages: dict[str, dict[str, None]] = {}
        for case in cases.values():
            self.add(case.episode.finding)

    def add(self, finding: Finding) -> None:
        is_outage = fabric_side(finding).loss is Loss.DEVICE
        for device in devices_of(finding):
            self._ids_by_device.setdefault(device, set()).add(finding.id)
            if is_outage:
                self._outages.setdefault(device, {})[finding.id] = None
        self._ids_by_condition.setdefault(finding.condition, {})[finding.id] = None
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
        self.groups.remove(finding.id)

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
