"""The codec of every message, signed records, MACs of telemetry, and the record batches of Kafka's clients."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from google.protobuf.message import DecodeError

from streams.wire import codec, identity, signatures, topics
from streams.wire.bounded_batches import BoundedRecords, bound_batches
from streams.wire.errors import Reject
from streams.wire.models import Message, Samples
from streams.wire.samples_template_decoder import TemplateDecoder
from streams.wire.topics import BY_NAME, CONTROLS, REMEDIATION_RESULTS, TELEMETRY, TOPICS, Record, Topic
from streams.wire.v1 import telemetry_pb2
from tests.fixtures.runtime_bindings import FakeRecord
from tests.fixtures.wire_examples import EXAMPLES
from tests.fuzz.target import BrokenPromise, Target, framed, frames


class ReadingPublisher:
    """A publisher whose records are read at once, as consumers do."""

    def offer(self, record: Record, rows: int = 0) -> bool:
        """Read the record; raise BrokenPromise if a reader would refuse it."""
        read_back(record)
        return True

    async def settled(self) -> None:
        """Return: the record is read."""


def read_back(record: Record) -> None:
    """Raise BrokenPromise if a reader refuses what was written."""
    try:
        topics.decode(record.topic, record.value, record.headers)
    except Reject as error:
        raise BrokenPromise(f"{record.topic.name}: its readers refuse what is written: {error}") from error


def _kinds(*, json: bool) -> tuple[tuple[Topic, type[Message]], ...]:
    return tuple(
        (topic, model)
        for topic in TOPICS
        if topic.json is json
        for model in ((topic.model,) if topic.model else ()) + topic.other_models
    )


_BINARY, _JSON = _kinds(json=False), _kinds(json=True)


def _parse_message(kinds: tuple[tuple[Topic, type[Message]], ...], data: bytes) -> None:
    """Decode one message, whose kind is the first byte; what is accepted can be sent on, and is the same then."""
    if not data:
        return
    topic, model = kinds[data[0] % len(kinds)]
    read, write = (codec.from_json, codec.to_json) if topic.json else (codec.from_bytes, codec.to_bytes)
    message = read(model, data[1:])
    written = write(message)
    try:
        again = read(model, written)
    except Reject as error:
        raise BrokenPromise(f"{model.__name__} is accepted, and refused when it is sent on: {error}") from error
    if write(again) != written:
        raise BrokenPromise(f"{model.__name__} changes when it is sent on")


def _message_seeds(kinds: tuple[tuple[Topic, type[Message]], ...]) -> Iterator[bytes]:
    for number, (topic, model) in enumerate(kinds):
        write = codec.to_json if topic.json else codec.to_bytes
        yield bytes([number]) + write(EXAMPLES[model])


def _parse_samples(data: bytes) -> None:
    """Decode messages of samples one after the other: a template gives what the parser gives."""
    templates = TemplateDecoder()
    for message in frames(data):
        known = templates.decode(message)
        try:
            parsed = codec._samples(telemetry_pb2.Samples.FromString(message))
        except (DecodeError, ValueError) as error:
            if known is not None:
                raise BrokenPromise(f"a template accepts what the parser refuses: {error}") from error
            continue
        if known is not None and codec.to_bytes(known) != codec.to_bytes(parsed):
            raise BrokenPromise("a template decodes another message than the parser")
        templates.add(message, parsed)


def _samples_seeds() -> Iterator[bytes]:
    import dataclasses

    one = EXAMPLES[Samples]
    assert isinstance(one, Samples)
    undelayed = dataclasses.replace(one, row_delay_us=())
    yield framed(*(codec.to_bytes(dataclasses.replace(undelayed, sequence=n)) for n in range(3)))
    yield framed(codec.to_bytes(one))


_KEY = signatures.load_private_key(
    # A key of this test alone: 32 bytes of zeros in PKCS 8.
    b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"
    b"-----END PRIVATE KEY-----\n",
    "tests",
)
_VERIFIER = signatures.SignatureVerifier((signatures.public_text(_KEY),), "local")
_SIGNED = (CONTROLS, REMEDIATION_RESULTS)


def _parse_signed(data: bytes) -> None:
    """Verify and decode a record of a signed topic: topic, key, value, then names and values of headers."""
    parts = list(frames(data))
    if len(parts) < 3:
        return
    topic = _SIGNED[parts[0][0] % 2] if parts[0] else CONTROLS
    names = [name.decode("utf-8", "replace") for name in parts[3::2]]
    headers = tuple(zip(names, parts[4::2], strict=False))
    _VERIFIER.verify(topic, parts[1], parts[2], headers, 1)
    topics.decode(topic, parts[2], headers)


def _signed_seeds() -> Iterator[bytes]:
    for number, topic in enumerate(_SIGNED):
        assert topic.model is not None
        record = topics.encode(topic, EXAMPLES[topic.model])
        signed = signatures.Signer(_KEY, "local", "tests").sign(record, 1)
        assert signed.value is not None
        pairs = [part for name, value in signed.headers for part in (name.encode(), value)]
        yield framed(bytes([number]), signed.key, signed.value, *pairs)


_SECRET = identity.Secret(bytes(32))


@cache
def _macs() -> identity.MacVerifier:
    """Return a verifier of MACs whose secret is in a file of this process."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(_SECRET.value.hex())
        file.flush()
        return identity.MacVerifier(Path(file.name), is_required=True)


