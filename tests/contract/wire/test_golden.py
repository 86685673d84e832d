"""What was once written into a topic is read for ever: every golden file, decoded and encoded again."""

import json
from dataclasses import fields

import pytest

from streams.wire.topics import BY_NAME, TOPICS, decode, encode
from tests.fixtures.wire_examples import EXAMPLES, FIRST, GOLDEN, Golden

FILES = sorted(path for path in GOLDEN.iterdir() if path.suffix in (".hex", ".json"))


def _golden(name: str) -> tuple[Golden, bytes]:
    topic_name, model_name, version, suffix = name.rsplit(".", 3)
    topic = BY_NAME[topic_name]
    models = (*((topic.model,) if topic.model else ()), *topic.others)
    model = next(model for model in models if model.__name__.lower() == model_name)
    text = (GOLDEN / name).read_text(encoding="utf-8").strip()
    return Golden(topic, model, int(version)), text.encode() if suffix == "json" else bytes.fromhex(text)


@pytest.mark.parametrize("name", [path.name for path in FILES])
def test_golden_bytes_are_read_and_written_the_same(name: str) -> None:
    """A recorded record is read, and writing it again gives the same bytes (JSON: the same document)."""
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
    """A topic, or a message in one, without a golden file fails here."""
    recorded = {(golden.topic.name, golden.model) for golden, _ in (_golden(path.name) for path in FILES)}
    wanted = {(t.name, model) for t in TOPICS for model in (*((t.model,) if t.model else ()), *t.others)}
    assert recorded == wanted
    assert {golden.path.name for golden in FIRST} <= {path.name for path in FILES}


@pytest.mark.parametrize("model", EXAMPLES, ids=lambda model: model.__name__)
def test_examples_leave_no_field_at_its_default(model: type) -> None:
    """A field that no example sets would be golden by accident only."""
    example = EXAMPLES[model]
    for field in fields(model):
        assert getattr(example, field.name) not in (None, (), {}, ""), field.name
