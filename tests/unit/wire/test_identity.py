"""Tests the MACs of telemetry: which records a principal's key makes valid, and the reason of each refusal."""

import hmac
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from streams.runtime.bindings import BINDINGS
from streams.runtime.ordered_input import Chunk
from streams.wire.errors import Misconfigured
from streams.wire.identity import (
    DECIDE,
    HEADER,
    MacSigner,
    MacVerifier,
    Secret,
    Unauthenticated,
    new_secret,
    read_keys,
    read_secrets,
)
from streams.wire.models import CollectorStatus, Event, EventKind, InputLoss, Message, Progress, Rejected, Source
from streams.wire.topics import (
    COLLECTOR_STATUS,
    EVENTS,
    INPUT_LOSSES,
    REJECTED,
    SAMPLES,
    SYMPTOMS,
    Record,
    Topic,
    decode,
    encode,
)
from tests.fakes.stages import CountingStage
from tests.fixtures.runtime_bindings import CountedMetrics, FakeRecord, FixedClock, make_processor

SECRET, FORMER, OTHER = (Secret(bytes([n]) * 32) for n in (1, 2, 3))


def event(device: str = "gpu-17", number: int = 1) -> Record:
    return encode(EVENTS, Event(device, "p0", EventKind.LINK_DOWN, 5, 6, Source.SOURCE_HOST, "host@x", 1, number))


def status(device: str) -> Record:
    return encode(COLLECTOR_STATUS, CollectorStatus("c", 1, Source.SOURCE_PROBE, device, 5, True, "", 0, 0, 10))


def signed(record: Record, *principals: str, secret: Secret = SECRET) -> Record:
    header = MacSigner([secret.key_of(name) for name in principals or ["host/gpu-17"]]).header(record)
    return record if header is None else replace(record, headers=(*record.headers, header))


def with_mac(record: Record, change: Callable[[bytes], bytes]) -> Record:
    return replace(record, headers=tuple((n, change(data) if n == HEADER else data) for n, data in record.headers))


@dataclass
class Verified:
    """A verifier by the secrets of a file, and the refusals that it reports."""

    path: Path
    mode: str = "require"

    def __post_init__(self) -> None:
        self.verifier = MacVerifier(self.path, is_required=self.mode == "require")
        self.reasons: list[str] = []

    def decode(self, record: Record, topic: Topic | None = None) -> Message:
        read = FakeRecord(7, record.value, record.headers, record.key)
        return self.verifier.decode(topic or record.topic, read, lambda _topic, _offset, why: self.reasons.append(why))


@pytest.fixture
def verified(tmp_path: Path) -> Verified:
    return Verified(secrets_at(tmp_path / "secrets", SECRET))


def secrets_at(path: Path, *secrets: Secret) -> Path:
    path.write_text("".join(f"{one.value.hex()}\n" for one in secrets))
    return path


@pytest.mark.parametrize(
    ("principal", "record"),
    [
        ("host/gpu-17", event()),
        ("host/gpu-17", status("gpu-17")),
        ("prober/gpu-17", status("gpu-17")),
        ("collector/leaf*,spine[12]", event("spine2")),
        ("bridge/*", event("anything at all")),
        (DECIDE, event("leaf1")),
    ],
)
def test_a_principal_reports_on_its_own_devices(verified: Verified, principal: str, record: Record) -> None:
    """The message is the one that was sent, and nothing is refused; the second record uses the same key."""
    for one in (signed(record, principal), signed(record, principal)):
        assert verified.decode(one) == decode(record.topic, record.value)
    assert verified.reasons == []


