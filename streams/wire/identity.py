"""Authenticates telemetry: each record has a MAC by the key of its principal, in the header `mac`.

A principal's name is a kind and the devices that it may report on: `host/gpu-17`, `prober/gpu-17`,
`collector/leaf*,spine*`, `bridge/*`, `decide/*`. Its key is derived from a secret of the fabric and this name, so that
nothing is stored for each principal. A header is valid only for the topic, key, type and value of its record.

The MAC is GMAC: AES-256-GCM over the value as associated data. It takes 1.0 us for a message of 7.6 kB, where
HMAC-SHA-256 takes 5.8 us. GMAC forbids a repeated nonce, so each process derives a key from 12 random bytes and counts.
"""

import hmac
import logging
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hmac import compare_digest
from pathlib import Path
from typing import Protocol

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from streams.wire import topics
from streams.wire.errors import Misconfigured, Reject
from streams.wire.models import Message
from streams.wire.topics import COLLECTOR_STATUS, EVENTS, FACTS, PROBES, SAMPLES, TELEMETRY, Headers, Record, Topic

log = logging.getLogger(__name__)

HEADER = "mac"
SECRET_BYTES = 32
MAX_SECRETS = 2
"""The current secret and, during a rotation, the former one."""

_COLLECTED = frozenset({SAMPLES.name, EVENTS.name, FACTS.name, COLLECTOR_STATUS.name})
KINDS = {
    "host": _COLLECTED | {PROBES.name},
    "prober": frozenset({PROBES.name, COLLECTOR_STATUS.name}),
    "collector": _COLLECTED,
    "bridge": _COLLECTED,
    "decide": frozenset({EVENTS.name}),
}
"""The kinds of principals, and the topics that each may write."""
_PREFIXES = {topic.name: topic.name.encode() + b"\0\0" for topic in TELEMETRY}
"""The bytes before the key that the MAC of a record without a type covers."""
DECIDE = "decide/*"
"""The principal of the stage `decide`, which requests readings by events."""

_ONE_DEVICE = ("host", "prober")
_NAME = re.compile(rf"({'|'.join(KINDS)})/[!-+\--~]+(,[!-+\--~]+)*")
_MAX_NAME = 1024
_TAG, _COUNTER, _ID, _RUN = 16, 6, 4, 12
_ZEROS = bytes(12 - _COUNTER)
"""The first bytes of the nonce, which has 12."""
_SESSION = _TAG + _COUNTER
_PRINCIPAL = _SESSION + _ID + _RUN
_MAX_RUNS = 32_768
"""The most verified runs whose keys are retained, of 2.6 kB each; the largest fabric has 16,384 hosts."""
_MAX_DEVICES = 262_144
"""The most devices that are remembered over all runs and topics; the largest fabric has 21,504, in four topics."""
_SHOWN = 200


class Unauthenticated(Reject):
    """A record without a valid MAC of a principal that may report on its device."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret of the fabric, from which the keys of all principals are derived."""

    value: bytes = field(repr=False)

    @property
    def id(self) -> bytes:
        """The number of the secret in headers and key files: 4 bytes that do not reveal it."""
        return hmac.digest(self.value, b"railsight secret id", "sha256")[:_ID]

    def key_of(self, principal: str) -> "PrincipalKey":
        """Return the key of a principal; raises Misconfigured if the name is invalid."""
        if reason := invalid_name(principal):
            raise Misconfigured(f"principal {principal[:_SHOWN]}: {reason}")
        return PrincipalKey(principal, self.id, self._derive(principal.encode()))

    def _derive(self, principal: bytes) -> bytes:
        return hmac.digest(self.value, b"railsight principal\0" + principal, "sha256")


def new_secret() -> Secret:
    """Return a new secret."""
    return Secret(os.urandom(SECRET_BYTES))


@dataclass(frozen=True, slots=True)
class PrincipalKey:
    """The key of one principal; its text is a line of a key file."""

    principal: str
    secret_id: bytes
    value: bytes = field(repr=False)

    @property
    def line(self) -> str:
        """The key as a line of a key file."""
        return f"{self.principal} {self.secret_id.hex()} {self.value.hex()}"


def invalid_name(principal: str) -> str:
    """Return the reason why a text is no name of a principal; empty if it is one."""
    kind, _, devices = principal.partition("/")
    if len(principal) > _MAX_NAME or not _NAME.fullmatch(principal):
        return f"not KIND/DEVICE[,DEVICE...] with a kind of {', '.join(KINDS)}, in ASCII without blanks"
    if kind in _ONE_DEVICE and any(sign in devices for sign in "*?[,"):
        return f"a {kind} is one device, without a pattern"
    return ""


def read_secrets(path: Path) -> tuple[Secret, ...]:
    """Return the secrets of a file, the current one first; raises Misconfigured."""
    secrets = [_from_hex(line, f"{path}:{number}") for number, line in _lines(path)]
    if not 1 <= len(secrets) <= MAX_SECRETS:
        raise Misconfigured(
            f"{path}: {len(secrets)} secrets; it needs one, and during a rotation two: `railsight key secret {path}`"
        )
    return tuple(map(Secret, secrets))


