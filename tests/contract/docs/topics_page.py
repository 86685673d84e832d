"""All topics: the table of docs/topics.md that has the internal ones too, and the AsyncAPI document of all.

`python -m tests.contract.docs` writes both; tests/contract/wire/topic_schemas.py makes the part of the public topics.
"""

import json
from pathlib import Path
from typing import Any

from streams.cli.options import collector_access
from streams.config.settings import Settings
from streams.runtime.acl import accesses
from streams.wire.topics import PROCESS, TOPICS, PartitionScheme, Topic
from tests.contract.wire.topic_schemas import ROWS, stem

ROOT = Path(__file__).parents[3]
PAGE, ASYNCAPI = ROOT / "docs/topics.md", ROOT / "docs/asyncapi.json"
_BEGIN, _END = "<!-- all topics -->\n", "<!-- end of all topics -->\n"

CONTENT = {
    "railsight.samples.v1": "readings of devices, one message for each device and poll",
    "railsight.events.v1": "events of devices: transitions, traps, kernel logs",
    "railsight.facts.v1": "what rarely changes: versions, serial numbers, modules, LLDP neighbors",
    "railsight.collector-status.v1": "reachability and cadence of each target, by collector",
    "railsight.probes.v1": "results of active probes between hosts",
    "railsight.targets.v1": "empty: Kafka divides targets among collectors by its partitions",
    "railsight.inventory.v1": "the inventory, in chunks",
    "railsight.jobs.v1": "jobs and their hosts",
    "railsight.schedulers.v1": "the age of the last complete answer of each scheduler",
    "railsight.symptoms.v1": "observations of `measure` at ports and devices",
    "railsight.summaries.v1": "windows of `measure`, by port and group of peers",
    "railsight.episodes.v1": "episodes of `correlate`, before root causes are known",
    "railsight.port-states.v1": "states of ports, for `decide`; the newest message of each state, for `correlate`",
    "railsight.progress.v1": "the watermark of `attribute`",
    "railsight.rejected.v1": "records that a stage could not read, with the reason",
    "railsight.snapshots.measure.v1": "the state of `measure`, in chunks",
    "railsight.snapshots.correlate.v1": "the state of `correlate`, in chunks",
    "railsight.snapshots.attribute.v1": "the state of `attribute`, in chunks",
    "railsight.snapshots.decide.v1": "the state of `decide`, in chunks",
} | {name: content for name, (_, content, _) in ROWS.items()}
"""The content of each topic; test_reference.py names a topic that is missing here."""

_PARTITIONS = {
    PartitionScheme.TELEMETRY: "`kafka.telemetry_partitions`", PartitionScheme.POD: "`kafka.pod_partitions`",
    PartitionScheme.SINGLE: "1",
}  # fmt: skip


def users(topic: Topic, attribute: str) -> list[str]:
    """Return the parts that read or write (`reads`, `writes`) a topic, without the process of all stages."""
    settings = Settings()
    needs = accesses(settings, collector_access(settings))
    return [part for part, access in needs.items() if part != PROCESS and topic in getattr(access, attribute)]


def messages(topic: Topic) -> list[str]:
    """Return the names of the messages of a topic, the main one first."""
    main = [] if topic.model is None else [topic.model.__name__]
    return [*main, *(model.__name__ for model in topic.other_models)]


def retention(topic: Topic) -> str:
    """Return the retention of a topic, as people write it."""
    if topic.retention_s is None:
        return "compacted"
    time = f"{topic.retention_s // 86400} d" if topic.retention_s >= 86400 else f"{topic.retention_s // 3600} h"
    return time if topic.retention_bytes is None else f"{time}, at most {topic.retention_bytes >> 30} GiB a partition"


def page() -> str:
    """Return docs/topics.md with its table of all topics made of the code; the prose around it is the page's own."""
    before, _, rest = PAGE.read_text("utf-8").partition(_BEGIN)
    rows = ["| topic | content | messages | format | partitions | retention | written by | read by |", "|---" * 8 + "|"]
    for topic in TOPICS:
        cells = (
            f"`{topic.name}`", CONTENT.get(topic.name, ""), ", ".join(messages(topic)) or "–",
            "JSON" if topic.json else "protobuf", _PARTITIONS[topic.scheme], retention(topic),
            ", ".join(users(topic, "writes")), ", ".join(users(topic, "reads")),
        )  # fmt: skip
        rows.append("| " + " | ".join(cells) + " |")
    return before + _BEGIN + "\n".join(rows) + "\n" + _END + rest.partition(_END)[2]


def asyncapi() -> dict[str, Any]:
    """Return the AsyncAPI 3.0 document: a channel for each topic, and what parts of railsight do with it."""
    channels, operations = {}, {}
    for topic in TOPICS:
        channels[topic.name] = {
            "address": topic.name,
            "description": CONTENT.get(topic.name, ""),
            "messages": {name: _message(topic, name) for name in messages(topic)},
            "bindings": {"kafka": {"topicConfiguration": _configuration(topic), "bindingVersion": "0.5.0"}},
        }
        for attribute, action in (("writes", "send"), ("reads", "receive")):
            for part in users(topic, attribute):
                reference = {"$ref": f"#/channels/{topic.name}"}
                operations[f"{part}.{action}.{topic.name}"] = {"action": action, "channel": reference}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "railsight",
            "version": "1",
            "description": "Topics of railsight. Protobuf messages are in proto/streams/wire/v1.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
    }


def _message(topic: Topic, name: str) -> dict[str, Any]:
    if not topic.json:
        return {"name": name, "contentType": "application/x-protobuf"}
    found: dict[str, Any] = {"name": name, "contentType": "application/json"}
    found["payload"] = {"$ref": f"./schemas/{stem(topic)}.schema.json"}
    if topic.ce_type:
        found["headers"] = {
            "type": "object",
            "required": ["ce_specversion", "ce_id", "ce_source", "ce_type"],
            "properties": {"ce_type": {"const": topic.ce_type}, "ce_specversion": {"const": "1.0"}},
        }
    return found


def _configuration(topic: Topic) -> dict[str, Any]:
    found: dict[str, Any] = {"cleanup.policy": ["compact" if topic.retention_s is None else "delete"]}
    if topic.retention_s is not None:
        found["retention.ms"] = topic.retention_s * 1000
    if topic.retention_bytes is not None:
        found["retention.bytes"] = topic.retention_bytes
    return found


def asyncapi_text() -> str:
    """Return the document as its file has it."""
    return json.dumps(asyncapi(), indent=1, ensure_ascii=False) + "\n"
