"""Tests the keys of a collector's MACs: which records get one, and how a changed file is read."""

import os
from pathlib import Path

import pytest

from collectors.core.signing_keys import SigningKeys
from streams.wire.errors import Misconfigured
from streams.wire.identity import Secret
from streams.wire.models import Event, EventKind, Job, Source
from streams.wire.topics import EVENTS, JOBS, Record, encode

SECRETS = [Secret(bytes([n]) * 32) for n in (1, 2)]


def keys_at(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    os.utime(path, ns=(len(lines), hash(lines) % 10**9))
    return path


def event(device: str) -> Record:
    return encode(EVENTS, Event(device, "", EventKind.LOG, 1, 1, Source.SOURCE_HOST, "c"))


def suffixes(keys: SigningKeys, *records: Record) -> list[bytes | None]:
    """Return the secret and the principal of each header."""
    headers = [keys.signer.header(record) for record in records]
    return [None if header is None else header[1][22:26] + header[1][38:] for header in headers]


def test_the_first_key_that_is_for_the_device_signs(tmp_path: Path) -> None:
    """Other topics and other devices get no MAC."""
    lines = [SECRETS[0].key_of(name).line for name in ("host/h1", "collector/leaf*", "collector/leaf1")]
    keys = SigningKeys(keys_at(tmp_path / "keys", *lines))
    job = encode(JOBS, Job("j", "h1", 1, 2))
    number = SECRETS[0].id
    assert suffixes(keys, event("h1"), event("leaf1"), event("h2"), job) == [
        number + b"host/h1", number + b"collector/leaf*", None, None,
    ]  # fmt: skip


def test_a_changed_file_is_read_and_a_wrong_one_changes_nothing(tmp_path: Path) -> None:
    """A new key needs no restart; a file that is not complete, or absent, leaves the former keys."""
    lines = [secret.key_of("host/h1").line for secret in SECRETS]
    path = keys_at(tmp_path / "keys", lines[0])
    keys = SigningKeys(path)
    for line, expected in ((lines[1], SECRETS[1]), ("host/h1", SECRETS[1]), (lines[0], SECRETS[0])):
        keys_at(path, line)
        keys.reload()
        assert suffixes(keys, event("h1")) == [expected.id + b"host/h1"]
    path.unlink()
    keys.reload()
    assert suffixes(keys, event("h1")) == [SECRETS[0].id + b"host/h1"]
    with pytest.raises(Misconfigured, match="cannot read"):
        SigningKeys(path)