def read_keys(path: Path) -> tuple[PrincipalKey, ...]:
    """Return the keys of a key file; raises Misconfigured."""
    keys = []
    for number, line in _lines(path):
        principal, *words = line.split()
        if len(words) != 2 or not re.fullmatch(r"[0-9a-f]{8}", words[0]) or invalid_name(principal):
            raise Misconfigured(f"{path}:{number}: not a key; make one with `railsight key issue PRINCIPAL`")
        keys.append(PrincipalKey(principal, bytes.fromhex(words[0]), _from_hex(words[1], f"{path}:{number}")))
    if not keys:
        raise Misconfigured(f"{path}: no key; make one with `railsight key issue PRINCIPAL`")
    return tuple(keys)


def _lines(path: Path) -> list[tuple[int, str]]:
    """Return the numbered lines of a file without blank lines and comments."""
    try:
        text = path.read_text("ascii")
    except (OSError, ValueError) as error:
        raise Misconfigured(f"cannot read {path}: {getattr(error, 'strerror', None) or 'not ASCII'}") from error
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [(number, line) for number, line in lines if line and not line.startswith("#")]


def _from_hex(text: str, origin: str) -> bytes:
    if not re.fullmatch(rf"[0-9a-f]{{{2 * SECRET_BYTES}}}", text):
        raise Misconfigured(f"{origin}: not {2 * SECRET_BYTES} hexadecimal digits")
    return bytes.fromhex(text)


class MacSigner:
    """Makes the MACs of one process, by the first of its keys that may report on the device of a record."""

    def __init__(self, keys: Iterable[PrincipalKey], draw: Callable[[int], bytes] = os.urandom) -> None:
        self._runs = [_Run(key, draw(_RUN)) for key in keys]
        self._chosen: dict[tuple[str, str], _Run | None] = {}

    def header(self, record: Record) -> tuple[str, bytes] | None:
        """Return the header of a record of telemetry; None for other topics, and if no key is for its device."""
        topic, device = record.topic.name, record.route
        try:
            run = self._chosen[topic, device]
        except KeyError:
            run = next((one for one in self._runs if one.scope.permits(topic, device)), None)
            if len(self._chosen) < _MAX_DEVICES:
                self._chosen[topic, device] = run
        return None if run is None or record.value is None else (HEADER, run.mac(record))


class _Run:
    """The key of one principal in one process, and the number of its last MAC."""

    def __init__(self, key: PrincipalKey, run: bytes) -> None:
        self.scope = Scope(key.principal)
        self._cipher = _cipher(key.value, run)
        self._suffix = key.secret_id + run + key.principal.encode()
        self._count = 0

    def mac(self, record: Record) -> bytes:
        self._count += 1
        counter = self._count.to_bytes(_COUNTER, "big")
        assert record.value is not None
        tag = _tag(self._cipher, counter, record.topic, record.key, record.headers, record.value)
        return tag + counter + self._suffix


def _cipher(key: bytes, run: bytes) -> AESGCM:
    return AESGCM(hmac.digest(key, b"railsight run\0" + run, "sha256"))


def _tag(cipher: AESGCM, counter: bytes, topic: Topic, key: bytes, headers: Headers, value: bytes) -> bytes:
    """Return the GCM tag of a record: the value is associated data, the rest is encrypted and not sent."""
    kind = b""
    for name, data in headers:
        if name == "type":
            kind = data
            break
    context = b"\0".join((topic.name.encode(), kind, key))
    return cipher.encrypt(_ZEROS + counter, context, value)[-_TAG:]


class Scope:
    """The topics and the devices of a principal."""

    def __init__(self, principal: str) -> None:
        self.principal = principal
        kind, _, devices = principal.partition("/")
        self._topics = KINDS[kind]
        self._patterns = (devices,) if kind in _ONE_DEVICE else devices.split(",")

    def permits(self, topic: str, device: str) -> bool:
        """Return whether the principal may report on a device in a topic."""
        return topic in self._topics and any(fnmatchcase(device, pattern) for pattern in self._patterns)


