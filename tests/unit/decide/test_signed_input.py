"""Tests that a worker with trusted keys rejects unsigned and forged controls and results, and counts them."""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError

from streams.decide.params import DecideParams
from streams.decide.stage import Decide
from streams.runtime.bindings import BINDINGS
from streams.runtime.ordered_input import Chunk
from streams.wire.models import Control, ControlKind, Outcome, Rejected, RemediationResult
from streams.wire.signatures import Signer, key_id, load_private_key, new_private_key, public_text
from streams.wire.topics import CONTROLS, REJECTED, REMEDIATION_RESULTS, Record, decode, encode
from tests.fixtures.runtime_bindings import FakeRecord, started_processor

KEY, OTHER = (load_private_key(new_private_key(), "test") for _ in range(2))
CONTROL = encode(CONTROLS, Control("kill-switch", ControlKind.KILL_SWITCH, at_ns=5, actor="anna"))
RESULT = encode(REMEDIATION_RESULTS, RemediationResult("r1", Outcome.DONE, 5, "netbot"))


def signed(record: Record, key: Ed25519PrivateKey = KEY) -> Record:
    return Signer(key, "local", "actor/anna").sign(record, 5)


def rejected_reasons(record: Record, *trusted: str) -> list[str]:
    """Return the reasons of the rejected records after one record was read."""
    processor = started_processor(
        BINDINGS["decide"], lambda _: Decide(DecideParams(mode="act", trusted_keys=trusted)), end=1
    )
    processor.recover({}, {})
    read = FakeRecord(0, record.value, record.headers, record.key, 0)
    outputs = processor.on_chunk(Chunk(record.topic.name, 0, 0, 1, [read], 1))
    found = [decode(REJECTED, one.value, one.headers) for one in outputs if one.topic is REJECTED]
    return [one.reason for one in found if isinstance(one, Rejected)]


@pytest.mark.parametrize("record", [CONTROL, RESULT], ids=["control", "result"])
def test_a_worker_with_trusted_keys_accepts_only_signed_records(record: Record) -> None:
    """Unsigned, signed by another key, or changed after signing: each is rejected with its reason."""
    trusted = public_text(KEY)
    assert rejected_reasons(signed(record), trusted) == []
    assert rejected_reasons(record, trusted) == ["not signed"]
    assert rejected_reasons(signed(record, OTHER), trusted) == [
        f"signed by no trusted key (key ids: {key_id(public_text(OTHER))}); add it to the trusted keys, or sign again"
    ]
    changed = replace(signed(record), value=(record.value or b"").replace(b"a", b"b"))
    assert rejected_reasons(changed, trusted) == ["the signature is of other content"]


def test_without_trusted_keys_records_need_no_signature() -> None:
    """Signatures are optional; a signed record is accepted as well."""
    assert rejected_reasons(CONTROL) == rejected_reasons(signed(CONTROL)) == []


def test_a_wrong_trusted_key_is_refused() -> None:
    """The configuration is checked before anything starts."""
    with pytest.raises(ValidationError, match="not the Base64 of an Ed25519 public key: abc"):
        DecideParams(trusted_keys=("abc",))