@cache
def _telemetry() -> tuple[Record, ...]:
    """Return a record of each topic of telemetry with its MAC; all are accepted, and nothing else is."""
    signer = identity.MacSigner([_SECRET.key_of("collector/*"), _SECRET.key_of("prober/host1")], draw=bytes)
    found = []
    for topic in TELEMETRY:
        assert topic.model is not None
        record = topics.encode(topic, EXAMPLES[topic.model])
        if (header := signer.header(record)) is not None:
            found.append(replace(record, headers=(header,)))
    return tuple(found)


def _parse_telemetry(data: bytes) -> None:
    """Verify and decode a record of telemetry: topic, key, value, then names and values of headers."""
    parts = list(frames(data))
    if len(parts) < 3:
        return
    topic = TELEMETRY[parts[0][0] % len(TELEMETRY)] if parts[0] else TELEMETRY[0]
    names = [name.decode("utf-8", "replace") for name in parts[3::2]]
    record = Record(topic, parts[1], parts[2], tuple(zip(names, parts[4::2], strict=False)))
    read = FakeRecord(0, record.value, record.headers, record.key)
    _macs().decode(topic, read, lambda _topic, _offset, _reason: None)
    if not any((one.topic, one.key, one.value) == (topic, record.key, record.value) for one in _telemetry()):
        raise BrokenPromise(f"{topic.name}: a record without a valid MAC is accepted")


def _telemetry_seeds() -> Iterator[bytes]:
    for record in _telemetry():
        assert record.value is not None
        pairs = [part for name, value in record.headers for part in (name.encode(), value)]
        yield framed(bytes([TELEMETRY.index(record.topic)]), record.key, record.value, *pairs)


def _parse_batches(data: bytes) -> None:
    """Read the batches of a fetch response, as consumers do, and decode their records."""
    bound_batches()
    records = BoundedRecords(data)
    while records.has_next():
        batch = records.next_batch()
        if batch is None:
            return
        for record in batch:
            try:
                topics.decode(BY_NAME["railsight.events.v1"], record.value, record.headers)
            except Reject:
                continue


def _batch_seeds() -> Iterator[bytes]:
    event = topics.encode(BY_NAME["railsight.events.v1"], EXAMPLES[topics.EVENTS.model or Samples])
    for codec_number in range(5):
        builder = DefaultRecordBatchBuilder(2, codec_number, 0, -1, -1, -1, 1 << 20)
        for offset in range(3):
            builder.append(offset, 1_000, event.key, event.value, list(event.headers))
        yield bytes(builder.build())


TARGETS = (
    Target("wire-binary", partial(_parse_message, _BINARY), (Reject,), partial(_message_seeds, _BINARY)),
    Target("wire-json", partial(_parse_message, _JSON), (Reject,), partial(_message_seeds, _JSON)),
    Target("wire-samples", _parse_samples, (), _samples_seeds),
    Target("wire-signed", _parse_signed, (Reject,), _signed_seeds),
    Target("wire-identity", _parse_telemetry, (Reject,), _telemetry_seeds),
    # A batch decompresses to at most 32 MiB. aiokafka's C code raises SystemError for a message set of an old client
    # with a negative size, which no broker passes on.
    Target(
        "wire-batches", _parse_batches, (CorruptRecordException, SystemError), _batch_seeds, max_growth_bytes=128 << 20
    ),
)
