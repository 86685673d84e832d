"""Tests that only records signed by a trusted key, for their topic and key, are accepted."""

import base64
from collections.abc import Callable
from dataclasses import replace

import orjson
import pytest

from streams.wire.errors import Misconfigured, Reject
from streams.wire.models import Control, ControlKind, Outcome, RemediationResult
from streams.wire.signatures import (
    HEADER,
    SignatureVerifier,
    load_private_key,
    new_private_key,
    parse_public_key,
    public_text,
    sign,
)
from streams.wire.topics import CONTROLS, FINDINGS, REMEDIATION_RESULTS, Record, encode

KEY, OTHER = (load_private_key(new_private_key(), "test") for _ in range(2))
CONTROL = Control("kill-switch", ControlKind.KILL_SWITCH, at_ns=5, actor="anna")
RESULT = RemediationResult("r1", Outcome.DONE, 5, "netbot")


def signed(record: Record, key: object = KEY) -> Record:
    return sign(record, key, source="/railsight/actor/anna", at_ns=5, time="2026-03-01T00:00:00Z")  # type: ignore[arg-type]


def verify(record: Record, *trusted: str) -> None:
    verifier = SignatureVerifier(trusted or (public_text(OTHER), public_text(KEY)))
    verifier.verify(record.topic, record.key, record.value, record.headers)


@pytest.mark.parametrize("record", [encode(CONTROLS, CONTROL), encode(REMEDIATION_RESULTS, RESULT)])
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


FORGED: dict[str, tuple[Callable[[Record], Record], str]] = {
    "unsigned": (lambda record: replace(record, headers=()), "not signed"),
    "other content": (lambda record: replace(record, value=(record.value or b"").replace(b"anna", b"eve_")), "content"),
    "other time": (with_header("ce_time", b"2030-01-01T00:00:00Z"), "other content"),
    "other source": (with_header("ce_source", b"/railsight/actor/eve"), "other content"),
    "other key of the record": (lambda record: replace(record, key=b"other"), "not the signed id"),
    "tombstone": (lambda record: replace(record, value=None), "tombstone"),
    "no base64": (with_header(HEADER, b"%%%"), "cannot be read"),
    "no envelope": (with_header(HEADER, base64.b64encode(b"[]")), "cannot be read"),
    "no signature": (with_envelope(signatures=[]), "no trusted key"),
    "invalid signature": (with_envelope(signatures=[{"sig": base64.b64encode(b"x" * 64).decode()}]), "no trusted key"),
    "short signature": (with_envelope(signatures=[{"sig": "eA=="}]), "no trusted key"),
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


def test_a_key_id_is_only_a_hint() -> None:
    """A wrong one changes nothing, because it is not signed."""
    record = signed(encode(CONTROLS, CONTROL))
    envelope = orjson.loads(base64.b64decode(dict(record.headers)[HEADER]))
    verify(with_envelope(signatures=[envelope["signatures"][0] | {"keyid": "x"}])(record))


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
