"""Tests that only records signed by a trusted key, for their topic and key, are accepted."""

import base64
from collections.abc import Callable
from dataclasses import replace

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from streams.wire.errors import Misconfigured, Reject
from streams.wire.models import Control, ControlKind, Outcome, RemediationResult
from streams.wire.signatures import (
    HEADER,
    VALID_NS,
    SignatureVerifier,
    Signer,
    key_id,
    load_private_key,
    new_private_key,
    parse_public_key,
    public_text,
)
from streams.wire.topics import CONTROLS, FINDINGS, REMEDIATION_RESULTS, REMEDIATIONS, Record, encode
from tests.fixtures.wire_examples import REMEDIATION

KEY, OTHER = (load_private_key(new_private_key(), "test") for _ in range(2))
CONTROL = Control("kill-switch", ControlKind.KILL_SWITCH, at_ns=5, actor="anna")
RESULT = RemediationResult("r1", Outcome.DONE, 5, "netbot")


NOW = 1_790_000_000_123_456_789


def signed(record: Record, key: Ed25519PrivateKey = KEY, fabric: str = "east") -> Record:
    return Signer(key, fabric, "actor/anna").sign(record, NOW)


def verify(record: Record, *trusted: str, arrived_ns: int = NOW) -> None:
    verifier = SignatureVerifier(trusted or (public_text(OTHER), public_text(KEY)), "east")
    verifier.verify(record.topic, record.key, record.value, record.headers, arrived_ns)


@pytest.mark.parametrize(
    "record", [encode(CONTROLS, CONTROL), encode(REMEDIATION_RESULTS, RESULT), encode(REMEDIATIONS, REMEDIATION)]
)
def test_a_signed_record_is_accepted(record: Record) -> None:
    """Any of the trusted keys suffices; the value is unchanged, so that other readers need no key."""
    assert signed(record).value == record.value
    verify(signed(record))


def with_header(name: str, value: bytes) -> Callable[[Record], Record]:
    return lambda record: replace(record, headers=tuple((n, value if n == name else v) for n, v in record.headers))


def with_envelope(**changes: object) -> Callable[[Record], Record]:
    def change(record: Record) -> Record:
        envelope = orjson.loads(base64.b64decode(dict(record.headers)[HEADER])) | changes
        return with_header(HEADER, base64.b64encode(orjson.dumps(envelope)))(record)

    return change


KEY_ID = key_id(public_text(KEY))
FORGED: dict[str, tuple[Callable[[Record], Record], str]] = {
    "unsigned": (lambda record: replace(record, headers=()), "not signed"),
    "other content": (lambda record: replace(record, value=(record.value or b"").replace(b"anna", b"eve_")), "content"),
    "other time": (with_header("ce_time", b"2030-01-01T00:00:00Z"), "other content"),
    "other source": (with_header("ce_source", b"/railsight/east/actor/eve"), "other content"),
    "other expiry": (with_header("ce_expirytime", b"2030-01-01T00:00:00Z"), "other content"),
    "other key of the record": (lambda record: replace(record, key=b"other"), "not the signed id"),
    "tombstone": (lambda record: replace(record, value=None), "tombstone"),
    "no base64": (with_header(HEADER, b"%%%"), "cannot be read"),
    "no envelope": (with_header(HEADER, base64.b64encode(b"[]")), "cannot be read"),
    "no signature": (with_envelope(signatures=[]), "no trusted key"),
    "invalid signature": (
        with_envelope(signatures=[{"keyid": KEY_ID, "sig": base64.b64encode(b"x" * 64).decode()}]),
        "is invalid",
    ),
    "short signature": (with_envelope(signatures=[{"keyid": KEY_ID, "sig": "eA=="}]), "is invalid"),
    "signature of no object": (with_envelope(signatures=["x"]), "cannot be read"),
    "signature without an id": (with_envelope(signatures=[{"sig": "eA=="}]), "no trusted key"),
    "another type": (with_envelope(payloadType="text/plain"), "another type"),
    "repeated header": (
        lambda record: replace(record, headers=(*record.headers, ("ce_time", b"2026-03-01T00:00:00Z"))),
        "repeated",
    ),
    "other topic": (lambda record: replace(record, topic=REMEDIATION_RESULTS), "another topic"),
}


@pytest.mark.parametrize(("forge", "reason"), FORGED.values(), ids=FORGED)
def test_a_forged_record_is_rejected(forge: Callable[[Record], Record], reason: str) -> None:
    """Every part that the signature covers, and the key and topic, which are bound by their content."""
    with pytest.raises(Reject, match=reason):
        verify(forge(signed(encode(CONTROLS, CONTROL))))


def test_a_key_that_is_not_trusted_is_rejected() -> None:
    """A valid signature alone proves nothing."""
    with pytest.raises(Reject, match="signed by no trusted key"):
        verify(signed(encode(CONTROLS, CONTROL)), public_text(OTHER))


def test_a_signature_holds_in_one_fabric_and_for_minutes() -> None:
    """A control of fabric A has no effect in fabric B, and none if it is appended again later."""
    record = encode(CONTROLS, CONTROL)
    with pytest.raises(Reject, match="signed for another fabric: /railsight/west/actor/anna is not /railsight/east/"):
        verify(signed(record, fabric="west"))
    verify(signed(record), arrived_ns=NOW + VALID_NS - 10**6)
    with pytest.raises(Reject, match="expired"):
        verify(signed(record), arrived_ns=NOW + VALID_NS + 10**6)


def test_a_rejection_names_the_keys_of_the_record() -> None:
    """The person who rotates keys finds the one that is missing."""
    with pytest.raises(Reject, match=f"key ids: {KEY_ID}"):
        verify(signed(encode(CONTROLS, CONTROL)), public_text(OTHER))


def test_a_signed_remediation_retains_its_id() -> None:
    """The id of the event is that of the revision; its source is the fabric and `decide`."""
    record = Signer(KEY, "east", "decide").sign(encode(REMEDIATIONS, REMEDIATION, cluster="east"), NOW)
    headers = dict(record.headers)
    assert headers["ce_id"] == f"{REMEDIATION.id}/{REMEDIATION.revision}".encode()
    assert headers["ce_source"] == b"/railsight/east/decide"


def test_other_topics_need_no_signature() -> None:
    """They come from the pipeline itself."""
    verify(Record(FINDINGS, b"x", b"{}"))


@pytest.mark.parametrize("text", ["", "x", base64.b64encode(b"short").decode()])
def test_a_text_that_is_no_public_key_is_refused(text: str) -> None:
    """The error has the value."""
    with pytest.raises(ValueError, match="not the Base64 of an Ed25519 public key"):
        parse_public_key(text)


def test_a_file_that_is_no_private_key_is_refused() -> None:
    """The error names the file."""
    with pytest.raises(Misconfigured, match=r"my\.pem: not a private key in PEM"):
        load_private_key(b"hello", "my.pem")
