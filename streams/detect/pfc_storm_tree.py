"""Finds relations between storms of pause: follows pausing devices over links and pods to the root.

A link is paused because its pausing device is itself paused elsewhere; if it is not, that port is the root. If devices
pause each other in a cycle, the first storm of the cycle is the root.
"""

from collections.abc import Iterator

from streams.detect.fabric_side import Cases, are_concurrent, closure
from streams.wire.models import Condition, Finding


def pausing_device(storm: Finding) -> str:
    """Return the device that pauses: that of the storm's first evidence."""
    at = storm.evidence[0].at if storm.evidence else None
    return at.device if at is not None else ""


def paused_device(storm: Finding) -> str:
    """Return the device that is paused: the other end of the link."""
    ends = [end.device for end in (storm.subject.a, storm.subject.z) if end is not None]
    return next((device for device in ends if device != pausing_device(storm)), "")


def root_storm(cases: Cases, storm: Finding) -> Finding | None:
    """Return the storm at the root of this one; None if it is the root."""
    path = [storm]
    while upstream := list(_storms_at(cases, pausing_device(path[-1]), path[-1], is_paused=True)):
        first = min(upstream, key=_order)
        known = next((index for index, other in enumerate(path) if other.id == first.id), None)
        if known is not None:
            root = min(path[known:], key=_order)
            return root if root.id != storm.id else None
        path.append(first)
    return path[-1] if len(path) > 1 else None


def downstream(cases: Cases, storm: Finding) -> list[Finding]:
    """Return the storms that this one causes directly or through others."""
    _, *caused = closure(storm, lambda one: _storms_at(cases, paused_device(one), one, is_paused=False)).values()
    return caused


def _order(storm: Finding) -> tuple[int, str]:
    return storm.started_at_ns, storm.subject.id


def _storms_at(cases: Cases, device: str, storm: Finding, *, is_paused: bool) -> Iterator[Finding]:
    """Yield the concurrent storms in which a device is paused, or in which it pauses."""
    for other in cases.findings_at(device):
        if not is_storm(other) or other.id == storm.id or not are_concurrent(other, storm):
            continue
        end = paused_device(other) if is_paused else pausing_device(other)
        # two ends of one link that pause each other pause nothing else
        if end == device and other.subject.id != storm.subject.id:
            yield other


def is_storm(finding: Finding) -> bool:
    """Return whether a finding is of this detector."""
    return finding.condition is Condition.CONGESTION_PFC_STORM
