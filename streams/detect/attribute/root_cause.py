"""Finds the parent of a finding: the outage of a device, the finding that its detector names, or the root of a group.

A pure function of the current cases: the last revision of a finding does not depend on earlier parents.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from streams.detect.attribute.case_index import CaseIndex
from streams.detect.attribute.grouping import Group, root_rank
from streams.detect.attribute.sides import fabric_side
from streams.detect.fabric_side import LINK_LOSS, GroupKind, Loss, devices_of
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.wire.models import Cause, Episode, Finding, Status

_CLOCK_TOLERANCE_NS = ns(5)
"""A neighbor's clock may date the loss of a device this much earlier than the device's own last sample."""


class RootCause(NamedTuple):
    """The explanation of a finding: its parent, or the group of which it is the root."""

    parent: Finding | None = None
    group: Group | None = None
    members: Sequence[Finding] = ()
    """The findings of which it may be the parent: of its group, or those that outlive the first root of one."""


def root_cause(params: DetectParams, cases: CaseIndex, episode: Episode, watermark_ns: int) -> RootCause:
    """Return the explanation of an episode.

    An outage of a device at one of its ends takes precedence. Next is the root of the findings that started together at
    one device, in one pod or plane, or behind one collector; it represents all of them, without its own subject (ADR
    2), unless `FabricSide.explain` names another parent.
    """
    finding = episode.finding
    if finding.status is Status.RETRACTED:
        return RootCause()
    downs_ns = episode.down_at_ns or (finding.started_at_ns,)
    if (outage := _outage(params, cases, finding, downs_ns, watermark_ns)) is not None:
        return RootCause(outage)
    if (group := cases.groups.group_of(finding)) is None:
        return RootCause()
    explain = fabric_side(finding).explain
    named = explain(finding, cases)[1] if explain is not None else None
    return RootCause(named) if named is not None else _in_group(params, cases, group, finding, watermark_ns)


def _in_group(params: DetectParams, cases: CaseIndex, group: Group, finding: Finding, watermark_ns: int) -> RootCause:
    if group.key.kind is GroupKind.LINKS:
        for outage in cases.outages_at(group.key.name):
            if _is_within(params, outage, finding.started_at_ns) and not outlives(
                params, cases, outage, finding, watermark_ns
            ):
                return RootCause(outage)
    if group.root_id == finding.id:
        return RootCause(group=group, members=group.members)

    def explains(member: Finding) -> bool:
        # What the outage of another device explains does not explain this one, which that outage does not explain.
        return (
            not _is_over(params, member, finding.started_at_ns)
            and not outlives(params, cases, member, finding, watermark_ns)
            and _outage(params, cases, member, (member.started_at_ns,), watermark_ns) is None
            and (group.key.kind is not GroupKind.BOARD or _is_root_of(cases, group, member))
        )

    if explains(group.root):
        return RootCause(group.root)
    remaining = [member for member in group.members if explains(member)]
    root = min(remaining, key=root_rank)
    if len(remaining) < params.grouping.links:
        return RootCause()
    return RootCause(members=remaining) if root.id == finding.id else RootCause(root)


def _is_root_of(cases: CaseIndex, group: Group, member: Finding) -> bool:
    """Return whether a member belongs to no larger group, which explains it but not the other members."""
    own = cases.groups.group_of(member)
    return own is not None and own.key == group.key


def _outage(
    params: DetectParams, cases: CaseIndex, finding: Finding, downs_ns: Iterable[int], watermark_ns: int
) -> Finding | None:
    """Return the outage of a device at the ends of a finding that covers all its downs."""
    if not (cases.has_outage and fabric_side(finding).explained_by_outages):
        return None
    for device in devices_of(finding):
        for outage in cases.outages_at(device):
            is_covered = all(_is_within(params, outage, at_ns) for at_ns in downs_ns)
            if (is_covered or _started_before_detection(finding, outage)) and not outlives(
                params, cases, outage, finding, watermark_ns
            ):
                return outage
    return None


def _started_before_detection(finding: Finding, outage: Finding) -> bool:
    """Return whether an outage started between the last sample of a source and the detection of its silence.

    A source with a long cadence sent its last sample some time before the device went down.
    """
    detected_ns = finding.detected_at_ns or finding.started_at_ns
    return fabric_side(finding).is_silence and finding.started_at_ns <= outage.started_at_ns <= detected_ns


def outlives(params: DetectParams, cases: CaseIndex, parent: Finding, finding: Finding, watermark_ns: int) -> bool:
    """Return whether a finding stays open long after the end of its parent, so that it has its own root cause.

    An end that no source reads cannot report its recovery; its time starts when it is read again.
    """
    expiry_ns = parent_expiry_ns(params, parent, finding)
    last_ns = watermark_ns if finding.resolved_at_ns is None else finding.resolved_at_ns
    if not fabric_side(finding).ends_with_parent or expiry_ns is None or last_ns <= expiry_ns:
        return False
    silences = (
        other
        for device in devices_of(finding)
        for other in cases.findings_at(device)
        if fabric_side(other).is_silence and other.id not in (finding.id, parent.id)
    )
    return not any(
        silence.started_at_ns <= expiry_ns
        and ((read_ns := parent_expiry_ns(params, silence, finding)) is None or last_ns <= read_ns)
        for silence in silences
    )


def parent_expiry_ns(params: DetectParams, parent: Finding, finding: Finding) -> int | None:
    """Return the time until which a parent explains an open finding; None while the parent is open.

    If the parent is another link, the root of a group, it explains the finding after its end for at most the time that
    both were open: a link that was lost for seconds must not hide an outage for `outlive_s`.
    """
    if parent.resolved_at_ns is None:
        return None
    grouping = params.grouping
    limit_ns = ns(grouping.outlive_s)
    if fabric_side(parent).loss in LINK_LOSS:
        together_ns = parent.resolved_at_ns - max(parent.started_at_ns, finding.started_at_ns)
        limit_ns = min(limit_ns, max(ns(grouping.links_s), together_ns))
    return parent.resolved_at_ns + limit_ns + fabric_side(finding).ends_after_ns


def cause_with_parent(finding: Finding, parent: Finding | None) -> Cause:
    """Return the cause that the parent gives to a finding, else the finding's own cause."""
    child_cause = None if parent is None else fabric_side(parent).child_cause
    given = None if parent is None or child_cause is None else child_cause(parent, finding)
    return finding.cause if given is None else given


def _is_within(params: DetectParams, outage: Finding, at_ns: int) -> bool:
    return outage.started_at_ns - _CLOCK_TOLERANCE_NS <= at_ns and not _is_over(params, outage, at_ns)


def _is_over(params: DetectParams, parent: Finding, at_ns: int) -> bool:
    """Return whether a finding ended too long before a time to explain what begins then: ports train after an outage,
    and neighbors report a loss one cadence apart.
    """
    is_outage = fabric_side(parent).loss is Loss.DEVICE
    grace_ns = ns(params.link.restart_grace_s if is_outage else params.grouping.links_s)
    return parent.resolved_at_ns is not None and at_ns > parent.resolved_at_ns + grace_ns
