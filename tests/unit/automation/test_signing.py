"""Tests the signatures of results."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from railsight_automation.errors import Misconfigured
from railsight_automation.signing import Verifier, load_signer

from streams.wire.errors import Reject
from streams.wire.signatures import SignatureVerifier, Signer, load_private_key, new_private_key, public_text
from streams.wire.topics import REMEDIATION_RESULTS, REMEDIATIONS, encode
from tests.fixtures.automation import ACTOR, NOW_NS
from tests.fixtures.wire_examples import REMEDIATION

_NO_PASSWORD = serialization.NoEncryption()
_PEM, _PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8


def test_a_signature_is_of_the_attributes_and_the_data(tmp_path: Path) -> None:
    """DSSE signs the lengths of type and payload; the payload is the digest of the digests of all parts."""
    key = Ed25519PrivateKey.generate()
    path = tmp_path / "netbot.pem"
    path.write_bytes(key.private_bytes(_PEM, _PKCS8, _NO_PASSWORD))
    headers = dict(load_signer(path, "east", ACTOR).headers("r1", b"{}", NOW_NS))
    assert headers["ce_type"] == b"railsight.remediation-result.v1" and headers["ce_subject"] == b"r1"
    assert headers["ce_id"] == b"r1/%d" % NOW_NS and headers["ce_source"] == b"/railsight/east/automation/netbot"
    envelope = json.loads(base64.b64decode(headers["ce_dssematerial"]))
    names = ["ce_id", "ce_source", "ce_specversion", "ce_type", "content-type", "", "ce_subject", "ce_time"]
    names.append("ce_expirytime")
    digests = [hashlib.sha256(part).digest() for part in (*(headers.get(name, b"") for name in names), b"{}")]
    payload = hashlib.sha256(b"".join(digests)).digest()
    assert base64.b64decode(envelope["payload"]) == payload
    kind = envelope["payloadType"].encode()
    signature = base64.b64decode(envelope["signatures"][0]["sig"])
    key.public_key().verify(signature, b"DSSEv1 %d %s 32 %s" % (len(kind), kind, payload))
    with pytest.raises(InvalidSignature):
        key.public_key().verify(signature, payload)


def test_a_wrong_key_is_one_line(tmp_path: Path) -> None:
    """A missing file, and a file without a key."""
    path = tmp_path / "netbot.pem"
    with pytest.raises(Misconfigured, match=r"signing_key: .*netbot\.pem"):
        load_signer(path, "east", ACTOR)
    path.write_text("no key")
    with pytest.raises(Misconfigured, match=r"signing_key: .*netbot\.pem"):
        load_signer(path, "east", ACTOR)


def test_the_pipeline_accepts_a_signed_result(tmp_path: Path) -> None:
    """The signer and the verifier have no code in common, and agree."""
    pem = new_private_key()
    path = tmp_path / "netbot.pem"
    path.write_bytes(pem)
    value = b'{"remediationId":"r1","outcome":"DONE"}'
    headers = load_signer(path, "east", ACTOR).headers("r1", value, NOW_NS)
    verifier = SignatureVerifier([public_text(load_private_key(pem, "netbot.pem"))], "east")
    verifier.verify(REMEDIATION_RESULTS, b"r1", value, headers, NOW_NS)
    with pytest.raises(Reject, match="the key of the record"):
        verifier.verify(REMEDIATION_RESULTS, b"r2", value, headers, NOW_NS)


SIGNED = {
    "signed": ({}, {}, ""),
    "unsigned": ({"headers": []}, {}, "not signed"),
    "another fabric": ({}, {"fabric": "west"}, "another fabric than west"),
    "appended again": ({"arrived_ns": NOW_NS + 10**12}, {}, "expired"),
    "other content": ({"value": b'{"target": {"id": "link:x"}, "state": "APPROVED"}'}, {}, "other content"),
    "another key of the record": ({"key": b"link:y"}, {}, "another topic or key"),
    "another signer": ({}, {"trusted": [public_text(load_private_key(new_private_key(), "other"))]}, "no trusted key"),
    "no keys configured": ({"headers": []}, {"trusted": []}, ""),
}


@pytest.mark.parametrize(("changes", "settings", "problem"), SIGNED.values(), ids=SIGNED)
def test_the_automation_accepts_what_decide_signed_for_its_fabric(
    changes: dict[str, Any], settings: dict[str, Any], problem: str
) -> None:
    """A remediation that anyone else wrote to the topic, or that was valid before, is no order."""
    key = load_private_key(new_private_key(), "decide.pem")
    record = Signer(key, "east", "decide").sign(encode(REMEDIATIONS, REMEDIATION), NOW_NS)
    verifier = Verifier(**({"trusted": [public_text(key)], "fabric": "east"} | settings))
    read = {"key": record.key, "value": record.value, "headers": record.headers, "arrived_ns": NOW_NS} | changes
    found = verifier.problem(**read)
    assert problem in found and bool(problem) == bool(found)
