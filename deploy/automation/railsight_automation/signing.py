"""Signs results with Ed25519, for a `decide` that has `trusted_keys`.

A result is a CloudEvent in binary mode; the header `ce_dssematerial` is a DSSE 1.0.2 envelope over one digest of its
attributes and data (CloudEvents' extension for verifiability).
"""

import base64
import hashlib
import json
from pathlib import Path
from typing import Protocol

from railsight_automation.errors import Misconfigured
from railsight_automation.messages import rfc3339

_PAYLOAD_TYPE = "https://cloudevents.io/verifiability/dsse/v0.1"
_TYPE = "railsight.remediation-result.v1"
_SIGNED = ("ce_id", "ce_source", "ce_specversion", "ce_type", "content-type", "ce_dataschema", "ce_subject", "ce_time")

Headers = list[tuple[str, bytes]]


class Key(Protocol):
    """An Ed25519 private key of the package cryptography."""

    def sign(self, data: bytes) -> bytes: ...


class Signer:
    """Signs the results of one actor."""

    def __init__(self, key: Key, actor: str) -> None:
        self._key = key
        self._source = f"railsight-automation/{actor}"

    def headers(self, key: str, value: bytes, at_ns: int) -> Headers:
        """Return the headers of a record: its attributes and their signature."""
        attributes = {
            "ce_specversion": "1.0", "ce_type": _TYPE, "ce_id": f"{key}/{at_ns}", "ce_source": self._source,
            "ce_subject": key, "ce_time": rfc3339(at_ns), "content-type": "application/json",
        }  # fmt: skip
        parts = [*(attributes.get(name, "").encode() for name in _SIGNED), value]
        payload = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()
        kind = _PAYLOAD_TYPE.encode()
        signature = self._key.sign(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
        envelope = {
            "payload": base64.b64encode(payload).decode(), "payloadType": _PAYLOAD_TYPE,
            "signatures": [{"sig": base64.b64encode(signature).decode()}],
        }  # fmt: skip
        attributes["ce_dssematerial"] = base64.b64encode(json.dumps(envelope).encode()).decode()
        return [(name, text.encode()) for name, text in attributes.items()]


def load_signer(path: Path, actor: str) -> Signer:
    """Return a signer with the private key of a PEM file, as `railsight key new` writes it."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        raise Misconfigured("signing_key needs a package: pip install cryptography") from error
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise Misconfigured(f"signing_key: {path}: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise Misconfigured(f"signing_key: {path}: not an Ed25519 key")
    return Signer(key, actor)
