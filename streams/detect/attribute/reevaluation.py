"""Selects the cases to evaluate again after one case changed.

The selection only saves work: the reboot of a leaf does not evaluate its 64 links 64 times. The result of an evaluation
does not depend on it, and each case is evaluated once more when it is final.
"""

from collections.abc import Iterable, Iterator, Mapping

from streams.detect.attribute.case_index import CaseIndex
from streams.detect.attribute.grouping import Group
from streams.detect.attribute.outages import Outages
from streams.detect.attribute.root_cause import parent_expiry_ns
from streams.detect.attribute.severity import SeverityRater
from streams.detect.attribute.sides import DetectorParams, fabric_side
from streams.detect.attribute.state import Case
from streams.detect.evidence.link_history import HOLD_UP_S
from streams.detect.fabric_side import LINK_LOSS, GroupKey, GroupKind, Loss, devices_of
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.topology import Topology
from streams.wire.models import Finding, Severity, Status


class Finality:
    """Computes when findings become final, from the lateness and the detectors' settings."""

    def __init__(self, params: DetectParams) -> None:
        self._params = params
        self._detector_params = DetectorParams(params)
        self._lateness_ns = ns(params.lateness_s)
        self._settle_ns = ns(params.lateness_s + HOLD_UP_S)  # a later up may move the end of a link's outage

    def is_final(self, case: Case, watermark_ns: int) -> bool:
        """Return whether no late input can change a finding; a retraction is final after the lateness."""
        finding = case.episode.finding
        if finding.status is Status.RETRACTED:
            return watermark_ns >= case.retracted_ns + self._lateness_ns
        return finding.final and watermark_ns >= self._settled_ns(finding)

    def next_evaluation_ns(self, cases: Mapping[str, Case], case: Case, watermark_ns: int) -> int | None:
        """Return the watermark at which a finding is final or may outlive its parent; None if it waits for input.

        If a finding has its parent after the parent's expiry, no source reads one of its ends; it is evaluated again
        after `outlive_s`.
        """
        finding = case.episode.finding
        side = fabric_side(finding)
        if finding.status is Status.RETRACTED:
            return case.retracted_ns + self._lateness_ns
        if finding.is_closed:
            return self._settled_ns(finding)
        if side.ends_with_parent and case.published is not None and case.published.parent_id:
            parent = cases.get(case.published.parent_id)
            expiry_ns = None if parent is None else parent_expiry_ns(self._params, parent.episode.finding, finding)
            if expiry_ns is not None:
                outlive_ns = ns(self._params.grouping.outlive_s)
                return expiry_ns + 1 if expiry_ns >= watermark_ns else watermark_ns + outlive_ns
        if side.severity_due_ns is not None:
            return side.severity_due_ns(self._detector_params.of(finding), finding)
        return None

    def _settled_ns(self, finding: Finding) -> int:
        """Return the time by which all observations that may explain a resolved finding have arrived."""
        return (finding.resolved_at_ns or 0) + self._settle_ns


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
        """Return the changed cases, their children, the members of their groups, and cases that another loss changes.

        Each group and each device is examined once, however many of its links changed.
        """
        affected: dict[str, None] = {}
        groups: dict[tuple[GroupKey, str], Group] = {}
        devices: dict[str, None] = {}
        planes: dict[int | None, None] = {}
        for finding in changed:
            affected[finding.id] = None
            if (link := self._index.link_of_many_planes(finding)) is not None:
                planes[link.plane] = None
            if finding.status is Status.RETRACTED or fabric_side(finding).loss is Loss.DEVICE:
                here = [identity for device in devices_of(finding) for identity in self._index.ids_at(device)]
                led = (member for one in here for member in self._led_by(one, finding.status is Status.RETRACTED))
                affected |= dict.fromkeys(here) | dict.fromkeys(led)
            for key in self._index.groups.keys_of(finding.id):
                if (group := self._index.groups.group_in(key, finding.id)) is not None:
                    groups[key, group.root_id] = group
                    if group.root_id == finding.id and finding.resolved_at_ns is not None:
                        # members that outlive the root have their own schedule
                        affected |= dict.fromkeys(member.id for member in group.members)
            devices |= dict.fromkeys(self._outages.invalidate(finding))
        for group in groups.values():
            affected |= dict.fromkeys(member.id for member in group.members if self._has_other_parent(member, group))
            affected[group.root_id] = None
        for device in devices:
            losses = self._losses_at(device)
            affected |= dict.fromkeys(self._now_critical(losses))
            affected |= dict.fromkeys(one.id for one in losses if self._has_count(one))
        for plane in planes:
            losses = [finding for _, finding in self._index.losses_of_plane(plane)]
            affected |= dict.fromkeys(self._now_critical(losses))
        return affected | dict.fromkeys(one for identity in list(affected) for one in self._on_board_of(identity))

    def _led_by(self, identity: str, is_retracted: bool) -> Iterator[str]:
        """Yield the members of the groups of which a finding is the root, and whose parent it is: its outage does not
        explain them. If the outage is retracted, it may be the parent of all of them again.
        """
        for key in self._index.groups.keys_of(identity):
            group = self._index.groups.group_in(key, identity)
            if group is not None and group.root_id == identity:
                for member in group.members:
                    published = self._cases[member.id].published
                    if is_retracted or (published is not None and published.parent_id == identity):
                        yield member.id

    def _on_board_of(self, identity: str) -> Iterator[str]:
        """Yield the members of a finding's group of a board: one has its parent there unless that has a parent."""
        for key in self._index.groups.keys_of(identity):
            if key.kind is GroupKind.BOARD and (group := self._index.groups.group_in(key, identity)) is not None:
                yield from (member.id for member in group.members)

    def _has_other_parent(self, member: Finding, changed: Group) -> bool:
        """Return whether a member's parent differs from the published one; its largest group determines it."""
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

    def _losses_at(self, device: str) -> list[Finding]:
        """Return the lost uplinks of a device, and the outages of the switches above it."""
        if not self._outages.broken_uplinks(device):
            return []
        findings = [finding for finding in self._index.findings_at(device) if fabric_side(finding).loss in LINK_LOSS]
        if self._index.has_outage:
            switches = {link.upper.device for link in self._topology.uplinks_of.get(device, ())}
            findings += [outage for switch in sorted(switches) for outage in self._index.outages_at(switch)]
        return findings

    def _has_count(self, loss: Finding) -> bool:
        """Return whether a loss has the number of lost planes or uplinks in its text, which changes with another."""
        published = self._cases[loss.id].published
        pages = published is not None and not published.parent_id and published.severity is Severity.CRITICAL
        return pages or self._index.link_of_many_planes(loss) is not None

    def _now_critical(self, findings: Iterable[Finding]) -> Iterable[str]:
        """Yield the cases that became CRITICAL because of another loss."""
        for finding in findings:
            published = self._cases[finding.id].published
            cannot_rise = published is not None and (published.final or published.severity is Severity.CRITICAL)
            if not cannot_rise and self._severities.rate(finding) is Severity.CRITICAL:
                yield finding.id
                if (group := self._index.groups.group_of(finding)) is not None:
                    yield group.root_id


def _is_outage_at(parent: Finding, member: Finding) -> bool:
    """Return whether the parent is an outage of a device of the member; such an outage ends for all its devices."""
    at = parent.subject.a
    return fabric_side(parent).loss is Loss.DEVICE and at is not None and at.device in devices_of(member)
