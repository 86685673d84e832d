"""Signs and verifies records with Ed25519: CloudEvents 1.0 in binary mode with the extension `dssematerial`.

The header `ce_dssematerial` is a DSSE 1.0.2 envelope over one digest of id, source, specversion, type, content type,
schema, subject, time, expiry and data. Kafka's key and topic are not covered: the type is bound to the topic here, and
the key must equal the id in the data. The source begins with the fabric, and a record must arrive before its expiry, so
that it is valid neither in another fabric nor when it is appended again later.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from streams.wire.errors import Misconfigured, Reject
from streams.wire.topics import CONTROLS, REMEDIATION_RESULTS, REMEDIATIONS, Headers, Record, Topic, rfc3339

PAYLOAD_TYPE = "https://cloudevents.io/verifiability/dsse/v0.1"
HEADER = "ce_dssematerial"
CE_TYPES = {
    CONTROLS.name: "railsight.control.v1",
    REMEDIATION_RESULTS.name: "railsight.remediation-result.v1",
    REMEDIATIONS.name: REMEDIATIONS.ce_type,
}
"""Topic -> the type of its events; a record signed for one topic is invalid in the other."""

VALID_NS = 300 * 10**9
"""A record must arrive at the broker within this time (choice): a minute of clock error and a slow broker are less."""

_KEY_FIELDS = {
    CONTROLS.name: ("id",),
    REMEDIATION_RESULTS.name: ("remediationId",),
    REMEDIATIONS.name: ("target", "id"),
}
_SIGNED = (
    "ce_id", "ce_source", "ce_specversion", "ce_type", "content-type", "ce_dataschema", "ce_subject", "ce_time",
    "ce_expirytime",
)  # fmt: skip
"""The attributes of CloudEvents' `dssematerial` in its order, and its extension `expirytime`."""
_MAX_SIGNATURES = 16


def new_private_key() -> bytes:
    """Return a new private key as PEM."""
    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def load_private_key(pem: bytes, origin: str) -> Ed25519PrivateKey:
    """Return the key in a PEM file; raises Misconfigured if it is not an Ed25519 private key."""
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError) as error:
        raise Misconfigured(f"{origin}: not a private key in PEM without password") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise Misconfigured(f"{origin}: not an Ed25519 key; make one with `railsight key new FILE`")
    return key


def public_text(key: Ed25519PrivateKey) -> str:
    """Return the public key in the form of `decide.trusted_keys`: its 32 bytes in Base64."""
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return base64.b64encode(raw).decode()


def parse_public_key(text: str) -> Ed25519PublicKey:
    """Return the public key of a text; raises ValueError on an invalid text."""
    try:
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not the Base64 of an Ed25519 public key: {text}") from error


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Return the private key in a file; raises Misconfigured if others can read it, as ssh does."""
    try:
        mode = path.stat().st_mode
        if mode & 0o077:
            raise Misconfigured(f"{path}: other users can read this key (mode {mode & 0o777:04o}); run chmod 600")
        return load_private_key(path.read_bytes(), str(path))
    except OSError as error:
        raise Misconfigured(f"cannot read {path}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs the records of one principal, such as `actor/anna` or `decide`, for one fabric (`kafka.cluster`)."""

    key: Ed25519PrivateKey
    fabric: str
    principal: str

    def sign(self, record: Record, now_ns: int) -> Record:
        """Return the record with CloudEvent attributes and their signature; a CloudEvent retains its id."""
        assert record.value is not None, "a tombstone cannot be signed"
        key = record.key.decode()
        attributes = {
            "ce_specversion": "1.0",
            "ce_type": CE_TYPES[record.topic.name],
            "ce_id": f"{key}/{now_ns}",
            "ce_subject": key,
            "content-type": "application/json",
            **{name: value.decode() for name, value in record.headers},
            "ce_source": f"/railsight/{self.fabric}/{self.principal}",
            "ce_time": rfc3339(now_ns),
            "ce_expirytime": rfc3339(now_ns + VALID_NS),
        }
        headers = {name: text.encode() for name, text in attributes.items()}
        payload = _digest(headers, record.value)
        envelope = {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{
                "keyid": key_id(public_text(self.key)),
                "sig": base64.b64encode(self.key.sign(_pre_authentication(PAYLOAD_TYPE, payload))).decode(),
            }],
        }  # fmt: skip
        headers[HEADER] = base64.b64encode(orjson.dumps(envelope))
        return replace(record, headers=tuple(headers.items()))