REFUSED = {
    "no header": (event(), "no MAC"),
    "truncated": (with_mac(signed(event()), lambda mac: mac[:30]), "truncated MAC: the header has 30 bytes"),
    "truncated tag": (with_mac(signed(event()), lambda mac: mac[4:]), "not KIND/DEVICE|another record"),
    "empty": (with_mac(signed(event()), lambda _: b""), "truncated MAC"),
    "of another record": (
        replace(event(), headers=signed(event(number=2)).headers),
        "the MAC by host/gpu-17 is of another record or by another key",
    ),
    "of another key of the record": (replace(signed(event()), key=b"leaf1"), "is of another record"),
    "of another topic": (replace(signed(event()), topic=SAMPLES), "is of another record"),
    "of another type": (replace(signed(event()), headers=(*signed(event()).headers, ("type", b"x"))), "another record"),
    "two headers": (signed(signed(event())), "two MACs"),
    "a tombstone": (replace(signed(event()), value=None), "a tombstone has no MAC"),
    "unknown secret": (signed(event(), secret=OTHER), "unknown secret .*; issue the key again with `railsight key iss"),
    "principal's name changed": (
        with_mac(signed(event("leaf1x"), "host/leaf1x"), lambda mac: mac[:-1]), "host/leaf1 is of another record"
    ),
    "no principal": (with_mac(signed(event()), lambda mac: mac[:38] + b"root/x"), "principal root/x: not KIND/DEVICE"),
    "no text": (with_mac(signed(event()), lambda mac: mac[:38] + b"\xff\x1b[2J"), "not KIND/DEVICE"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_by_name(verified: Verified, name: str) -> None:
    """Also after a valid record of the same principal, whose keys are then known."""
    record, reason = REFUSED[name]
    for _ in range(2):
        with pytest.raises(Unauthenticated, match=reason):
            verified.decode(record)
        verified.decode(signed(event()))
    assert len(verified.reasons) == 2


@pytest.mark.parametrize(
    ("principal", "record", "reason"),
    [
        ("host/gpu-17", event("leaf1"), "host/gpu-17 may not report on leaf1 in railsight.events.v1"),
        ("collector/leaf*", event("gpu-17"), "collector/leaf* may not report on gpu-17 in railsight.events.v1"),
        ("prober/gpu-17", event(), "prober/gpu-17 may not report on gpu-17 in railsight.events.v1"),
        (DECIDE, status("leaf1"), "decide/* may not report on leaf1 in railsight.collector-status.v1"),
        (
            "collector/*",
            encode(SAMPLES, Progress("play", 0, 1, 5), key="x"),
            "collector/* may not send Progress, which has no device, in railsight.samples.v1",
        ),
    ],
)
def test_a_key_is_for_its_own_devices_and_topics(
    verified: Verified, principal: str, record: Record, reason: str
) -> None:
    """A MAC by its key makes no other record valid."""
    with pytest.raises(Unauthenticated) as error:
        verified.decode(forged(record, SECRET, principal))
    assert str(error.value) == reason and verified.reasons == [reason]


def forged(record: Record, secret: Secret, principal: str) -> Record:
    """Return a record with a MAC by the format of docs/security.md, whatever its principal may write."""
    key = hmac.digest(secret.value, b"railsight principal\0" + principal.encode(), "sha256")
    run, counter = b"r" * 12, (1).to_bytes(6, "big")
    cipher = AESGCM(hmac.digest(key, b"railsight run\0" + run, "sha256"))
    kind = dict(record.headers).get("type", b"")
    covered = b"\0".join((record.topic.name.encode(), kind, record.key))
    tag = cipher.encrypt(bytes(6) + counter, covered, record.value)[-16:]
    number = hmac.digest(secret.value, b"railsight secret id", "sha256")[:4]
    return replace(record, headers=(*record.headers, (HEADER, tag + counter + number + run + principal.encode())))


def test_without_require_a_refusal_is_only_reported(tmp_path: Path) -> None:
    """The mode `observe`: the message passes, whatever its MAC."""
    verified = Verified(secrets_at(tmp_path / "secrets", SECRET), "observe")
    records = [event(), signed(event(), secret=OTHER), forged(event("leaf1"), SECRET, "host/gpu-17"), signed(event())]
    assert [verified.decode(one) for one in records] == [decode(EVENTS, one.value) for one in records]
    assert len(verified.reasons) == 3


def test_a_secret_is_rotated_without_a_refusal(tmp_path: Path) -> None:
    """The verifiers get the second secret first, then the hosts new keys, and then the former secret is removed."""
    path = secrets_at(tmp_path / "secrets", FORMER)
    verified = Verified(path)
    verified.decode(signed(event(), secret=FORMER))
    secrets_at(path, SECRET, FORMER)
    os.utime(path, ns=(1, 1))
    for secret in (FORMER, SECRET, FORMER):
        verified.decode(signed(event(), secret=secret))
    path.write_text("no secret\n")  # a file that is being written
    os.utime(path, ns=(2, 2))
    with pytest.raises(Unauthenticated, match="unknown secret"):
        verified.decode(signed(event(), secret=OTHER))
    verified.decode(signed(event()))
    secrets_at(path, SECRET)
    with pytest.raises(Unauthenticated, match=f"unknown secret {FORMER.id.hex()}"):
        Verified(path).decode(signed(event(), secret=FORMER))


def test_every_process_and_record_has_a_mac_of_its_own() -> None:
    """A repeated nonce would reveal the key of GMAC."""
    key = SECRET.key_of("host/gpu-17")
    signers = [MacSigner([key]) for _ in range(2)]
    macs = {signer.header(event()) for signer in signers for _ in range(3)}
    assert len(macs) == 6
    assert len({mac[1][:16] for mac in macs if mac is not None}) == 6


@pytest.mark.parametrize(
    "name",
    [
        "host/",
        "host/a*",
        "host/a,b",
        "prober/[a]",
        "root/a",
        "collector/a b",
        "collector/a,,b",
        "collector/\u00e4",
        "gpu-17",
    ],
)
def test_a_name_that_is_no_principal_gets_no_key(name: str) -> None:
    """A host with a pattern could report on other devices."""
    with pytest.raises(Misconfigured, match=r"not KIND/DEVICE|is one device"):
        SECRET.key_of(name)


def test_keys_and_secrets_are_read_from_files(tmp_path: Path) -> None:
    """A file may have comments; a wrong line is named, and never shown, because it may be secret."""
    keys = [SECRET.key_of("host/gpu-17"), FORMER.key_of("collector/leaf*")]
    path = tmp_path / "keys"
    path.write_text("# keys\n\n" + "".join(f"{key.line}\n" for key in keys))
    assert read_keys(path) == tuple(keys)
    assert read_secrets(secrets_at(path, SECRET, FORMER)) == (SECRET, FORMER)
    assert new_secret() != new_secret()
    for read, text, expected in (
        (read_keys, "host/gpu-17 01020304 secret", "keys:1: not 64 hexadecimal digits"),
        (read_keys, "host/gpu-17 hunter2", "keys:1: not a key; make one with"),
        (read_keys, "", "no key"),
        (read_secrets, "", "0 secrets; it needs one"),
        (read_secrets, "hunter2", "keys:1: not 64 hexadecimal digits"),
        (read_secrets, f"{'0' * 64}\n" * 3, "3 secrets"),
    ):
        path.write_text(text)
        with pytest.raises(Misconfigured, match=expected) as error:
            read(path)
        assert "hunter2" not in str(error.value)
    with pytest.raises(Misconfigured, match="cannot read"):
        read_secrets(tmp_path / "absent")
    assert "01" * 8 not in repr(SECRET) + repr(keys[0])


@pytest.mark.parametrize(("mode", "passed"), [("require", 1), ("observe", 5)])
def test_measure_reports_refusals_that_go_on(tmp_path: Path, mode: str, passed: int) -> None:
    """Each refused record is rejected by name and counted; after a minute the loss of the input names the last."""
    verifier = Verified(secrets_at(tmp_path / "secrets", SECRET), mode).verifier
    clock, stage, metrics = FixedClock(), CountingStage(SYMPTOMS), CountedMetrics()
    processor = make_processor(BINDINGS["measure"], lambda _: stage, clock=clock, metrics=metrics, verifier=verifier)
    inputs = [topic.name for topic in BINDINGS["measure"].inputs]
    processor.begin(1, (), dict.fromkeys(inputs, 0), dict.fromkeys(inputs, 9))
    sent = [signed(event())] + [forged(event("leaf1", n), SECRET, "host/gpu-17") for n in range(4)]
    outputs: list[Record] = []
    for offset, record in enumerate(sent):
        read = FakeRecord(offset, record.value, record.headers, record.key, clock.now_ns() // 10**6)
        outputs += processor.on_chunk(Chunk(EVENTS.name, 0, offset, offset + 1, [read], 9))
        clock.ns += 25 * 10**9
    reason = "host/gpu-17 may not report on leaf1 in railsight.events.v1"
    rejected = [m for m in messages(outputs, REJECTED) if isinstance(m, Rejected)]
    assert [(one.offset, one.reason) for one in rejected] == ([(n, reason) for n in range(1, 5)] if passed == 1 else [])
    losses = [m for m in messages(outputs, INPUT_LOSSES) if isinstance(m, InputLoss)]
    assert [(m.consumer, m.first_offset, m.records, m.refused) for m in losses] == [("measure", 1, 4, reason)]
    assert metrics.counts["railsight_unauthenticated_total"] == 4
    assert metrics.counts.get("railsight_rejected_total", 0) == 5 - passed


def messages(outputs: Sequence[Record], topic: Topic) -> list[Message]:
    return [decode(topic, one.value, one.headers) for one in outputs if one.topic is topic]
