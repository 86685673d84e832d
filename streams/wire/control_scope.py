"""Defines the targets and the time of a control: the names with which it may address a subject, its start and end."""

from streams.fabric.ids import device_id
from streams.wire.models import Control, Subject


def is_active(control: Control, now_ns: int) -> bool:
    """Return whether a control has begun and not ended; without an end it is active forever."""
    begun = control.at_ns is None or control.at_ns <= now_ns
    return begun and not has_ended(control, now_ns)


def has_ended(control: Control, now_ns: int) -> bool:
    """Return whether a control has an end that has passed."""
    return control.until_ns is not None and control.until_ns <= now_ns


def subject_names(subject: Subject) -> frozenset[str]:
    """Return the names with which a control may address a subject: its current and former ids, devices, pod, plane."""
    devices = {end.device for end in (subject.a, subject.z) if end is not None}
    names = {subject.id, *subject.former_ids, *devices, *map(device_id, devices)}
    if subject.pod:
        names |= {subject.pod, f"pod:{subject.pod}"}
    if subject.plane is not None:
        names.add(f"plane:{subject.plane}")
    return frozenset(names)