def key_id(public: str) -> str:
    """Return the id of a public key: 16 digits of the SHA-256 of its text."""
    return hashlib.sha256(public.encode()).hexdigest()[:16]


class SignatureVerifier:
    """Accepts only records for this fabric with the signature of a trusted key; other topics are not signed."""

    def __init__(self, trusted: Iterable[str], fabric: str) -> None:
        self._keys = {key_id(text): parse_public_key(text) for text in trusted}
        self._source = f"/railsight/{fabric}/".encode()

    def verify(self, topic: Topic, key: bytes | None, value: bytes | None, headers: Headers, arrived_ns: int) -> None:
        """Raise Reject on a record without a valid signature for its topic, key and time of arrival."""
        if topic.name not in CE_TYPES:
            return
        if value is None:
            raise Reject("a tombstone has no signature; end a control by `until`")
        attributes = _attributes(headers)
        payload, signatures = _open(attributes)
        if payload != _digest(attributes, value):
            raise Reject("the signature is of other content")
        if attributes.get("ce_type") != CE_TYPES[topic.name].encode():
            raise Reject(f"signed for another topic than {topic.name}")
        if _key_in(topic, value) != key:
            raise Reject("the key of the record is not the signed id")
        known = {name: signature for name, signature in signatures.items() if name in self._keys}
        if not known:
            names = ", ".join(sorted(signatures)) or "none"
            raise Reject(f"signed by no trusted key (key ids: {names}); add it to the trusted keys, or sign again")
        message = _pre_authentication(PAYLOAD_TYPE, payload)
        if not any(_is_valid(self._keys[name], signature, message) for name, signature in known.items()):
            raise Reject(f"the signature of the key {', '.join(sorted(known))} is invalid")
        source = attributes.get("ce_source", b"")
        if not source.startswith(self._source):
            raise Reject(
                f"signed for another fabric: {source[:200].decode(errors='replace')} is not {self._source.decode()}"
            )
        if arrived_ns > _expiry_ns(attributes):
            raise Reject("the signature had expired when the record arrived")


def _expiry_ns(attributes: Mapping[str, bytes]) -> int:
    try:
        return round(datetime.fromisoformat(attributes.get("ce_expirytime", b"").decode()).timestamp() * 1e9)
    except (ValueError, OverflowError) as error:
        raise Reject("the signature has no expiry") from error


def _attributes(headers: Headers) -> dict[str, bytes]:
    """Return the headers by name; refuses a repeated name, which is ambiguous."""
    attributes: dict[str, bytes] = {}
    for name, value in headers:
        if name in attributes:
            raise Reject(f"the header {name} is repeated")
        attributes[name] = value
    return attributes


def _open(attributes: Mapping[str, bytes]) -> tuple[bytes, Mapping[str, bytes]]:
    """Return the payload of the envelope, and its signatures by the ids of their keys."""
    if not (material := attributes.get(HEADER)):
        raise Reject("not signed")
    try:
        envelope = orjson.loads(base64.b64decode(material, validate=True))
        payload_type = envelope["payloadType"]
        payload = base64.b64decode(envelope["payload"], validate=True)
        signatures = {
            str(one.get("keyid", ""))[:64]: base64.b64decode(one["sig"], validate=True)
            for one in envelope["signatures"][:_MAX_SIGNATURES]
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Reject("the signature cannot be read") from error
    if payload_type != PAYLOAD_TYPE:
        raise Reject(f"signature of another type: {str(payload_type)[:80]}")
    return payload, signatures


def _digest(attributes: Mapping[str, bytes], data: bytes) -> bytes:
    parts = [*(attributes.get(name, b"") for name in _SIGNED), data]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()


def _pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that DSSE signs (its PAE); the lengths make the boundary of type and payload unambiguous."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def _key_in(topic: Topic, value: bytes) -> bytes:
    try:
        data = orjson.loads(value)
        for name in _KEY_FIELDS[topic.name]:
            data = data[name]
        return str(data).encode()
    except (ValueError, KeyError, TypeError) as error:
        raise Reject(f"{topic.name}: the data have no id") from error


def _is_valid(key: Ed25519PublicKey, signature: bytes, message: bytes) -> bool:
    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True
