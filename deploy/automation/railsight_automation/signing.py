"""Signs results and verifies remediations with Ed25519, where keys are configured.

A signed record is a CloudEvent in binary mode; the header `ce_dssematerial` is a DSSE 1.0.2 envelope over one digest of
its attributes and data (CloudEvents' extension for verifiability). Its source begins with the fabric, and a record must
reach Kafka before its expiry.
"""

import base64
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railsight_automation.errors import Misconfigured
from railsight_automation.messages import rfc3339, unix_ns

_PAYLOAD_TYPE = "https://cloudevents.io/verifiability/dsse/v0.1"
_RESULT, _REMEDIATION = "railsight.remediation-result.v1", "railsight.remediation.v1"
_SIGNED = (
    "ce_id", "ce_source", "ce_specversion", "ce_type", "content-type", "ce_dataschema", "ce_subject", "ce_time",
    "ce_expirytime",
)  # fmt: skip
_HEADER = "ce_dssematerial"
_VALID_NS = 300 * 10**9

Headers = list[tuple[str, bytes]]


@dataclass(frozen=True)
class Signer:
    """Signs the results of one actor for one fabric."""

    key: Any
    """An Ed25519PrivateKey of the package cryptography."""
    fabric: str
    actor: str

    def headers(self, key: str, value: bytes, at_ns: int) -> Headers:
        """Return the headers of a record: its attributes and their signature."""
        attributes = {
            "ce_specversion": "1.0", "ce_type": _RESULT, "ce_id": f"{key}/{at_ns}",
            "ce_source": f"/railsight/{self.fabric}/automation/{self.actor}", "ce_subject": key,
            "ce_time": rfc3339(at_ns), "ce_expirytime": rfc3339(at_ns + _VALID_NS), "content-type": "application/json",
        }  # fmt: skip
        headers = {name: text.encode() for name, text in attributes.items()}
        payload = _digest(headers, value)
        signature = {"keyid": key_id(_raw(self.key.public_key())), "sig": _text(self.key.sign(_message(payload)))}
        envelope = {"payload": _text(payload), "payloadType": _PAYLOAD_TYPE, "signatures": [signature]}
        headers[_HEADER] = _text(json.dumps(envelope).encode()).encode()
        return list(headers.items())


class Verifier:
    """Accepts only remediations of one fabric with the signature of a trusted key; without keys it accepts all."""

    def __init__(self, trusted: Iterable[str], fabric: str) -> None:
        self._fabric = fabric
        self._keys = {key_id(base64.b64decode(text)): _public_key(text) for text in trusted}

    def problem(self, key: bytes | None, value: bytes, headers: Iterable[tuple[str, bytes]], arrived_ns: int) -> str:
        """Return the reason why a record is not to be trusted; empty if it is."""
        if not self._keys:
            return ""
        from cryptography.exceptions import InvalidSignature

        names = [name for name, _ in headers]
        attributes = dict(headers)
        if len(names) != len(attributes) or _HEADER not in attributes:
            return "not signed"
        try:
            envelope = json.loads(base64.b64decode(attributes[_HEADER], validate=True))
            payload = base64.b64decode(envelope["payload"], validate=True)
            signatures = [(str(one["keyid"]), base64.b64decode(one["sig"])) for one in envelope["signatures"][:16]]
            expires_ns = unix_ns(attributes.get("ce_expirytime", b"").decode())
            target_id = json.loads(value)["target"]["id"]
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return "the signature cannot be read"
        if envelope.get("payloadType") != _PAYLOAD_TYPE or payload != _digest(attributes, value):
            return "the signature is of other content"
        if attributes.get("ce_type") != _REMEDIATION.encode() or str(target_id).encode() != key:
            return "signed for another topic or key"
        if not attributes.get("ce_source", b"").startswith(f"/railsight/{self._fabric}/".encode()):
            return f"signed for another fabric than {self._fabric}"
        if arrived_ns > expires_ns:
            return "the signature had expired when the record arrived"
        for name, signature in signatures:
            if name in self._keys:
                try:
                    self._keys[name].verify(signature, _message(payload))
                except InvalidSignature:
                    return f"the signature of the key {name} is invalid"
                return ""
        return f"signed by no trusted key (key ids: {', '.join(name for name, _ in signatures)[:200]})"


def key_id(raw: bytes) -> str:
    """Return the id of a public key, as `railsight key show --id` prints it."""
    return hashlib.sha256(base64.b64encode(raw)).hexdigest()[:16]


def load_signer(path: Path, fabric: str, actor: str) -> Signer:
    """Return a signer with the private key of a PEM file, as `railsight key new` writes it."""
    private_key_type, load_pem = _cryptography("signing_key")
    try:
        key = load_pem(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise Misconfigured(f"signing_key: {path}: {error}") from error
    if not isinstance(key, private_key_type):
        raise Misconfigured(f"signing_key: {path}: not an Ed25519 key")
    return Signer(key, fabric, actor)


def _public_key(text: str) -> Any:
    _cryptography("trusted_keys")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))
    except ValueError as error:
        raise Misconfigured(f"trusted_keys: not the Base64 of an Ed25519 public key: {text}") from error


def _cryptography(setting: str) -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        raise Misconfigured(f"{setting} needs a package: pip install cryptography") from error
    return Ed25519PrivateKey, load_pem_private_key


def _raw(key: Any) -> bytes:
    raw: bytes = key.public_bytes_raw()
    return raw


def _digest(attributes: dict[str, bytes], value: bytes) -> bytes:
    parts = [*(attributes.get(name, b"") for name in _SIGNED), value]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()


def _message(payload: bytes) -> bytes:
    kind = _PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
