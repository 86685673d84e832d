"""Decides whether a control silences a finding: maintenance of its location, or its acknowledgement.

A control is active from its time until its end, or for ever without an end. Controls of actions (exclusions, the kill
switch) silence no alert.
"""

from collections.abc import Iterable

from streams.wire.control_scope import is_active, subject_names
from streams.wire.models import Control, ControlKind, Finding


def is_silenced(finding: Finding, controls: Iterable[Control], now_ns: int) -> bool:
    """Return whether an active control prevents this finding from paging."""
    names = subject_names(finding.subject)
    return any(is_active(control, now_ns) and _covers(control, finding, names) for control in controls)


def _covers(control: Control, finding: Finding, names: frozenset[str]) -> bool:
    match control.kind:
        case ControlKind.ACKNOWLEDGE:
            # One finding only: an acknowledgement of everything, without an end, would stop all paging.
            return control.subject_id == finding.id
        case ControlKind.MAINTENANCE:
            return control.subject_id in ("", finding.id) or control.subject_id in names
        case _:
            return False
