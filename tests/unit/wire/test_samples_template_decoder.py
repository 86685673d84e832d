"""Messages decoded by a template equal those of the parser, or are left to the parser."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from streams.wire import codec
from streams.wire.errors import Reject
from streams.wire.models import Samples, Table
from streams.wire.samples_template_decoder import TemplateDecoder
from streams.wire.v1 import telemetry_pb2
from tests.fixtures.arbitrary_messages import samples
from tests.fixtures.wire_examples import SAMPLES

UNDELAYED = dataclasses.replace(SAMPLES, row_delay_us=())


def parsed(data: bytes) -> Samples:
    """Return the message as the parser alone decodes it."""
    return codec._samples(telemetry_pb2.Samples.FromString(data))


def with_templates_of(*messages: Samples) -> TemplateDecoder:
    """Return a decoder with templates of these messages."""
    decoder = TemplateDecoder()
    for message in messages:
        decoder.add(codec.to_bytes(message), message)
    return decoder


def parts(message: Samples) -> list[Any]:
    """Return all content of a message, comparable bit for bit."""
    plain = [getattr(message, f.name) for f in dataclasses.fields(message) if f.name not in ("counters", "gauges")]
    tables = [(t.metric, t.index, t.values.shape, t.values.tobytes()) for t in (message.counters, message.gauges)]
    return [*plain, *(table if table[0] else None for table in tables)]


def next_message(message: Samples, sequence: int, at_ns: int, boot_id: int) -> Samples:
    """Return the next message of the same device: other numbers, equal structure."""
    counters, gauges = message.counters, message.gauges
    return dataclasses.replace(
        message, sequence=sequence, sampled_at_ns=at_ns, received_at_ns=at_ns + 1, boot_id=boot_id,
        counters=Table(counters.metric, counters.index, np.asarray(counters.values + np.uint64(1))),
        gauges=Table(gauges.metric, gauges.index, np.asarray(gauges.values * 0.5)),
    )  # fmt: skip


@given(
    samples(), st.integers(0, 2**64 - 1), st.integers(1, 2**62) | st.integers(-(2**62), -2), st.integers(0, 2**64 - 1)
)
def test_the_next_message_is_decoded_as_by_the_parser(
    message: Samples, sequence: int, at_ns: int, boot_id: int
) -> None:
    """This holds for any sequence, times, boot id and values of the next message."""
    after = codec.to_bytes(next_message(message, sequence, at_ns, boot_id))
    read = with_templates_of(message).decode(after)
    assert read is None or parts(read) == parts(parsed(after))


@pytest.mark.parametrize("sequence", [0, 1, 127, 128, 2**32, 2**56 - 1])
@pytest.mark.parametrize("boot_id", [0, 1, 2**64 - 1])
def test_ordinary_messages_are_decoded_without_the_parser(sequence: int, boot_id: int) -> None:
    """The second message of a device matches, and its tables are views of its bytes."""
    after = next_message(UNDELAYED, sequence, 1_790_000_000_123_456_789, boot_id)
    read = with_templates_of(UNDELAYED).decode(codec.to_bytes(after))
    assert read is not None
    assert parts(read) == parts(after)
    assert not read.counters.values.flags.writeable
    assert not read.gauges.values.flags.owndata


def test_a_table_may_be_missing() -> None:
    """Counters alone, and gauges alone, are ordinary messages."""
    none = Table((), (), np.empty((0, 2), "<u8"))
    for change in ({"counters": none}, {"gauges": none}):
        message = dataclasses.replace(UNDELAYED, **change)  # type: ignore[arg-type]
        after = dataclasses.replace(message, sequence=9)
        read = with_templates_of(message).decode(codec.to_bytes(after))
        assert read is not None
        assert parts(read) == parts(after)


@given(st.data())
def test_a_changed_message_is_decoded_as_by_the_parser(data: st.DataObject) -> None:
    """After bytes are inserted, removed or replaced, the result equals that of the parser or is None."""
    whole = codec.to_bytes(next_message(UNDELAYED, 300, 1_790_000_000_000_000_000, 7))
    at = data.draw(st.integers(0, len(whole)))
    changed = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + data.draw(st.integers(0, 3)) :]
    read = with_templates_of(UNDELAYED).decode(changed)
    if read is not None:
        assert parts(read) == parts(parsed(changed))


@given(st.binary(max_size=80), st.data())
def test_a_malformed_message_adds_no_wrong_template(garbage: bytes, data: st.DataObject) -> None:
    """Fields of any kind before, within and after a message never change how another message is decoded."""
    whole = codec.to_bytes(UNDELAYED)
    at = data.draw(st.sampled_from([0, len(whole)]) | st.integers(0, len(whole)))
    odd = whole[:at] + garbage + whole[at:]
    try:
        message = parsed(odd)
    except (DecodeError, Reject, ValueError):
        return
    decoder = TemplateDecoder()
    decoder.add(odd, message)
    for after in (odd, whole):
        read = decoder.decode(after)
        assert read is None or parts(read) == parts(parsed(after))


@pytest.mark.parametrize("data", [b"", b"\n", b"\n\x05leaf1", b"\n\x05leaf1" + bytes(40)])
def test_a_truncated_message_does_not_match(data: bytes) -> None:
    """The parser refuses it."""
    assert with_templates_of(UNDELAYED).decode(data) is None


def test_delays_and_unknown_metrics_are_left_to_the_parser() -> None:
    """The parser decodes each such message."""
    wire = telemetry_pb2.Samples.FromString(codec.to_bytes(UNDELAYED))
    wire.counters.metric[0] = 4000  # type: ignore[call-overload]  # a number that no version has given yet
    unknown = wire.SerializeToString()
    for data in (codec.to_bytes(SAMPLES), unknown):
        decoder = TemplateDecoder()
        decoder.add(data, parsed(data))
        assert decoder.decode(data) is None


def test_each_kind_of_message_of_a_device_has_a_template() -> None:
    """A device with a NIC collector and a host agent has two templates, which share its names."""
    other = dataclasses.replace(UNDELAYED, collector="another", row=("a", "b"), rows_digest=3)
    decoder = with_templates_of(UNDELAYED, other, dataclasses.replace(UNDELAYED, device="leaf2"))
    reads = [decoder.decode(codec.to_bytes(message)) for message in (UNDELAYED, other)]
    assert [read.row for read in reads if read] == [UNDELAYED.row, ("a", "b")]
    of_other_device = decoder.decode(codec.to_bytes(dataclasses.replace(UNDELAYED, device="leaf2")))
    assert reads[0] is not None
    assert of_other_device is not None
    assert of_other_device.row is reads[0].row
    assert of_other_device.counters.metric is reads[0].counters.metric


def test_the_templates_are_bounded() -> None:
    """More devices, names and kinds than the limits do not accumulate."""
    decoder = TemplateDecoder(max_devices=8, max_body_bytes=2000)
    for number in range(100):
        many = dataclasses.replace(
            UNDELAYED, device=f"leaf{number % 50}", collector_run=number + 1, row=(f"port{number}", "other")
        )
        decoder.add(codec.to_bytes(many), many)
        assert len(decoder._by_device) <= 8
        assert decoder._body_bytes <= 2000 + len(codec.to_bytes(many))
        assert decoder.decode(codec.to_bytes(many)) is not None
    restarted = TemplateDecoder()
    for run in range(1, 50):
        again = dataclasses.replace(UNDELAYED, collector_run=run)
        restarted.add(codec.to_bytes(again), again)
    (kinds,) = restarted._by_device.values()
    assert len(kinds) == 8
