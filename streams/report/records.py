"""Reads findings, remediations, controls and facts from their Kafka topics, or facts from a recording."""

from collections.abc import Callable, Iterable
from pathlib import Path

from streams.config.kafka import KafkaSettings
from streams.replay.recording import RejectedRows, read_lines
from streams.runtime.topic_io import follow, read_newest, read_to_end
from streams.wire.errors import Reject
from streams.wire.models import Control, Facts, Finding, Remediation
from streams.wire.topics import CONTROLS, FACTS, FINDINGS, FINDINGS_OPEN, REMEDIATIONS, REMEDIATIONS_OPEN, decode


async def open_findings(kafka: KafkaSettings) -> list[Finding]:
    """Return the findings that are open now, newest first."""
    content = await read_newest(kafka, FINDINGS_OPEN)
    findings = [finding for finding in content.newest.values() if isinstance(finding, Finding)]
    return sorted(findings, key=lambda finding: -finding.started_at_ns)


async def follow_findings(kafka: KafkaSettings, on_finding: Callable[[bytes, Finding], None]) -> None:
    """Call `on_finding` with the record's value and the finding for each new revision, until cancelled."""
    async for record in follow(kafka, FINDINGS, from_end=True):
        try:
            finding = decode(FINDINGS, record.value, record.headers)
        except Reject:
            continue
        if isinstance(finding, Finding):
            on_finding(record.value, finding)


async def findings_by_id_prefix(kafka: KafkaSettings, prefix: str) -> list[Finding]:
    """Return every revision of the findings with this id prefix and of their children, lowest revision first."""
    wanted = prefix.encode()
    # Searched as bytes first: most records are of other findings and need no parsing.
    values = [r.value async for r in read_to_end(kafka, FINDINGS) if r.value is not None and wanted in r.value]
    found = [finding for value in values if (finding := _finding(value)) is not None]
    return sorted(found, key=lambda finding: finding.revision)


async def remediations_of(kafka: KafkaSettings, finding: str) -> list[Remediation]:
    """Return the latest revision of each remediation of this finding."""
    latest: dict[str, Remediation] = {}
    async for record in read_to_end(kafka, REMEDIATIONS):
        if record.value is not None and finding.encode() in record.value:
            try:
                remediation = decode(REMEDIATIONS, record.value)
            except Reject:
                continue
            if isinstance(remediation, Remediation) and finding in remediation.finding_ids:
                known = latest.get(remediation.id)
                if known is None or remediation.revision >= known.revision:
                    latest[remediation.id] = remediation
    return list(latest.values())


def latest_revisions(revisions: Iterable[Finding]) -> dict[str, Finding]:
    """Return the highest revision of each id."""
    latest: dict[str, Finding] = {}
    for finding in revisions:
        known = latest.get(finding.id)
        if known is None or finding.revision >= known.revision:
            latest[finding.id] = finding
    return latest


def _finding(value: bytes) -> Finding | None:
    try:
        message = decode(FINDINGS, value)
    except Reject:
        # A record that is no Finding; the stages publish it to the rejected topic.
        return None
    return message if isinstance(message, Finding) else None


class NoSuchRemediation(Exception):
    """No remediation, or more than one, has this id prefix."""


async def open_remediations(kafka: KafkaSettings) -> list[Remediation]:
    """Return the remediations that are open now, newest first."""
    content = await read_newest(kafka, REMEDIATIONS_OPEN)
    remediations = [remediation for remediation in content.newest.values() if isinstance(remediation, Remediation)]
    return sorted(remediations, key=lambda remediation: -(remediation.decided_at_ns or 0))


async def remediation_revisions(kafka: KafkaSettings, id_prefix: str) -> list[Remediation]:
    """Return every revision of the one remediation with this id prefix, lowest first; raises NoSuchRemediation."""
    wanted = id_prefix.encode()
    values = [r.value async for r in read_to_end(kafka, REMEDIATIONS) if r.value is not None and wanted in r.value]
    decoded = (_remediation(value) for value in values)
    found = [remediation for remediation in decoded if remediation and remediation.id.startswith(id_prefix)]
    ids = sorted({remediation.id for remediation in found})
    if len(ids) != 1:
        raise NoSuchRemediation(f"several: {', '.join(ids)}" if ids else f"no remediation {id_prefix}")
    return latest_last(found)


def latest_last(revisions: Iterable[Remediation]) -> list[Remediation]:
    """Return each revision once, the highest last; a restart may have published one twice."""
    return [found for _, found in sorted({found.revision: found for found in revisions}.items())]


async def follow_remediations(kafka: KafkaSettings, on_remediation: Callable[[bytes, Remediation], None]) -> None:
    """Call `on_remediation` with the record's value and the remediation for each new revision, until cancelled."""
    async for record in follow(kafka, REMEDIATIONS, from_end=True):
        if record.value is not None and (remediation := _remediation(record.value)) is not None:
            on_remediation(record.value, remediation)


async def current_controls(kafka: KafkaSettings) -> list[Control]:
    """Return the last control of each id, without those that a tombstone removed."""
    content = await read_newest(kafka, CONTROLS)
    controls = [control for control in content.newest.values() if isinstance(control, Control)]
    return sorted(controls, key=lambda control: (control.at_ns or 0, control.id))


def _remediation(value: bytes) -> Remediation | None:
    try:
        message = decode(REMEDIATIONS, value)
    except Reject:
        return None
    return message if isinstance(message, Remediation) else None


def facts_of_file(path: Path) -> tuple[list[Facts], list[str]]:
    """Return the facts of a file, and a line for each reason to skip some; raises Misconfigured for no such file."""
    rejected = RejectedRows()
    return read_lines(Facts, path, rejected), rejected.lines()


async def facts_on_kafka(kafka: KafkaSettings) -> list[Facts]:
    """Return the facts of every device and source; raises Retry where Kafka does not answer."""
    content = await read_newest(kafka, FACTS)
    return [facts for facts in content.newest.values() if isinstance(facts, Facts)]
