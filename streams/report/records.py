"""Reads findings, remediations, controls and facts from their Kafka topics, or facts from a recording."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from streams.config.kafka import KafkaSettings
from streams.replay.recording import RejectedRows, read_lines
from streams.runtime.topic_io import follow, read_newest, read_to_end
from streams.wire.errors import Reject
from streams.wire.models import Control, ControlAnswer, Facts, Finding, Remediation, Status
from streams.wire.topics import (
    CONTROL_ANSWERS,
    CONTROLS,
    FACTS,
    FINDINGS,
    FINDINGS_OPEN,
    REMEDIATIONS,
    REMEDIATIONS_OPEN,
    Headers,
    Topic,
    decode,
)

_Model = TypeVar("_Model", Control, ControlAnswer, Facts, Finding, Remediation)
_Revised = TypeVar("_Revised", Finding, Remediation)


class NoSuchRemediation(Exception):
    """Raised if no remediation, or more than one, has this id prefix."""


async def open_findings(kafka: KafkaSettings) -> list[Finding]:
    """Return the findings that are open now, newest first."""
    return sorted(await _newest(kafka, FINDINGS_OPEN, Finding), key=lambda finding: -finding.started_at_ns)


async def findings_since(kafka: KafkaSettings, since_ns: int) -> list[Finding]:
    """Return the open findings and those that ended since a time, without retracted ones, newest first."""
    revisions = await open_findings(kafka)
    async for record in read_to_end(kafka, FINDINGS, since_ns):
        if record.value is not None and (revision := _decoded(FINDINGS, record.value, Finding, record.headers)):
            revisions.append(revision)
    latest = latest_revisions(revisions).values()
    found = [
        one for one in latest if one.status is not Status.RETRACTED and (one.resolved_at_ns or since_ns) >= since_ns
    ]
    return sorted(found, key=lambda finding: -finding.started_at_ns)


async def open_remediations(kafka: KafkaSettings) -> list[Remediation]:
    """Return the remediations that are open now, newest first."""
    return sorted(await _newest(kafka, REMEDIATIONS_OPEN, Remediation), key=lambda found: -(found.decided_at_ns or 0))


async def current_controls(kafka: KafkaSettings) -> list[Control]:
    """Return the last control of each id, without controls that a tombstone removed."""
    return sorted(await _newest(kafka, CONTROLS, Control), key=lambda control: (control.at_ns or 0, control.id))


async def current_answers(kafka: KafkaSettings) -> list[ControlAnswer]:
    """Return the answers to the controls in effect, and to the last refused ones."""
    return await _newest(kafka, CONTROL_ANSWERS, ControlAnswer)


async def facts_on_kafka(kafka: KafkaSettings) -> list[Facts]:
    """Return the facts of every device and source; raises Retry if Kafka does not answer."""
    return await _newest(kafka, FACTS, Facts)


def facts_of_file(path: Path) -> tuple[list[Facts], list[str]]:
    """Return the facts of a file, and a line for each reason to skip some; raises Misconfigured if it is missing."""
    rejected = RejectedRows()
    return read_lines(Facts, path, rejected), rejected.lines()


async def findings_by_id_prefix(kafka: KafkaSettings, prefix: str) -> list[Finding]:
    """Return every revision of the findings with this id prefix and of their children, lowest revision first."""
    return sorted(await _containing(kafka, FINDINGS, prefix, Finding), key=lambda finding: finding.revision)


async def remediations_of(kafka: KafkaSettings, finding: str) -> list[Remediation]:
    """Return the latest revision of each remediation of this finding."""
    found = await _containing(kafka, REMEDIATIONS, finding, Remediation)
    return list(latest_revisions(one for one in found if finding in one.finding_ids).values())


async def remediation_revisions(kafka: KafkaSettings, id_prefix: str) -> list[Remediation]:
    """Return every revision of the one remediation with this id prefix, lowest first; raises NoSuchRemediation."""
    found = await _containing(kafka, REMEDIATIONS, id_prefix, Remediation)
    found = [remediation for remediation in found if remediation.id.startswith(id_prefix)]
    ids = sorted({remediation.id for remediation in found})
    if len(ids) != 1:
        raise NoSuchRemediation(f"several: {', '.join(ids)}" if ids else f"no remediation {id_prefix}")
    # Removes repetitions, because a restart may have published a revision twice.
    return [revision for _, revision in sorted({one.revision: one for one in found}.items())]


async def follow_findings(kafka: KafkaSettings, on_finding: Callable[[bytes, Finding], None]) -> None:
    """Call `on_finding` with the record's value and the finding for each new revision, until cancelled."""
    await _follow(kafka, FINDINGS, Finding, on_finding)


async def follow_remediations(kafka: KafkaSettings, on_remediation: Callable[[bytes, Remediation], None]) -> None:
    """Call `on_remediation` with the record's value and the remediation for each new revision, until cancelled."""
    await _follow(kafka, REMEDIATIONS, Remediation, on_remediation)


def latest_revisions(revisions: Iterable[_Revised]) -> dict[str, _Revised]:
    """Return the highest revision of each id."""
    latest: dict[str, _Revised] = {}
    for one in revisions:
        known = latest.get(one.id)
        if known is None or one.revision >= known.revision:
            latest[one.id] = one
    return latest


async def _newest(kafka: KafkaSettings, topic: Topic, model: type[_Model]) -> list[_Model]:
    """Return the content of a compacted topic."""
    content = await read_newest(kafka, topic)
    return [message for message in content.newest.values() if isinstance(message, model)]


async def _containing(kafka: KafkaSettings, topic: Topic, text: str, model: type[_Revised]) -> list[_Revised]:
    """Return the messages of a topic that contain a text; searches bytes, so that most records need no parsing."""
    wanted = text.encode()
    values = [r.value async for r in read_to_end(kafka, topic) if r.value is not None and wanted in r.value]
    return [message for value in values if (message := _decoded(topic, value, model)) is not None]


async def _follow(
    kafka: KafkaSettings, topic: Topic, model: type[_Revised], on_message: Callable[[bytes, _Revised], None]
) -> None:
    async for record in follow(kafka, topic, from_end=True):
        if record.value is not None and (message := _decoded(topic, record.value, model, record.headers)):
            on_message(record.value, message)


def _decoded(topic: Topic, value: bytes, model: type[_Revised], headers: Headers = ()) -> _Revised | None:
    """Return a message; None for an unreadable record, which the stages publish on the rejected topic."""
    try:
        message = decode(topic, value, headers)
    except Reject:
        return None
    return message if isinstance(message, model) else None
