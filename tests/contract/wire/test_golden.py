"""Golden records stay readable for ever: each file is decoded and encoded again."""

import json
from dataclasses import fields, replace
from typing import get_args

import orjson
import pytest
from pydantic import TypeAdapter

from streams.fabric.catalogue import Metric
from streams.wire import codec
from streams.wire.errors import Reject
from streams.wire.models import Message, Symptom
from streams.wire.symptoms import Payload
from streams.wire.topics import BY_NAME, TOPICS, decode, encode
from streams.wire.v1 import internal_pb2
from tests.fixtures.wire_examples import EXAMPLES, FIRST, GOLDEN, LATER, PAYLOADS, SYMPTOM, Golden

FILES = sorted(path for path in GOLDEN.iterdir() if path.suffix in (".hex", ".json"))


def _golden(name: str) -> tuple[Golden, bytes]:
    topic_name, model_name, version, suffix = name.rsplit(".", 3)
    topic = BY_NAME[topic_name]
    models = (*((topic.model,) if topic.model else ()), *topic.other_models)
    model = next(model for model in models if model.__name__.lower() == model_name)
    text = (GOLDEN / name).read_text(encoding="utf-8").strip()
    return Golden(topic, model, int(version)), text.encode() if suffix == "json" else bytes.fromhex(text)


@pytest.mark.parametrize("name", [path.name for path in FILES])
def test_golden_bytes_survive_a_round_trip(name: str) -> None:
    """A recorded record is decoded, and encoding it again gives the same bytes (JSON: the same document)."""
    golden, value = _golden(name)
    named = () if golden.model is golden.topic.model else (("type", golden.model.__name__.lower().encode()),)
    message = decode(golden.topic, value, named)
    assert type(message) is golden.model
    again = encode(golden.topic, message)
    assert again.value is not None
    if golden.topic.json:
        assert json.loads(again.value) == json.loads(value)
    else:
        assert again.value == value
        assert [header for header in again.headers if header[0] == "type"] == list(named)


def test_every_message_of_every_topic_has_golden_bytes() -> None:
    """A topic or a message without a golden file fails here."""
    recorded = {(golden.topic.name, golden.model) for golden, _ in (_golden(path.name) for path in FILES)}
    wanted = {(t.name, model) for t in TOPICS for model in (*((t.model,) if t.model else ()), *t.other_models)}
    assert recorded == wanted
    assert {golden.path.name for golden in (*FIRST, *LATER)} <= {path.name for path in FILES}


@pytest.mark.parametrize("example", [*EXAMPLES.values(), *PAYLOADS], ids=lambda example: type(example).__name__)
def test_examples_set_every_field(example: Message | Payload) -> None:
    """A field that no example sets would not be covered by the golden bytes."""
    for field in fields(example):
        assert getattr(example, field.name) not in (None, (), {}, ""), field.name


def test_every_payload_of_a_symptom_has_an_example() -> None:
    """The golden bytes of SymptomsReplaced hold one symptom of every payload."""
    assert {type(payload) for payload in PAYLOADS} == set(get_args(Payload))


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: type(payload).__name__)
def test_a_payload_in_a_snapshot_is_read_back_as_its_own_type(payload: Payload) -> None:
    """Snapshots of stages hold symptoms as JSON without a discriminator: no payload has all fields of another."""
    symptom = replace(SYMPTOM, payload=payload)
    assert TypeAdapter(Symptom).validate_json(orjson.dumps(symptom)) == symptom
    names = {field.name for field in fields(payload)}
    others = [{field.name for field in fields(other)} for other in PAYLOADS if other is not payload]
    assert not any(names <= other for other in others)


def test_a_symptom_without_a_known_payload_is_rejected() -> None:
    """A payload of a later version is not read as an empty one."""
    with pytest.raises(Reject, match="payload"):
        codec.from_bytes(Symptom, internal_pb2.Symptom(device="leaf1", at_ns=1).SerializeToString())
    unset = internal_pb2.Symptom(device="leaf1", port_transition=internal_pb2.PortTransition())
    with pytest.raises(Reject):
        codec.from_bytes(Symptom, unset.SerializeToString())
    uncounted = internal_pb2.CounterGrowth(counter=int(Metric.RX_BYTES), growth=1)  # type: ignore[arg-type]
    with pytest.raises(Reject, match="RX_BYTES"):
        codec.from_bytes(Symptom, internal_pb2.Symptom(device="leaf1", counter_growth=uncounted).SerializeToString())
