"""What people said that keeps a finding from paging: maintenance of its place, and acknowledgement of itself.

A control holds from its time until its end; without an end for good. Actions are no matter of this room: exclusions
and the kill switch keep nobody from being told.
"""

from collections.abc import Iterable

from streams.wire.models import Control, ControlKind, Finding


def is_silenced(finding: Finding, controls: Iterable[Control], now_ns: int) -> bool:
    """Whether a control that holds now keeps this finding from paging."""
    names = subject_names(finding)
    return any(is_active(control, now_ns) and _covers(control, finding, names) for control in controls)


def is_active(control: Control, now_ns: int) -> bool:
    """Whether a control has begun and is not over."""
    begun = control.at_ns is None or control.at_ns <= now_ns
    return begun and (control.until_ns is None or now_ns < control.until_ns)


def subject_names(finding: Finding) -> frozenset[str]:
    """All that a control may call this finding's place: its subject, now and formerly, its devices and its pod."""
    subject = finding.subject
    devices = {end.device for end in (subject.a, subject.z) if end is not None}
    names = {subject.id, *subject.former_ids, *devices, *(f"device:{device}" for device in devices)}
    if subject.pod:
        names |= {subject.pod, f"pod:{subject.pod}"}
    if subject.plane is not None:
        names.add(f"plane:{subject.plane}")
    return frozenset(names)


def _covers(control: Control, finding: Finding, names: frozenset[str]) -> bool:
    match control.kind:
        case ControlKind.ACKNOWLEDGE:
            # One finding at a time: an acknowledgement of everything, for good, would end all paging.
            return control.subject_id == finding.id
        case ControlKind.MAINTENANCE:
            return control.subject_id in ("", finding.id) or control.subject_id in names
        case _:
            return False
