"""Which finding explains which: a device that went away takes its links with it, a dead collector hides many.

A pure function of the cases as they are now: a finding's last revision does not depend on what was thought before.
"""

from collections.abc import Callable
from typing import NamedTuple

from streams.detect.attribute import pfc_storm_tree
from streams.detect.attribute.case_index import CaseIndex, Group, root_rank
from streams.detect.attribute.state import devices_of, overlap
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.topology import Topology
from streams.wire.models import Cause, Condition, Episode, Finding, Status

_LINK_FAULTS = (
    Condition.LINK_DOWN, Condition.LINK_FLAP, Condition.LINK_DEGRADING, Condition.HOST_PCIE_DEGRADED
)  # fmt: skip

_BEFORE_NS = ns(5)
"""A neighbour's clock may date the loss of a device by so much before the device's own last word."""


OUTLIVING = (Condition.LINK_DOWN, Condition.DEVICE_DOWN, Condition.TELEMETRY_STALE)
"""What is over when its cause is; a flap is said to be over only when it was quiet for long."""


class Explanation(NamedTuple):
    """What explains a finding; or the group that it stands for, as the first of it."""

    parent: Finding | None = None
    group: Group | None = None


def root_cause(params: DetectParams, cases: CaseIndex, episode: Episode, watermark_ns: int) -> Explanation:
    """What explains an episode.

    The device that went away and took this with it; else the first of those that began together at one device, in one
    pod or plane, or behind one collector: then that one stands for all, and no new subject is made up (ADR 2).
    """
    own = episode.finding
    if own.status is Status.RETRACTED or own.condition is Condition.FLEET_VERSION_DRIFT:
        return Explanation()
    if own.condition is not Condition.DEVICE_DOWN:
        outage = _outage(params, cases, episode, watermark_ns)
        if outage is not None:
            return Explanation(outage)
    if own.condition is Condition.RAIL_DEGRADED:
        return Explanation(_bad_link(cases.findings_at, own))
    if pfc_storm_tree.is_storm(own):
        return Explanation(pfc_storm_tree.root_storm(cases.findings_at, own))
    group = cases.group_of(own)
    if group is None:
        return Explanation()
    if group.key[0] == "links":
        for outage in cases.outages_at(group.key[1]):
            if _within(params, outage, own.started_at_ns) and not _outlives(params, cases, outage, own, watermark_ns):
                return Explanation(outage)
    if group.root_id == own.id:
        return Explanation(group=group)
    if not _outlives(params, cases, group.root, own, watermark_ns):
        return Explanation(group.root)
    stayed = [member for member in group.members if not _outlives(params, cases, member, own, watermark_ns)]
    first = min(stayed, key=root_rank)
    return Explanation(first) if len(stayed) >= params.grouping.links and first.id != own.id else Explanation()


def _outage(params: DetectParams, cases: CaseIndex, episode: Episode, watermark_ns: int) -> Finding | None:
    """The outage of a device at its ends that all its downs fall into."""
    own = episode.finding
    times = episode.down_at_ns or (own.started_at_ns,)
    for device in devices_of(own):
        for outage in cases.outages_at(device):
            lasting = all(_within(params, outage, at_ns) for at_ns in times) or _began_in(own, outage)
            if lasting and not _outlives(params, cases, outage, own, watermark_ns):
                return outage
    return None


def _began_in(silence: Finding, outage: Finding) -> bool:
    """A source that is read rarely spoke last some time before the device went, and was not called silent before."""
    told_ns = silence.detected_at_ns or silence.started_at_ns
    stale = silence.condition is Condition.TELEMETRY_STALE
    return stale and silence.started_at_ns <= outage.started_at_ns <= told_ns


def _outlives(params: DetectParams, cases: CaseIndex, outage: Finding, own: Finding, watermark_ns: int) -> bool:
    """Whether it goes on long after what it began with is over: then it has a fault of its own.

    An end that nobody reads cannot say that it is well again: it has as long from when it is read.
    """
    due_ns = parent_expiry_ns(params, outage)
    last_ns = watermark_ns if own.resolved_at_ns is None else own.resolved_at_ns
    if own.condition not in OUTLIVING or due_ns is None or last_ns <= due_ns:
        return False
    unread = (
        finding
        for device in devices_of(own)
        for finding in cases.findings_at(device)
        if finding.condition is Condition.TELEMETRY_STALE and finding.id not in (own.id, outage.id)
    )
    return not any(
        silence.started_at_ns <= due_ns
        and ((read_ns := parent_expiry_ns(params, silence)) is None or last_ns <= read_ns)
        for silence in unread
    )


def parent_expiry_ns(params: DetectParams, outage: Finding) -> int | None:
    """Until when it explains what is still so; None while it is so itself."""
    return None if outage.resolved_at_ns is None else outage.resolved_at_ns + ns(params.grouping.outlive_s)


def cause_with_parent(own: Finding, parent: Finding | None) -> Cause:
    """The cause as its parent tells it, where it has one that does."""
    if parent is not None and parent.condition is Condition.DEVICE_DOWN:
        if own.condition is Condition.TELEMETRY_STALE:
            return Cause.DEVICE
        if parent.cause is Cause.REBOOT:
            return Cause.REBOOT
    if parent is not None and pfc_storm_tree.is_storm(own) and pfc_storm_tree.is_storm(parent):
        return parent.cause
    return own.cause


def in_maintenance(topology: Topology, own: Finding) -> bool:
    """Whether a person was at work at one of its ends when it began, as the inventory says."""
    return own.started_at_ns < topology.maintenance_until_ns(devices_of(own))


def _bad_link(at_device: Callable[[str], list[Finding]], own: Finding) -> Finding | None:
    """What is wrong with the link, or the slot, at the rail's port then, which is why it is slow; the gravest first."""
    at = own.subject.a
    if at is None:
        return None
    here = [finding for finding in at_device(at.device) if at in (finding.subject.a, finding.subject.z)]
    told = (f for condition in _LINK_FAULTS for f in here if f.condition is condition and overlap(f, own))
    return next(told, None)


def _within(params: DetectParams, outage: Finding, at_ns: int) -> bool:
    end = outage.resolved_at_ns
    grace = ns(params.link.restart_grace_s)
    return outage.started_at_ns - _BEFORE_NS <= at_ns and (end is None or at_ns <= end + grace)
