"""Links whose cables changed places are one finding: the others of the round are children of its first.

Each link's own evidence may be of one end only; that two took each other's place is then seen here alone.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from streams.detect.attribute.state import Case, devices_of, overlap
from streams.wire.models import Cause, Condition, Finding

_MOST = 64
"""Links of one round that are followed: two, mostly, or a trunk that was turned over."""

AtDevice = Callable[[str], list[Finding]]


def is_miscabled(finding: Finding) -> bool:
    """Whether it is of this kind."""
    return finding.condition is Condition.LINK_MISCABLED


def swap_cycle(
    cases: dict[str, Case], at_device: AtDevice, ends_of: Callable[[str], Iterable[str]], own: Finding
) -> list[Finding]:
    """The findings of links whose places this one took, and that took its place, and theirs; itself included.

    `ends_of` answers the devices of a link.
    """
    found, ahead = {own.id: own}, [own]
    while ahead and len(found) < _MOST:
        one = ahead.pop()
        related = cases[one.id].episode.related if one.id in cases else ()
        devices = {*devices_of(one), *(device for subject in related for device in ends_of(subject))}
        for device in sorted(devices):
            for other in at_device(device):
                if other.id in found or not is_miscabled(other) or not overlap(one, other):
                    continue
                if other.subject.id in related or one.subject.id in cases[other.id].episode.related:
                    found[other.id] = other
                    ahead.append(other)
    return sorted(found.values(), key=lambda finding: (finding.subject.id, finding.id))


def assign_parent(cases: dict[str, Case], around: Sequence[Finding], own: Finding) -> tuple[Finding, Finding | None]:
    """The finding with the cause that its round tells, and its parent; `around` is its round."""
    first = around[0]
    if len(around) == 2:
        one, other = (cases[finding.id].episode.related for finding in around)
        if around[1].subject.id in one and first.subject.id in other:
            own = replace(own, cause=Cause.CABLES_SWAPPED)
    return own, first if first.id != own.id else None
