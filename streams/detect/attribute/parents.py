"""Which finding explains which: a device that went away takes its links with it, a dead collector hides many."""

from collections.abc import Callable

from streams.detect.attribute import storms
from streams.detect.attribute.kept import Kept, devices_of, overlap
from streams.detect.params import DetectParams, ns
from streams.wire.models import Condition, Episode, Finding

_LINK_FAULTS = (
    Condition.LINK_DOWN, Condition.LINK_FLAP, Condition.LINK_DEGRADING, Condition.HOST_PCIE_DEGRADED
)  # fmt: skip

_BEFORE_NS = ns(5)
"""A neighbour's clock may date the loss of a device by so much before the device's own last word."""


def parent_of(
    params: DetectParams, kept: Kept, at_device: Callable[[str], list[Finding]], episode: Episode
) -> Finding | None:
    """What explains an episode; `at_device` answers the findings that touch a device.

    The device that went away and took this with it, or the first of those that a dead collector hides.
    """
    own = episode.finding
    if own.condition is Condition.DEVICE_DOWN:
        return None
    times = episode.down_at_ns or (own.started_at_ns,)
    for device in devices_of(own):
        for finding in at_device(device):
            if finding.condition is Condition.DEVICE_DOWN and all(_within(params, finding, at_ns) for at_ns in times):
                return finding
    if own.condition is Condition.RAIL_DEGRADED:
        return _bad_link(at_device, own)
    if storms.is_storm(own):
        return storms.root_of(at_device, own)
    if own.condition is Condition.TELEMETRY_STALE and own.cause == "collector":
        return _collector_root(kept, own)
    return None


def cause_of(own: Finding, parent: Finding | None) -> str:
    """The cause as its parent tells it, where it has one that does."""
    if parent is not None and parent.condition is Condition.DEVICE_DOWN:
        if own.condition is Condition.TELEMETRY_STALE:
            return "device"
        if parent.cause == "reboot":
            return "reboot"
    if parent is not None and storms.is_storm(own) and storms.is_storm(parent):
        return parent.cause
    return own.cause


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


def _collector_root(kept: Kept, own: Finding) -> Finding | None:
    """One finding stands for a dead collector (ADR 2): that of the first source that fell silent."""
    collector = _collector(kept, own)
    alike = [
        finding
        for finding in kept.standing()
        if finding.cause == "collector" and overlap(finding, own) and _collector(kept, finding) == collector
    ]
    root = kept.collector_roots.get(collector)
    if root is None or all(finding.id != root for finding in alike):
        root = min(alike, key=lambda f: (f.started_at_ns, f.subject.id)).id
        kept.collector_roots[collector] = root
    return next(finding for finding in alike if finding.id == root) if root != own.id else None


def _collector(kept: Kept, finding: Finding) -> str:
    """Who should have read what this finding misses."""
    state = kept.devices.get(finding.subject.a.device) if finding.subject.a else None
    silences = (s for own in state.silences.values() for s in own) if state else ()
    return next((s.collector for s in silences if s.since_ns == finding.started_at_ns), "")