class ReadRecord(Protocol):
    """The fields of a record that is verified."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


OnRefusal = Callable[[Topic, int, str], None]
"""Receives the topic, the offset and the reason of a refused record."""


class MacVerifier:
    """Verifies records by the secrets of a file, which it reads again when a record names an unknown secret.

    With `is_required` it refuses a record without a valid MAC; otherwise it only reports the refusal.
    """

    def __init__(self, path: Path, *, is_required: bool) -> None:
        self._path = path
        self.is_required = is_required
        self._runs: dict[bytes, tuple[AESGCM, Scope]] = {}
        self._sessions: dict[str, dict[bytes, tuple[AESGCM, set[str]]]] = {one.name: {} for one in TELEMETRY}
        """Topic -> the run and principal of a header -> the key, and the devices on which it has reported."""
        self._remembered = 0
        self._read_ns = -1
        self._secrets: dict[bytes, Secret] = {}
        self._read()

    def decode(self, topic: Topic, record: ReadRecord, on_refusal: OnRefusal) -> Message:
        """Decode a record of telemetry; raises Unauthenticated if a MAC is required, and Reject if it is unreadable.

        Passes the reason of each refusal to `on_refusal`, required or not. The usual record is verified here, at 2.5 us
        for 7.6 kB: its only header is the MAC of a known run, which has reported on this device.
        """
        headers, value = record.headers, record.value
        if len(headers) == 1 and headers[0][0] == HEADER and value is not None:
            mac = headers[0][1]
            session = self._sessions[topic.name].get(mac[_SESSION:])
            if session is not None:
                tag = session[0].encrypt(
                    _ZEROS + mac[_TAG:_SESSION], _PREFIXES[topic.name] + (record.key or b""), value
                )
                if compare_digest(tag[-_TAG:], mac[:_TAG]):
                    message = topics.decode(topic, value, headers)
                    if getattr(message, "device", "") in session[1]:
                        return message
        return self._decode_first(topic, record, on_refusal)

    def _decode_first(self, topic: Topic, record: ReadRecord, on_refusal: OnRefusal) -> Message:
        """Decode the first record of a run on a device, and every record that is refused."""
        mac = b""
        try:
            mac = self._authenticate(topic, record)
        except Unauthenticated as error:
            self._refuse(topic, record, str(error), on_refusal)
        message = topics.decode(topic, record.value, record.headers)
        if not mac:
            return message
        cipher, scope = self._runs[mac[_SESSION:]]
        device = getattr(message, "device", "")
        if not (device and scope.permits(topic.name, device)):
            subject = f"report on {device}" if device else f"send {type(message).__name__}, which has no device,"
            self._refuse(topic, record, f"{scope.principal} may not {subject} in {topic.name}", on_refusal)
            return message
        self._remember(topic, mac[_SESSION:], cipher, device)
        return message

    def _remember(self, topic: Topic, run: bytes, cipher: AESGCM, device: str) -> None:
        """Let `decode` verify the next records of a run on this device; forget all at the limit."""
        self._remembered += 1
        if self._remembered > _MAX_DEVICES:
            self._remembered = 1
            for sessions in self._sessions.values():
                sessions.clear()
        self._sessions[topic.name].setdefault(run, (cipher, set()))[1].add(device)

    def _refuse(self, topic: Topic, record: ReadRecord, reason: str, on_refusal: OnRefusal) -> None:
        on_refusal(topic, record.offset, reason)
        if self.is_required:
            raise Unauthenticated(reason)

    def _authenticate(self, topic: Topic, record: ReadRecord) -> bytes:
        """Return the header of a record after it was verified; raises Unauthenticated."""
        macs = [data for name, data in record.headers if name == HEADER]
        if len(macs) != 1:
            raise Unauthenticated("no MAC" if not macs else "two MACs")
        mac, value = macs[0], record.value
        if value is None:
            raise Unauthenticated("a tombstone has no MAC")
        if len(mac) <= _PRINCIPAL:
            raise Unauthenticated(f"truncated MAC: the header has {len(mac)} bytes")
        known = self._runs.get(mac[_SESSION:])
        cipher, scope = known or self._open(mac)
        expected = _tag(cipher, mac[_TAG:_SESSION], topic, record.key or b"", record.headers, value)
        if not compare_digest(expected, mac[:_TAG]):
            raise Unauthenticated(f"the MAC by {scope.principal} is of another record or by another key")
        if known is None:
            if len(self._runs) >= _MAX_RUNS:
                self._forget(next(iter(self._runs)))
            self._runs[mac[_SESSION:]] = cipher, scope
        return mac

    def _forget(self, run: bytes) -> None:
        del self._runs[run]
        for sessions in self._sessions.values():
            sessions.pop(run, None)

    def _open(self, mac: bytes) -> tuple[AESGCM, Scope]:
        """Return the key and the scope that a header names; nothing is verified yet."""
        principal = mac[_PRINCIPAL:].decode("ascii", errors="replace")
        if reason := invalid_name(principal):
            raise Unauthenticated(f"principal {principal[:_SHOWN]}: {reason}")
        number = mac[_SESSION : _SESSION + _ID]
        secret = self._secrets.get(number) or self._read().get(number)
        if secret is None:
            raise Unauthenticated(
                f"{principal} has a key of the unknown secret {number.hex()}; issue the key again with `railsight key"
                f" issue {principal}`"
            )
        key = secret.key_of(principal).value
        return _cipher(key, mac[_SESSION + _ID : _PRINCIPAL]), Scope(principal)

    def _read(self) -> dict[bytes, Secret]:
        """Read the secrets again if their file has changed; a file that cannot be read then changes nothing."""
        try:
            changed_ns = self._path.stat().st_mtime_ns
        except OSError:
            changed_ns = 0
        if changed_ns == self._read_ns:
            return self._secrets
        self._read_ns = changed_ns
        try:
            self._secrets = {secret.id: secret for secret in read_secrets(self._path)}
        except Misconfigured as error:
            if not self._secrets:
                raise Misconfigured(f"identity.secret_file: {error}") from error
            log.warning("the former secrets remain in use: %s", error)
        else:
            for run in list(self._runs):
                self._forget(run)
        return self._secrets
