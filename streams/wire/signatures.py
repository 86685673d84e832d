"""Signs and verifies records with Ed25519: CloudEvents 1.0 in binary mode with the extension `dssematerial`.

The header `ce_dssematerial` is a DSSE 1.0.2 envelope over one digest of id, source, specversion, type, content type,
schema, subject, time and data. Kafka's key and topic are not covered: the type is bound to the topic here, and the key
must equal the id in the data. `keyid` is only a hint, so every trusted key is tried.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from streams.wire.errors import Misconfigured, Reject
from streams.wire.topics import CONTROLS, REMEDIATION_RESULTS, Headers, Record, Topic

PAYLOAD_TYPE = "https://cloudevents.io/verifiability/dsse/v0.1"
HEADER = "ce_dssematerial"
CE_TYPES = {CONTROLS.name: "railsight.control.v1", REMEDIATION_RESULTS.name: "railsight.remediation-result.v1"}
"""Topic -> the type of its events; a record signed for one topic is invalid in the other."""

_KEY_FIELDS = {CONTROLS.name: "id", REMEDIATION_RESULTS.name: "remediationId"}
_SIGNED = ("ce_id", "ce_source", "ce_specversion", "ce_type", "content-type", "ce_dataschema", "ce_subject", "ce_time")
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


def sign(record: Record, key: Ed25519PrivateKey, *, source: str, at_ns: int, time: str) -> Record:
    """Return the record with CloudEvent attributes and their signature; the id contains the time in ns."""
    assert record.value is not None, "a tombstone cannot be signed"
    headers = {
        "ce_specversion": "1.0",
        "ce_type": CE_TYPES[record.topic.name],
        "ce_id": f"{record.key.decode()}/{at_ns}",
        "ce_source": source,
        "ce_subject": record.key.decode(),
        "ce_time": time,
        "content-type": "application/json",
    }
    payload = _digest({name: value.encode() for name, value in headers.items()}, record.value)
    signature = key.sign(_pre_authentication(PAYLOAD_TYPE, payload))
    envelope = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": key_id(public_text(key)), "sig": base64.b64encode(signature).decode()}],
    }
    headers[HEADER] = base64.b64encode(orjson.dumps(envelope)).decode()
    return replace(record, headers=tuple((name, value.encode()) for name, value in headers.items()))


def key_id(public: str) -> str:
    """Return the name of a public key for people: 16 digits of the SHA-256 of its text."""
    return hashlib.sha256(public.encode()).hexdigest()[:16]


class SignatureVerifier:
    """Accepts only controls and results with the signature of a trusted key; other topics are not signed."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self._keys = tuple(parse_public_key(text) for text in trusted)

    def verify(self, topic: Topic, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Raise Reject on a record without a valid signature for its topic and key."""
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
        message = _pre_authentication(PAYLOAD_TYPE, payload)
        if not any(_is_valid(trusted, signature, message) for signature in signatures for trusted in self._keys):
            raise Reject("signed by no trusted key")


def _attributes(headers: Headers) -> dict[str, bytes]:
    """Return the headers by name; refuses a repeated name, which is ambiguous."""
    attributes: dict[str, bytes] = {}
    for name, value in headers:
        if name in attributes:
            raise Reject(f"the header {name} is repeated")
        attributes[name] = value
    return attributes


def _open(attributes: Mapping[str, bytes]) -> tuple[bytes, Sequence[bytes]]:
    """Return the payload and the signatures of the envelope."""
    if not (material := attributes.get(HEADER)):
        raise Reject("not signed")
    try:
        envelope = orjson.loads(base64.b64decode(material, validate=True))
        payload_type = envelope["payloadType"]
        payload = base64.b64decode(envelope["payload"], validate=True)
        signatures = [base64.b64decode(one["sig"], validate=True) for one in envelope["signatures"][:_MAX_SIGNATURES]]
    except (ValueError, KeyError, TypeError) as error:
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
        return str(data[_KEY_FIELDS[topic.name]]).encode()
    except (ValueError, KeyError, TypeError) as error:
        raise Reject(f"{topic.name}: the data have no id") from error


def _is_valid(key: Ed25519PublicKey, signature: bytes, message: bytes) -> bool:
    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True
