"""What a change of one case means for others: which of them have to be judged anew.

Decides only whom to look at, so that a leaf's reboot is not 64 looks at 64 links; what they are is judged by the same
functions as ever, and once more when each is final.
"""

from collections.abc import Iterable, Mapping

from streams.detect.attribute.blast_radius import SeverityRater
from streams.detect.attribute.case_index import LINKS, CaseIndex, Group, GroupKey
from streams.detect.attribute.outages import Outages
from streams.detect.attribute.state import Case, devices_of
from streams.fabric.topology import Topology
from streams.wire.models import Condition, Finding, Severity, Status


class AffectedCases:
    """Over the cases and look-ups of one stage."""

    def __init__(
        self,
        kept: Mapping[str, Case],
        cases: CaseIndex,
        outages: Outages,
        severities: SeverityRater,
        topology: Topology,
    ) -> None:
        self._kept = kept
        self._cases = cases
        self._outages = outages
        self._severities = severities
        self._topology = topology

    def affected_by(self, changed: Iterable[Finding]) -> dict[str, None]:
        """Cases that changed, those that they explain or began together with, and those that are worse for it.

        Each group and each device is looked at once, however many of its links changed.
        """
        found: dict[str, None] = {}
        stirred: dict[tuple[GroupKey, str], Group] = {}
        devices: dict[str, None] = {}
        for finding in changed:
            found[finding.id] = None
            if finding.status is Status.RETRACTED or finding.condition is Condition.DEVICE_DOWN:
                found |= dict.fromkeys(i for device in devices_of(finding) for i in self._cases.ids_at(device))
            for key in self._cases.group_keys_of(finding.id):
                if (group := self._cases.group_in(key, finding.id)) is not None:
                    stirred[key, group.root_id] = group
                    if group.root_id == finding.id and finding.resolved_at_ns is not None:
                        found |= dict.fromkeys(f.id for f in group.members)  # whoever outlives it is due later
            devices |= dict.fromkeys(self._outages.changed(finding))
        for group in stirred.values():
            found |= dict.fromkeys(f.id for f in group.members if self._is_led_otherwise(f, group))
            found[group.root_id] = None
        for device in devices:
            found |= dict.fromkeys(self._worsened(device))
        return found

    def _is_led_otherwise(self, member: Finding, stirred: Group) -> bool:
        """Another finding explains it than was last said; of several groups the larger leads it, stirred or not."""
        said = self._kept[member.id].published
        if said is None:
            return True
        if said.final or said.parent_id == stirred.root_id:
            return False
        parent = self._kept.get(said.parent_id)
        if parent is not None and _took_away(parent.episode.finding, member):
            return False
        leads = self._cases.group_of(member)
        return said.parent_id != ("" if leads is None or leads.root_id == member.id else leads.root_id)

    def _worsened(self, device: str) -> Iterable[str]:
        """What was bad and is critical now that more of a device's links upwards are broken."""
        if not self._outages.upwards(device):
            return
        findings = [finding for finding in self._cases.findings_at(device) if finding.condition in LINKS]
        if self._cases.has_outage:
            above = {cable.upper.device for cable in self._topology.uplinks_of.get(device, ())}
            findings += [finding for switch in sorted(above) for finding in self._cases.outages_at(switch)]
        for finding in findings:
            said = self._kept[finding.id].published
            judged = said is not None and (said.final or said.severity is Severity.CRITICAL)
            if not judged and self._severities.rate(finding) is Severity.CRITICAL:
                yield finding.id
                if (group := self._cases.group_of(finding)) is not None:
                    yield group.root_id


def _took_away(parent: Finding, member: Finding) -> bool:
    """Whether a device that went away explains it, whatever else went with it; its end is told at all its devices."""
    at = parent.subject.a
    return parent.condition is Condition.DEVICE_DOWN and at is not None and at.device in devices_of(member)
