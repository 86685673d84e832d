"""Decides whether a control silences a finding: maintenance of its location, or its acknowledgement.

A control is active from its time until its end, or for ever without an end. Controls of actions (exclusions, the kill
switch) silence no alert.
"""

from collections.abc import Iterable

from streams.wire.models import Control, ControlKind, Finding


def is_silenced(finding: Finding, controls: Iterable[Control], now_ns: int) -> bool:
    """Return whether an active control prevents this finding from paging."""
    names = subject_names(finding)
    return any(is_active(control, now_ns) and _covers(control, finding, names) for control in controls)


def is_active(control: Control, now_ns: int) -> bool:
    """Return whether a control has begun and not ended."""
    begun = control.at_ns is None or control.at_ns <= now_ns
    return begun and (control.until_ns is None or now_ns < control.until_ns)


def subject_names(finding: Finding) -> frozenset[str]:
    """Return the names by which a control may address the finding: its current and former subjects, devices, pod."""
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
            # One finding only: an acknowledgement of everything, without an end, would stop all paging.
            return control.subject_id == finding.id
        case ControlKind.MAINTENANCE:
            return control.subject_id in ("", finding.id) or control.subject_id in names
        case _:
            return False
