"""Selects the cases to evaluate again after one case changed.

Decides only which cases to evaluate, so that the reboot of a leaf does not evaluate its 64 links 64 times. The result
of an evaluation does not depend on it, and each case is evaluated once more when it is final.
"""

from collections.abc import Iterable, Mapping

from streams.detect.attribute.case_index import CaseIndex
from streams.detect.attribute.grouping import Group
from streams.detect.attribute.outages import Outages
from streams.detect.attribute.severity import SeverityRater
from streams.detect.attribute.sides import fabric_side
from streams.detect.attribute.state import Case
from streams.detect.fabric_side import LINK_LOSS, GroupKey, Loss, devices_of
from streams.fabric.topology import Topology
from streams.wire.models import Finding, Severity, Status


class AffectedCases:
    """Finds the cases that a changed case affects."""

    def __init__(
        self,
        cases: Mapping[str, Case],
        index: CaseIndex,
        outages: Outages,
        severities: SeverityRater,
        topology: Topology,
    ) -> None:
        self._cases = cases
        self._index = index
        self._outages = outages
        self._severities = severities
        self._topology = topology

    def affected_by(self, changed: Iterable[Finding]) -> dict[str, None]:
        """Return the changed cases, those with them as parent or in their groups, and those that are more severe now.

        Each group and each device is examined once, however many of its links changed.
        """
        affected: dict[str, None] = {}
        groups: dict[tuple[GroupKey, str], Group] = {}
        devices: dict[str, None] = {}
        for finding in changed:
            affected[finding.id] = None
            if finding.status is Status.RETRACTED or fabric_side(finding).loss is Loss.DEVICE:
                affected |= dict.fromkeys(i for device in devices_of(finding) for i in self._index.ids_at(device))
            for key in self._index.groups.keys_of(finding.id):
                if (group := self._index.groups.group_in(key, finding.id)) is not None:
                    groups[key, group.root_id] = group
                    if group.root_id == finding.id and finding.resolved_at_ns is not None:
                        # members that outlive the root are scheduled
                        affected |= dict.fromkeys(member.id for member in group.members)
            devices |= dict.fromkeys(self._outages.invalidate(finding))
        for group in groups.values():
            affected |= dict.fromkeys(member.id for member in group.members if self._has_other_parent(member, group))
            affected[group.root_id] = None
        for device in devices:
            affected |= dict.fromkeys(self._now_critical(device))
        return affected

    def _has_other_parent(self, member: Finding, changed: Group) -> bool:
        """Return whether the parent of a member is another than published; the larger of its groups names it."""
        published = self._cases[member.id].published
        if published is None:
            return True
        if published.final or published.parent_id == changed.root_id:
            return False
        parent = self._cases.get(published.parent_id)
        if parent is not None and _is_outage_at(parent.episode.finding, member):
            return False
        group = self._index.groups.group_of(member)
        return published.parent_id != ("" if group is None or group.root_id == member.id else group.root_id)

    def _now_critical(self, device: str) -> Iterable[str]:
        """Yield the cases that became CRITICAL because more uplinks of a device are broken."""
        if not self._outages.broken_uplinks(device):
            return
        findings = [finding for finding in self._index.findings_at(device) if fabric_side(finding).loss in LINK_LOSS]
        if self._index.has_outage:
            switches = {link.upper.device for link in self._topology.uplinks_of.get(device, ())}
            findings += [outage for switch in sorted(switches) for outage in self._index.outages_at(switch)]
        for finding in findings:
            published = self._cases[finding.id].published
            cannot_rise = published is not None and (published.final or published.severity is Severity.CRITICAL)
            if not cannot_rise and self._severities.rate(finding) is Severity.CRITICAL:
                yield finding.id
                if (group := self._index.groups.group_of(finding)) is not None:
                    yield group.root_id


def _is_outage_at(parent: Finding, member: Finding) -> bool:
    """Return whether the parent is the outage of a device of the member; its end is evaluated at all its devices."""
    at = parent.subject.a
    return fabric_side(parent).loss is Loss.DEVICE and at is not None and at.device in devices_of(member)
