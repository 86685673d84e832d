"""One finding with its evidence, children, remediations, samples and revisions.

Findings come from Kafka, or from ClickHouse when Kafka no longer has them or does not answer; samples come from
ClickHouse. A server that does not answer is reported, and the rest is returned.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson

from streams.config.kafka import KafkaSettings
from streams.report.evidence_tables import EvidenceTable, evidence_tables, table_lines
from streams.report.finding_reader import findings_by_id_prefix, latest_revisions, remediations_of
from streams.report.render_finding import finding_report, revision_lines
from streams.store.clickhouse import ClickHouse
from streams.store.queries import finding_queries
from streams.wire import codec
from streams.wire.errors import Misconfigured, Retry
from streams.wire.models import Finding, Remediation


class NoSuchFinding(Exception):
    """No finding, or more than one, has this id prefix."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One finding and everything that is known about it; `no_samples` is the reason why samples are missing."""

    finding: Finding
    revisions: tuple[Finding, ...]
    children: tuple[Finding, ...]
    remediations: tuple[Remediation, ...]
    samples: tuple[EvidenceTable, ...] = ()
    no_samples: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "finding": _plain(self.finding),
            "revisions": [_plain(revision) for revision in self.revisions],
            "children": [_plain(child) for child in self.children],
            "remediations": [_plain(remediation) for remediation in self.remediations],
            "samples": [table.as_dict() for table in self.samples],
        }

    def lines(self) -> Iterator[str]:
        """Yield it as text."""
        yield from finding_report(self.finding, self.children, self.remediations, len(self.revisions))
        if self.samples:
            yield "  samples"
        yield from (f"  {line}" for line in table_lines(self.samples))
        yield "  revisions"
        yield from revision_lines(self.revisions)


def explain_finding(kafka: KafkaSettings, clickhouse: ClickHouse, id_prefix: str, *, samples: bool) -> Explanation:
    """Return everything about the finding with this id prefix.

    Raises NoSuchFinding, and Retry when neither Kafka nor ClickHouse answers.
    """
    revisions, remediations = _read_finding(kafka, clickhouse, id_prefix)
    latest = latest_revisions(revisions)
    matches = [finding for finding in latest.values() if finding.id.startswith(id_prefix)]
    if len(matches) != 1:
        several = ", ".join(finding.id for finding in matches)
        raise NoSuchFinding(f"several: {several}" if matches else f"no finding {id_prefix}")
    finding = matches[0]
    explanation = Explanation(
        finding,
        tuple(revision for revision in revisions if revision.id == finding.id),
        tuple(child for child in latest.values() if child.parent_id == finding.id),
        tuple(remediations),
    )
    return _with_samples(explanation, clickhouse) if samples else explanation


def _read_finding(
    kafka: KafkaSettings, clickhouse: ClickHouse, id_prefix: str
) -> tuple[list[Finding], list[Remediation]]:
    """Return all revisions of a finding and its children, and its remediations; raise Retry."""
    kafka_error: Retry | None = None
    try:
        revisions = asyncio.run(findings_by_id_prefix(kafka, id_prefix))
        ids = {finding.id for finding in revisions if finding.id.startswith(id_prefix)}
        if ids:
            return revisions, asyncio.run(remediations_of(kafka, next(iter(ids)))) if len(ids) == 1 else []
    except Retry as error:
        kafka_error = error
    try:
        return finding_queries.by_id_prefix(clickhouse, id_prefix)
    except (Retry, Misconfigured) as error:
        if kafka_error is not None:
            raise Retry(f"{kafka_error}\n{error}") from error
        return [], []


def _with_samples(explanation: Explanation, clickhouse: ClickHouse) -> Explanation:
    try:
        return replace(explanation, samples=tuple(evidence_tables(clickhouse, explanation.finding)))
    except (Retry, Misconfigured) as error:
        return replace(explanation, no_samples=str(error).splitlines()[0])


def _plain(message: Finding | Remediation) -> Any:
    return orjson.loads(codec.to_json(message))
