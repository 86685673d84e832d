"""Selects findings for lists and screens, and acknowledges one."""

import asyncio
import getpass
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from streams.config.kafka import KafkaSettings
from streams.detect.fabric_side import devices_of
from streams.report.records import current_controls, open_findings
from streams.runtime.topic_io import publish
from streams.wire.control_scope import has_ended, silencing_control
from streams.wire.errors import Retry
from streams.wire.models import Control, ControlKind, Finding, Severity
from streams.wire.topics import CONTROLS, Record, encode


@dataclass(frozen=True, slots=True)
class FindingFilter:
    """The findings to list; an empty field selects all."""

    severity: Severity = Severity.SEVERITY_UNSPECIFIED
    """The lowest severity."""
    condition: str = ""
    """A glob of the slug, such as `link/*`."""
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
        return (
            _matches(self.condition, [finding.condition.slug])
            and _matches(self.device, [*devices_of(finding), *(radius.hosts if radius else ())])
            and _matches(self.job, radius.jobs if radius else ())
        )


def acknowledgements(controls: Iterable[Control], now_ns: int) -> dict[str, Control]:
    """Return the acknowledgements in force, by the id of their finding."""
    return {
        control.subject_id: control
        for control in controls
        if control.kind is ControlKind.ACKNOWLEDGE and not has_ended(control, now_ns)
    }


def is_planned(finding: Finding, controls: Iterable[Control], now_ns: int) -> bool:
    """Return whether a maintenance, of the inventory or of a control, covers a finding.

    Of an open finding it is in force now; of one that is over it was in force at its start and at its end.
    """
    own = [control for control in controls if control.kind is ControlKind.MAINTENANCE]
    times = (now_ns,) if finding.resolved_at_ns is None else (finding.started_at_ns, finding.resolved_at_ns)
    return bool(finding.shadow) or all(silencing_control(finding, own, at_ns) for at_ns in times)


def _matches(pattern: str, values: Iterable[str]) -> bool:
    return not pattern or any(fnmatchcase(value, pattern) for value in values)


_DAY_NS = 86_400_000_000_000


def acknowledge(kafka: KafkaSettings, identity: str, reason: str, hours: float | None) -> str:
    """Publish the acknowledgement of the open finding with this id prefix; return a confirmation; raises Retry."""
    findings = asyncio.run(open_findings(kafka))
    matches = [finding for finding in findings if finding.id.startswith(identity)]
    if len(matches) != 1:
        several = ", ".join(finding.id for finding in matches)
        raise Retry(
            f"several: {several}" if matches else f"no open finding {identity}; `railsight findings` lists them"
        )
    finding, now = matches[0], time.time_ns()
    until = None if hours is None else now + round(hours * 3600e9)
    ids = {one.id for one in findings}
    over = [one for one in asyncio.run(current_controls(kafka)) if is_over(one, ids, now)]
    own = acknowledgement(finding.id, now, until, getpass.getuser(), reason)
    tombstones = [Record(CONTROLS, one.id.encode(), None) for one in over if one.id != own.id]
    asyncio.run(publish(kafka, [*tombstones, encode(CONTROLS, own)]))
    return f"acknowledged {finding.id}: {finding.summary}"


def acknowledgement(finding: str, at_ns: int, until_ns: int | None, actor: str, reason: str) -> Control:
    """Return an acknowledgement; its id derives from the finding's, so that a second one replaces the first."""
    return Control(f"ack/{finding}", ControlKind.ACKNOWLEDGE, finding, at_ns, until_ns, actor, reason)


def is_over(control: Control, open_ids: Collection[str], now_ns: int) -> bool:
    """Return whether an acknowledgement has ended, or is older than a day without its finding open."""
    if control.kind is not ControlKind.ACKNOWLEDGE:
        return False
    is_old = (control.at_ns or 0) + _DAY_NS < now_ns
    return has_ended(control, now_ns) or (is_old and control.subject_id not in open_ids)
