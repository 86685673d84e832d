"""Acknowledges a finding: publishes the control, and removes acknowledgements that have no effect any more."""

import asyncio
import getpass
import time
from collections.abc import Collection

from streams.config.kafka import KafkaSettings
from streams.report.finding_reader import open_findings
from streams.report.remediation_reader import current_controls
from streams.runtime.topic_io import publish
from streams.wire.control_scope import has_ended
from streams.wire.errors import Retry
from streams.wire.models import Control, ControlKind
from streams.wire.topics import CONTROLS, Record, encode

_DAY_NS = 86_400_000_000_000


def acknowledge(kafka: KafkaSettings, identity: str, reason: str, hours: float | None) -> str:
    """Publish the acknowledgement of the open finding with this id prefix, and return its confirmation; raise Retry."""
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
    """Return the acknowledgement; its id is made from the finding's, so that a second one replaces the first."""
    return Control(f"ack/{finding}", ControlKind.ACKNOWLEDGE, finding, at_ns, until_ns, actor, reason)


def is_over(control: Control, open_ids: Collection[str], now_ns: int) -> bool:
    """Return whether an acknowledgement has ended, or is older than a day and its finding is not open."""
    if control.kind is not ControlKind.ACKNOWLEDGE:
        return False
    is_old = (control.at_ns or 0) + _DAY_NS < now_ns
    return has_ended(control, now_ns) or (is_old and control.subject_id not in open_ids)
