"""Reads findings and remediations from their Kafka topics: the open ones, or the latest revision of each id."""

from collections.abc import Callable, Iterable

from streams.config.kafka import KafkaSettings
from streams.runtime.topic_io import follow, read_newest, read_to_end
from streams.wire.errors import Reject
from streams.wire.models import Finding, Remediation
from streams.wire.topics import FINDINGS, FINDINGS_OPEN, REMEDIATIONS, decode


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
