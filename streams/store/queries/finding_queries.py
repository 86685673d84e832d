"""Findings and remediations as ClickHouse keeps them, for those that Kafka has no more.

Raises Retry where it is away.
"""

from streams.store.query_client import QueryClient
from streams.wire import codec
from streams.wire.models import Finding, Remediation

_LIKE = (
    "SELECT json FROM findings WHERE startsWith(id, {id:String}) OR startsWith(parent_id, {id:String})"
    " ORDER BY revision, id LIMIT 1 BY id, revision"
)
_ANSWERS = (
    "SELECT json FROM remediations WHERE arrayExists(f -> startsWith(f, {id:String}), finding_ids)"
    " ORDER BY id, revision DESC LIMIT 1 BY id"
)


def by_id_prefix(asks: QueryClient, prefix: str) -> tuple[list[Finding], list[Remediation]]:
    """Every revision of the findings whose id begins so or whose parent's does, and what answers them."""
    findings = [codec.from_json(Finding, json) for (json,) in asks.query(_LIKE, {"id": prefix})]
    answers = [codec.from_json(Remediation, json) for (json,) in asks.query(_ANSWERS, {"id": prefix})]
    return findings, answers
