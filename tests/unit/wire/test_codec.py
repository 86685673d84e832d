"""Tests the codec: any content of a model survives a round trip, and invalid messages are refused."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from streams.fabric.catalogue import Metric
from streams.wire import codec, models
from streams.wire.bounds import MAX_TIME_NS
from streams.wire.errors import Reject
from streams.wire.models import (
    ABSENT_COUNTER,
    Action,
    Control,
    ControlKind,
    Finding,
    Outcome,
    Remediation,
    RemediationResult,
    Samples,
)
from streams.wire.v1 import telemetry_pb2
from tests.fixtures.arbitrary_messages import messages, samples
from tests.fixtures.wire_examples import SAMPLES

PLAIN = sorted(set(codec._CLASSES) - {Samples}, key=lambda model: model.__name__)
PUBLIC = (Finding, Remediation, RemediationResult, Control)


@pytest.mark.parametrize("model", PLAIN, ids=lambda model: model.__name__)
def test_any_message_survives_a_round_trip_in_bytes(model: type) -> None:
    """Absent fields stay absent; no nanosecond and no bit of 64 is lost."""

    @given(messages(model))
    def holds(message: Any) -> None:
        data = codec.to_bytes(message)
        assert codec.from_bytes(model, data) == message
        assert codec.to_bytes(codec.from_bytes(model, data)) == data

    holds()


@pytest.mark.parametrize("model", PUBLIC, ids=lambda model: model.__name__)
def test_any_public_message_survives_a_round_trip_in_json(model: type) -> None:
    """JSON and back give the same message; it is one line."""

    @given(messages(model))
    def holds(message: Any) -> None:
        data = codec.to_json(message)
        assert b"\n" not in data
        assert codec.from_json(model, data) == message

    holds()


def _parts(message: Samples) -> list[Any]:
    tables = ("counters", "gauges")
    plain = [getattr(message, f.name) for f in dataclasses.fields(message) if f.name not in tables]
    own = [(t.metric, t.index, t.values.tobytes()) for t in (message.counters, message.gauges) if t.metric]
    return [*plain, *own]


@given(samples())
def test_any_samples_survive_a_round_trip(message: Samples) -> None:
    """Columns, rows, identities and values are equal bit for bit, and so are the bytes."""
    data = codec.to_bytes(message)
    again = codec.from_bytes(Samples, data)
    assert _parts(again) == _parts(message)
    assert codec.to_bytes(again) == data


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe", b"[" * 100_000, b'{"id":' * 100_000, b'{"id":1', b'"x"', b"[]", b"7", b"null"]
)
def test_garbage_in_place_of_json_is_refused(data: bytes) -> None:
    """Other tools can write anything into results and controls, including deep nesting."""
    for model in (RemediationResult, Control):
        with pytest.raises(Reject, match=model.__name__):
            codec.from_json(model, data)


def test_results_and_controls_ignore_unknown_fields() -> None:
    """A tool may write more fields than the contract has."""
    result = codec.from_json(RemediationResult, b'{"remediationId":"r1","outcome":"DONE","ticket":{"no":5},"tags":[1]}')
    assert result == RemediationResult("r1", Outcome.DONE)
    control = codec.from_json(Control, b'{"id":"c","kind":"KILL_SWITCH","until":"2026-01-01T00:00:00.5Z","new":true}')
    assert control == Control("c", ControlKind.KILL_SWITCH, until_ns=1_767_225_600_500_000_000)
    assert codec.from_json(RemediationResult, b'{"remediation_id":"r1"}').outcome is Outcome.OUTCOME_UNSPECIFIED


def test_an_enum_of_a_later_version_is_refused() -> None:
    """An unknown action is not guessed."""
    data = codec.to_bytes(Remediation("r", 1, (), Action.OBSERVE, models.Verdict.APPROVED, models.Subject("x")))
    assert data.count(b"\x20\x01") == 1
    with pytest.raises(Reject, match="not a Remediation"):
        codec.from_bytes(Remediation, data.replace(b"\x20\x01", b"\x20\x63"))


def test_json_is_canonical() -> None:
    """lowerCamelCase, RFC 3339, 64-bit integers as strings, enums by name: any protobuf library reads it."""
    import json

    from tests.fixtures.wire_examples import FINDING

    document = json.loads(codec.to_json(FINDING))
    assert document["revision"] == str(FINDING.revision)
    assert document["startedAt"] == "2026-09-21T14:13:20.123456789Z"
    assert (document["condition"], document["status"], document["blastRadius"]["gpus"]) == ("LINK_FLAP", "RESOLVED", 8)


def _wire() -> telemetry_pb2.Samples:
    return telemetry_pb2.Samples.FromString(codec.to_bytes(SAMPLES))


def test_values_are_views_of_the_message() -> None:
    """The arrays are read-only views of the bytes of the message: no copy, no loop."""
    read = codec.from_bytes(Samples, codec.to_bytes(SAMPLES))
    for table, dtype in ((read.counters, "<u8"), (read.gauges, "<f8")):
        assert table.values.dtype == dtype
        assert table.values.base is not None
        assert not table.values.flags.owndata
        assert not table.values.flags.writeable
    assert read.counters.values.tolist() == [[2**63 + 1, ABSENT_COUNTER], [0, 5]]
    assert np.isnan(read.gauges.values[1, 1])


def _spoil(wire: telemetry_pb2.Samples, change: str) -> None:
    match change:
        case "fewer values":
            wire.counters.values = wire.counters.values[:-1]
        case "more values":
            wire.gauges.values += bytes(8)
        case "more indices":
            wire.counters.index.append(0)
        case "more delays":
            wire.row_delay_us.append(1)
        case "row before the first time":
            wire.sampled_at_ns, wire.row_delay_us[-1] = 1, -1
        case "row after the last time":
            wire.sampled_at_ns, wire.row_delay_us[-1] = MAX_TIME_NS, 1
        case "no device":
            wire.device = ""
        case "counter in gauges":
            wire.gauges.metric[0] = Metric.RX_BYTES  # type: ignore[call-overload]
        case "gauge in counters":
            wire.counters.metric[0] = Metric.OPER_UP  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("fewer values", "leaf1"), ("more values", "leaf1"), ("more indices", "leaf1"), ("more delays", "leaf1"),
        ("row before the first time", "leaf1: the time of a row"),
        ("row after the last time", "leaf1: the time of a row"), ("no device", "without a device"),
        ("counter in gauges", "leaf1: gauges contain a metric of the other kind"),
        ("gauge in counters", "leaf1: counters contain a metric of the other kind"),
    ],
)  # fmt: skip
def test_inconsistent_samples_are_refused_with_their_device(change: str, reason: str) -> None:
    """Parts of different lengths, a time of one row beyond the bounds, a value that would be a wrong number."""
    wire = _wire()
    _spoil(wire, change)
    with pytest.raises(Reject, match=reason):
        codec.from_bytes(Samples, wire.SerializeToString())


def test_a_metric_of_a_later_version_is_omitted() -> None:
    """The column of an unknown metric is dropped; the others keep their values."""
    wire = _wire()
    wire.counters.metric[0] = 4000  # type: ignore[call-overload]  # a number that no version has given yet
    read = codec.from_bytes(Samples, wire.SerializeToString())
    assert (read.counters.metric, read.counters.index) == ((Metric.LANE_RAW_ERRORS,), (3,))
    assert read.counters.values.tolist() == [[0, 5]]
