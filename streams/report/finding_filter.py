"""Selects findings by severity, condition, device, job and acknowledgement, for lists and screens."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from streams.wire.control_scope import has_ended
from streams.wire.models import Control, ControlKind, Finding, Severity


@dataclass(frozen=True, slots=True)
class FindingFilter:
    """The findings to list; an empty field selects all."""

    severity: Severity = Severity.SEVERITY_UNSPECIFIED
    """The least severity."""
    condition: str = ""
    """A glob of the slug, as `link/*`."""
    device: str = ""
    """A glob of a device at either end, or of an affected host."""
    job: str = ""
    """A glob of an affected job."""
    roots: bool = False
    """Only findings without a parent."""
    unacknowledged: bool = False

    def selects(self, finding: Finding, acknowledged: bool = False) -> bool:
        """Return whether a finding is listed."""
        if finding.severity < self.severity or (self.roots and finding.parent_id):
            return False
        if self.unacknowledged and acknowledged:
            return False
        radius = finding.blast_radius
        ends = [end.device for end in (finding.subject.a, finding.subject.z) if end is not None]
        return (
            _matches(self.condition, [finding.condition.slug])
            and _matches(self.device, [*ends, *(radius.hosts if radius else ())])
            and _matches(self.job, radius.jobs if radius else ())
        )


def acknowledgements(controls: Iterable[Control], now_ns: int) -> dict[str, Control]:
    """Return the acknowledgements that are in force, by the id of their finding."""
    return {
        control.subject_id: control
        for control in controls
        if control.kind is ControlKind.ACKNOWLEDGE and not has_ended(control, now_ns)
    }


def _matches(pattern: str, values: Iterable[str]) -> bool:
    return not pattern or any(fnmatchcase(value, pattern) for value in values)
