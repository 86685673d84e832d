"""The fabric-wide side of link/miscabled: links whose cables changed places share one root finding.

The evidence of a link may be of one end only; that two links have each other's cable is then visible here alone.
"""

from collections.abc import Iterable
from dataclasses import replace

from streams.detect.fabric_side import CapacityEffect, Cases, FabricSide, are_concurrent, devices_of
from streams.wire.models import Cause, Condition, Finding

_MAX_CYCLE = 64
"""Links of one cycle that are followed: mostly two, or all links of a trunk that was connected in reverse."""


def _explain(finding: Finding, cases: Cases) -> tuple[Finding, Finding | None]:
    """Return a finding with the cause that its swap cycle shows, and the root of the cycle as its parent."""
    cycle = swap_cycle(cases, finding)
    root = cycle[0]
    if len(cycle) == 2:
        one, other = (cases.related_subjects(member.id) for member in cycle)
        if cycle[1].subject.id in one and root.subject.id in other:
            finding = replace(finding, cause=Cause.CABLES_SWAPPED)
    return finding, root if root.id != finding.id else None


def _affected_by(changed: Finding, cases: Cases) -> Iterable[str]:
    if changed.condition is Condition.LINK_MISCABLED:
        yield from (finding.id for finding in swap_cycle(cases, changed))


def swap_cycle(cases: Cases, finding: Finding) -> list[Finding]:
    """Return the findings of the links that took each other's places, this one included, by subject."""
    found, pending = {finding.id: finding}, [finding]
    while pending and len(found) < _MAX_CYCLE:
        one = pending.pop()
        related = cases.related_subjects(one.id)
        devices = {*devices_of(one), *(device for subject in related for device in _link_devices(cases, subject))}
        for device in sorted(devices):
            for other in cases.findings_at(device):
                is_known = other.id in found or other.condition is not Condition.LINK_MISCABLED
                if is_known or not are_concurrent(one, other):
                    continue
                if other.subject.id in related or one.subject.id in cases.related_subjects(other.id):
                    found[other.id] = other
                    pending.append(other)
    return sorted(found.values(), key=lambda member: (member.subject.id, member.id))


def _link_devices(cases: Cases, subject_id: str) -> list[str]:
    link = cases.topology.links.get(subject_id)
    return [] if link is None else [link.lower.device, link.upper.device]


FABRIC = FabricSide(
    explained_by_outages=False,
    capacity=CapacityEffect.NONE,
    severity_by_detector=True,
    explain=_explain,
    affected_by=_affected_by,
)
