"""The JSON Schemas of the public topics and their page: `python -m tests.contract.wire.topic_schemas` writes both.

The schemas follow protobuf's canonical JSON of `proto/streams/wire/v1`, with the comments there as descriptions.
"""

import json
import re
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from streams.wire.topics import BY_NAME, Topic
from streams.wire.v1 import findings_pb2

ROOT = Path(__file__).parents[3]
PAGE, FOLDER = ROOT / "docs/topics.md", ROOT / "docs/schemas"
_PROTO = ROOT / "proto/streams/wire/v1"

ROWS: dict[str, tuple[str, str, str]] = {
    "railsight.findings.v1": ("the subject's id", "every revision of every finding", "none"),
    "railsight.findings-open.v1": (
        "the finding's id", "the newest revision of each open finding", "the finding is over: RESOLVED or RETRACTED",
    ),
    "railsight.remediations.v1": ("the target's id", "every revision of every remediation", "none"),
    "railsight.remediations-open.v1": (
        "the remediation's id", "the newest revision of each open remediation", "it is answered, expired or closed",
    ),
    "railsight.remediation-results.v1": ("the remediation's id", "answers of automation, written by others", "none"),
    "railsight.controls.v1": (
        "the control's id", "approvals, maintenance, exclusions, kill switch, acknowledgements", "it is removed",
    ),
    "railsight.control-answers.v1": (
        "the control's id, or `refused/` and a number", "what `decide` did with each control; TAKEN: in effect",
        "the control has ended or was removed",
    ),
    "railsight.lemons.v1": ("kind and subject", "repeat offenders", "it is a lemon no longer"),
    "railsight.input-losses.v1": (
        "consumer, topic and partition", "records that were deleted before a part of the pipeline read them", "none",
    ),
    "railsight.topology.v1": (
        "the host", "unit, groups, leaves and usability of each host", "the inventory has the host no longer",
    ),
}  # fmt: skip
"""The topics with JSON: their key, their content and the meaning of a tombstone."""

_INTEGERS = {
    FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_FIXED32,
    FieldDescriptor.TYPE_SFIXED32,
}  # fmt: skip
_LONGS = {
    FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_SINT64, FieldDescriptor.TYPE_FIXED64,
    FieldDescriptor.TYPE_SFIXED64,
}  # fmt: skip
_TIME = {"type": "string", "format": "date-time"}
_SPECIAL: dict[str, dict[str, Any]] = {
    "google.protobuf.Timestamp": _TIME,
    "google.protobuf.Duration": {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$"},
    "google.protobuf.Struct": {"type": "object"},
}


def comments() -> dict[tuple[str, str], str]:
    """Return the comment behind each field of each message, by message and field."""
    found: dict[tuple[str, str], str] = {}
    for file in sorted(_PROTO.glob("*.proto")):
        above: list[str] = []
        for line in file.read_text("utf-8").splitlines():
            if opened := re.match(r"\s*(?:message|enum|oneof) (\w+) \{", line):
                above.append(opened[1])
            elif re.match(r"\s*\}", line) and above:
                above.pop()
            elif above and (field := re.match(r"\s*[\w.<>, ]+ (\w+) = \d+[^/]*;\s*//\s*(.+)", line)):
                found[above[-1], field[1]] = field[2]
    return found


def schema(topic: Topic) -> dict[str, Any]:
    """Return the JSON Schema of a topic's message."""
    assert topic.model is not None
    message: Descriptor = findings_pb2.DESCRIPTOR.message_types_by_name[topic.model.__name__]
    definitions: dict[str, Any] = {}
    root = _object(message, definitions, comments())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"{stem(topic)}.schema.json",
        "title": topic.model.__name__,
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def stem(topic: Topic) -> str:
    """Return the name of the schema of a topic, without its suffix."""
    assert topic.model is not None
    words = re.sub(r"(?<!^)(?=[A-Z])", "-", topic.model.__name__).lower()
    return f"railsight.{words}.v1"


def _object(message: Descriptor, definitions: dict[str, Any], texts: dict[tuple[str, str], str]) -> dict[str, Any]:
    properties = {}
    for field in message.fields:
        found = _field(field, definitions, texts)
        if text := texts.get((message.name, field.name)):
            found = {"description": text, **found}
        properties[field.json_name] = found
    return {"type": "object", "properties": properties}


def _field(field: FieldDescriptor, definitions: dict[str, Any], texts: dict[tuple[str, str], str]) -> dict[str, Any]:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return {"type": "object", "additionalProperties": _one(entry.fields_by_name["value"], definitions, texts)}
    one = _one(field, definitions, texts)
    return {"type": "array", "items": one} if field.is_repeated else one


def _one(field: FieldDescriptor, definitions: dict[str, Any], texts: dict[tuple[str, str], str]) -> dict[str, Any]:
    if (message := field.message_type) is not None:
        if message.full_name in _SPECIAL:
            return _SPECIAL[message.full_name]
        name = message.full_name.rpartition(".v1.")[2]
        if name not in definitions:
            definitions[name] = {}  # before its fields, which may contain it
            definitions[name] = _object(message, definitions, texts)
        return {"$ref": f"#/$defs/{name}"}
    if field.enum_type is not None:
        return {"enum": [value.name for value in field.enum_type.values]}
    if field.type in _INTEGERS:
        return {"type": "integer"}
    if field.type in _LONGS:
        return {"type": "string", "pattern": "^-?[0-9]+$"}
    if field.type == FieldDescriptor.TYPE_BOOL:
        return {"type": "boolean"}
    if field.type in (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT):
        return {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
    return (
        {"type": "string", "contentEncoding": "base64"}
        if field.type == FieldDescriptor.TYPE_BYTES
        else {"type": "string"}
    )


def closed(node: Any) -> Any:
    """Return a schema that refuses properties that it does not have, for the check of what is produced."""
    if isinstance(node, dict):
        found = {key: closed(value) for key, value in node.items()}
        return found | {"additionalProperties": False} if "properties" in node else found
    return [closed(item) for item in node] if isinstance(node, list) else node


def schemas() -> dict[str, dict[str, Any]]:
    """Return the schemas by file name."""
    return {f"{stem(BY_NAME[name])}.schema.json": schema(BY_NAME[name]) for name in ROWS}


_BEGIN, _END = "<!-- generated -->\n", "<!-- end of the generated part -->\n"
_TITLES = ("topic", "content", "key", "retention", "tombstone (a record without a value)", "CloudEvents type", "schema")


def page() -> str:
    """Return the page of the public topics with its table made of the code; the prose around it is the page's own."""
    before, _, rest = PAGE.read_text("utf-8").partition(_BEGIN)
    rows = ["| " + " | ".join(_TITLES) + " |", "|---" * len(_TITLES) + "|"]
    for name, (key, content, tombstone) in ROWS.items():
        topic = BY_NAME[name]
        retention = "compacted" if topic.retention_s is None else f"{topic.retention_s // 86400} d"
        file = f"{stem(topic)}.schema.json"
        rows.append(
            f"| `{name}` | {content} | {key} | {retention} | {tombstone} | {topic.ce_type or '–'} "
            f"| [{file}](schemas/{file}) |"
        )
    return before + _BEGIN + "\n".join(rows) + "\n" + _END + rest.partition(_END)[2]


def text(found: dict[str, Any]) -> str:
    """Return a schema as its file has it."""
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    PAGE.write_text(page(), "utf-8")
    for file_name, made in schemas().items():
        (FOLDER / file_name).write_text(text(made), "utf-8")
