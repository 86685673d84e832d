"""Queries stored findings and remediations, for those that are no longer in Kafka.

Raises Retry while ClickHouse is unavailable.
"""

from streams.store.query_client import QueryClient
from streams.wire import codec
from streams.wire.models import Finding, Remediation

_FINDINGS = (
    "SELECT json FROM findings WHERE startsWith(id, {id:String}) OR startsWith(parent_id, {id:String})"
    " ORDER BY revision, id LIMIT 1 BY id, revision"
)
_REMEDIATIONS = (
    "SELECT json FROM remediations WHERE arrayExists(f -> startsWith(f, {id:String}), finding_ids)"
    " ORDER BY id, revision DESC LIMIT 1 BY id"
)


def by_id_prefix(client: QueryClient, prefix: str) -> tuple[list[Finding], list[Remediation]]:
    """Return all revisions of the findings whose id or parent id has the prefix, and their remediations."""
    findings = [codec.from_json(Finding, json) for (json,) in client.query(_FINDINGS, {"id": prefix})]
    remediations = [codec.from_json(Remediation, json) for (json,) in client.query(_REMEDIATIONS, {"id": prefix})]
    return findings, remediations
