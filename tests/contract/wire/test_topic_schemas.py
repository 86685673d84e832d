"""Tests the JSON Schemas of the public topics against what is produced, and its CloudEvents with the SDK of Python."""

from datetime import datetime
from typing import Any

import orjson
import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka_event
from jsonschema import Draft202012Validator

from streams.wire.models import Finding, Remediation
from streams.wire.topics import BY_NAME, TOPICS, encode
from tests.contract.wire.topic_schemas import FOLDER, PAGE, ROWS, closed, page, schema, schemas, text
from tests.fixtures.wire_examples import EXAMPLES, GOLDEN

EVENTS = [topic for topic in TOPICS if topic.ce_type]


def problems(name: str, value: Any) -> list[str]:
    """Return what a strict form of a topic's schema refuses in a value."""
    found = Draft202012Validator(closed(schema(BY_NAME[name]))).iter_errors(value)
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in found]


def test_every_json_topic_is_on_the_page_and_has_a_schema() -> None:
    """A new public topic needs a row; the page and the schemas are those of the code."""
    assert {topic.name for topic in TOPICS if topic.json} == ROWS.keys()
    assert PAGE.read_text("utf-8") == page()
    assert {path.name: path.read_text("utf-8") for path in FOLDER.iterdir()} == {
        name: text(found) for name, found in schemas().items()
    }


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("*.json")))
def test_every_recorded_record_conforms_to_its_schema(name: str) -> None:
    """Of every version that was ever written."""
    assert problems(name.rsplit(".", 3)[0], orjson.loads((GOLDEN / name).read_bytes())) == []


@pytest.mark.parametrize("name", ROWS)
def test_a_record_with_every_field_conforms_to_its_schema(name: str) -> None:
    """The example sets all fields, so that none is missing in the schema; and a wrong type is refused."""
    topic = BY_NAME[name]
    assert topic.model is not None
    value = encode(topic, EXAMPLES[topic.model]).value
    assert value is not None
    produced = orjson.loads(value)
    assert problems(name, produced) == []
    assert problems(name, produced | {"id": 5, "kind": 5}) and problems(name, produced | {"unknown": 1})


@pytest.mark.parametrize("topic", EVENTS, ids=lambda topic: topic.name)
def test_pythons_sdk_of_cloudevents_parses_every_event(topic: Any) -> None:
    """Its id, type, subject and time are those of the record; a revision is a string of digits."""
    message = EXAMPLES[topic.model]
    assert isinstance(message, Finding | Remediation)
    record = encode(topic, message, cluster="site-a")
    assert record.value is not None
    event = from_kafka_event(KafkaMessage(dict(record.headers), record.key, record.value))
    assert event.get_id() == f"{message.id}/{message.revision}"
    assert (event.get_type(), event.get_source()) == (topic.ce_type, "/railsight/site-a")
    assert event.get_subject() == record.key.decode()
    data = event.get_data()
    assert isinstance(data, dict) and isinstance(event.get_time(), datetime)
    assert data["id"] == message.id and int(data["revision"]) == message.revision and isinstance(data["revision"], str)
