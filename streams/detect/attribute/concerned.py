"""What a change of one case means for others: which of them have to be judged anew.

Decides only whom to look at, so that a leaf's reboot is not 64 looks at 64 links; what they are is judged by the same
functions as ever, and once more when each is final.
"""

from collections.abc import Iterable, Mapping

from streams.detect.attribute.cases import LINKS, Cases
from streams.detect.attribute.impact import Severities
from streams.detect.attribute.kept import Case, devices_of
from streams.detect.attribute.outages import Outages
from streams.fabric.topology import Topology
from streams.wire.models import Condition, Finding, Severity, Status


class Neighbours:
    """Over the cases and look-ups of one stage."""

    def __init__(
        self, kept: Mapping[str, Case], cases: Cases, outages: Outages, severities: Severities, topology: Topology
    ) -> None:
        self._kept = kept
        self._cases = cases
        self._outages = outages
        self._severities = severities
        self._topology = topology

    def of(self, changed: Finding) -> dict[str, None]:
        """A case that changed, those that it explains or began together with, and those that are worse for it."""
        found: dict[str, None] = {changed.id: None}
        if changed.status is Status.RETRACTED or changed.condition is Condition.DEVICE_DOWN:
            found |= dict.fromkeys(i for device in devices_of(changed) for i in self._cases.ids_at(device))
        for key in self._cases.keys_of(changed.id):
            if (group := self._cases.groups(key).get(changed.id)) is not None:
                found |= dict.fromkeys(f.id for f in group.members if self._is_led_otherwise(f, group.root))
                found[group.root.id] = None
                if group.root.id == changed.id and changed.resolved_at_ns is not None:
                    found |= dict.fromkeys(f.id for f in group.members)  # whoever outlives it is due later
        for device in self._outages.changed(changed):
            found |= dict.fromkeys(self._worsened(device))
        return found

    def _is_led_otherwise(self, member: Finding, root: Finding) -> bool:
        """Nothing explains it as it was last said, or another than this one."""
        said = self._kept[member.id].published
        return said is None or said.parent_id != root.id

    def _worsened(self, device: str) -> Iterable[str]:
        """What was bad and is critical now that more of a device's links upwards are broken."""
        if not self._outages.upwards(device):
            return
        findings = [finding for finding in self._cases.at(device) if finding.condition in LINKS]
        if self._cases.any_gone:
            above = {cable.upper.device for cable in self._topology.uplinks_of.get(device, ())}
            findings += [finding for switch in sorted(above) for finding in self._cases.gone(switch)]
        for finding in findings:
            said = self._kept[finding.id].published
            judged = said is not None and (said.final or said.severity is Severity.CRITICAL)
            if not judged and self._severities.of(finding) is Severity.CRITICAL:
                yield finding.id
                if (group := self._cases.group_of(finding)) is not None:
                    yield group.root.id
