"""What the topics of findings and remediations hold: the highest revision of each id, and those that are open."""

from collections.abc import Iterable

from streams.cli.reading import until_end
from streams.config.kafka import KafkaSettings
from streams.wire.errors import Reject
from streams.wire.models import Finding, Remediation
from streams.wire.topics import FINDINGS, FINDINGS_OPEN, REMEDIATIONS, decode


async def open_findings(kafka: KafkaSettings) -> list[Finding]:
    """The findings that are open now, the newest first."""
    held: dict[bytes, Finding] = {}
    async for record in until_end(kafka, FINDINGS_OPEN):
        if record.value is None:
            held.pop(record.key, None)
        elif (finding := _finding(record.value)) is not None:
            known = held.get(record.key)
            if known is None or finding.revision >= known.revision:
                held[record.key] = finding
    return sorted(held.values(), key=lambda finding: -finding.started_at_ns)


async def findings_like(kafka: KafkaSettings, prefix: str) -> list[Finding]:
    """Every revision of the findings whose id begins so, or that have such a one as parent; lowest revision first."""
    wanted = prefix.encode()
    # Looked for in the bytes first: most records are of other findings, and need not be parsed.
    values = [r.value async for r in until_end(kafka, FINDINGS) if r.value is not None and wanted in r.value]
    found = [finding for value in values if (finding := _finding(value)) is not None]
    return sorted(found, key=lambda finding: finding.revision)


async def remediations_of(kafka: KafkaSettings, finding: str) -> list[Remediation]:
    """The highest revision of each remediation that answers this finding."""
    held: dict[str, Remediation] = {}
    async for record in until_end(kafka, REMEDIATIONS):
        if record.value is not None and finding.encode() in record.value:
            try:
                remediation = decode(REMEDIATIONS, record.value)
            except Reject:
                continue
            if isinstance(remediation, Remediation) and finding in remediation.finding_ids:
                known = held.get(remediation.id)
                if known is None or remediation.revision >= known.revision:
                    held[remediation.id] = remediation
    return list(held.values())


def newest(revisions: Iterable[Finding]) -> dict[str, Finding]:
    """The highest revision of each id."""
    held: dict[str, Finding] = {}
    for finding in revisions:
        known = held.get(finding.id)
        if known is None or finding.revision >= known.revision:
            held[finding.id] = finding
    return held


def _finding(value: bytes) -> Finding | None:
    try:
        message = decode(FINDINGS, value)
    except Reject:
        # Somebody else's record in our topic; the stages reject it by name.
        return None
    return message if isinstance(message, Finding) else None
