"""Decodes remediations and encodes results in the public JSON of railsight's topics."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

APPROVED = "APPROVED"
_DETAIL_CHARACTERS = 4000
"""The limit of a detail: railsight rejects more than 16,384 characters, and a command can print any number."""


_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
"""An id is part of the reason of a drain and the value of a taint."""


@dataclass(frozen=True)
class Endpoint:
    """A port of a device, or a device."""

    device: str
    port: str = ""


@dataclass(frozen=True)
class Remediation:
    """One revision of a remediation, with the fields that the automation needs."""

    id: str
    revision: int
    action: str
    verdict: str
    target_id: str
    a: Endpoint | None
    z: Endpoint | None
    role: str
    expires_at_ns: int
    reason: str
    state: str = ""
    actor: str = ""
    instance: str = ""
    """Of the automation whose acceptance `decide` confirmed."""
    former_ids: tuple[str, ...] = ()
    """Ids of the target before it was renamed."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields for the journal."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Remediation":
        """Return the remediation of a journal entry."""
        ends = {name: Endpoint(**fields[name]) if fields[name] else None for name in ("a", "z")}
        return cls(**(fields | ends | {"former_ids": tuple(fields.get("former_ids", ()))}))


def decode_remediation(data: bytes) -> Remediation:
    """Return the remediation of a record; raise ValueError if it is invalid or lacks a field that an action needs."""
    try:
        fields = json.loads(data)
        target = fields["target"]
        if not _ID.fullmatch(str(fields["id"])):
            raise ValueError(f"{fields['id']!r} is no id")
        return Remediation(
            id=str(fields["id"]),
            revision=int(fields["revision"]),
            action=str(fields["action"]),
            verdict=str(fields["verdict"]),
            target_id=str(target["id"]),
            a=_endpoint(target.get("a")),
            z=_endpoint(target.get("z")),
            role=str(target.get("role", "")),
            expires_at_ns=unix_ns(fields["expiresAt"]) if "expiresAt" in fields else 0,
            reason=str(fields.get("reason", "")),
            state=str(fields["state"]),
            actor=str(fields.get("actor", "")),
            instance=str(fields.get("instance", "")),
            former_ids=tuple(map(str, target.get("formerIds", ()))),
        )
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a remediation: {error!r}") from error


def encode_result(
    remediation_id: str, outcome: str, actor: str, instance: str, detail: str, prior_values: Mapping[str, str],
    at_ns: int,
) -> bytes:  # fmt: skip
    """Return the JSON of a result."""
    fields: dict[str, object] = {"remediationId": remediation_id, "outcome": outcome, "at": rfc3339(at_ns)}
    fields["instance"] = instance
    fields |= {"actor": actor, "detail": detail[:_DETAIL_CHARACTERS], "priorValues": dict(prior_values)}
    return json.dumps({name: value for name, value in fields.items() if value}).encode()


def encode_loss(
    actor: str, topic: str, partition: int, first_offset: int, records: int, at_ns: int, *, is_recreated: bool
) -> bytes:
    """Return the JSON report of records that Kafka deleted before they were read."""
    fields = {"consumer": actor, "topic": topic, "partition": partition, "firstOffset": str(first_offset)}
    counts = {"records": str(records), "atNs": str(at_ns), "isRecreated": is_recreated}
    return json.dumps(fields | counts).encode()


def unix_ns(text: str) -> int:
    """Return the time of an RFC 3339 text in nanoseconds; Python's datetime has only microseconds."""
    seconds, dot, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))] if dot else ""
    zone = rest[len(digits) :] if dot else ""
    at = datetime.fromisoformat(seconds + zone)
    return int(at.timestamp()) * 10**9 + int(digits.ljust(9, "0")[:9] or "0")


def rfc3339(at_ns: int) -> str:
    """Return a time in UTC with nanoseconds."""
    seconds, ns = divmod(at_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ns:09d}Z"


def _endpoint(fields: dict[str, Any] | None) -> Endpoint | None:
    return Endpoint(str(fields["device"]), str(fields.get("port", ""))) if fields else None
