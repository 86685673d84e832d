"""The reference has every setting, metric, topic, command and table, each with its meaning."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from streams.cli.commands import commands
from streams.detect.detectors import DETECTORS
from streams.fabric.catalogue import Metric
from streams.store.migrate import shipped_migrations
from streams.wire.topics import TOPICS
from tests.contract.docs import PAGES, commands_page, counters_page, operator_page, settings_page, topics_page
from tests.contract.docs.errors_page import found

DOCS = Path(__file__).parents[3] / "docs"
SECTIONS = settings_page.sections()
NUMBERS = dict(enumerate(("eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen"), 8))
COUNTED = re.compile(
    rf"((?:of (?:each of|the) )?(\d+|{'|'.join(NUMBERS.values())}) (?:Grafana )?(conditions|detectors|boards)\b)",
    re.IGNORECASE,
)
SETTINGS = [setting for section in SECTIONS for setting in section.settings]


@pytest.mark.parametrize("made", PAGES, ids=lambda m: m.PAGE.stem)
def test_a_page_is_that_of_the_code(made: Any) -> None:
    """`make docs` makes it again after a change."""
    assert made.page() == made.PAGE.read_text(encoding="utf-8")


def test_every_setting_is_in_the_page() -> None:
    """By the schema of the configuration, which is not the way in which the page is made."""
    page = settings_page.PAGE.read_text("utf-8")
    schema = settings_page.settings_model().model_json_schema()
    expected = set(settings_of(schema, schema, ""))
    known = operator_page.settings().keys()
    assert len(expected) > 200
    assert [path for path in expected if not {path, f"{path}_file"} & known] == []
    assert [one.name for one in SETTINGS if f"\n| `{one.name}` |" not in page] == []


def test_a_person_can_survey_the_settings() -> None:
    """At most 60 on the operator's page and 200 in all; the laboratory's collector `sim` has some of its own."""
    assert sum(map(len, operator_page.TASKS.values())) <= 60
    of_laboratory = [one for one in SETTINGS if one.path.startswith("collect.sim.")]
    assert len(SETTINGS) - len(of_laboratory) <= 200
    assert len(of_laboratory) <= 20


def test_counts_in_pages_are_those_of_the_registry() -> None:
    """The pages of one release have one number of conditions, detectors and boards; results of runs have their own."""
    boards = len(list((DOCS.parent / "dashboards/json").glob("*.json")))
    expected = {"conditions": len({one.condition for one in DETECTORS}), "detectors": len(DETECTORS), "boards": boards}
    found = [
        (page.name, words, count.lower(), what)
        for page in (DOCS.parent / "README.md", *DOCS.rglob("*.md"))
        for words, count, what in COUNTED.findall(page.read_text("utf-8"))
        if not words.startswith("of ")
    ]
    wrong = [one for one in found if one[2] not in (str(expected[one[3]]), NUMBERS.get(expected[one[3]]))]
    assert {what for *_, what in found} >= {"conditions", "boards"} and wrong == []


def settings_of(schema: dict[str, Any], node: dict[str, Any], path: str) -> Iterator[str]:
    """Yield the dotted paths of all settings below a node of a JSON Schema."""
    for name, value in node.get("properties", {}).items():
        options = value.get("anyOf", [value])
        references = [option["$ref"] for option in options if "$ref" in option]
        inner = [schema["$defs"][reference.rpartition("/")[2]] for reference in references]
        objects = [one for one in inner if one.get("type") == "object"]
        if objects:
            yield from settings_of(schema, objects[0], f"{path}.{name}".lstrip("."))
        else:
            yield f"{path}.{name}".lstrip(".")


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.path)
def test_a_setting_has_a_meaning_a_default_and_a_unit(setting: settings_page.Setting) -> None:
    """A number has a unit by the end of its name, or by UNITS_BY_NAME."""
    assert setting.meaning and setting.default and setting.type != "value"
    assert setting.unit != "?"
    assert not setting.type.startswith(("number", "integer")) or setting.unit


def test_every_section_has_a_meaning() -> None:
    """The first sentence of the section's model."""
    assert [section.paths for section in SECTIONS if not section.meaning] == []


def test_every_command_and_option_is_in_the_page() -> None:
    """Also those of groups, and each has a line of help."""
    page = commands_page.PAGE.read_text("utf-8")
    entries = list(commands_page.entries())
    assert {entry.name for entry in entries} >= {command.name for command in commands()}
    for entry in entries:
        assert re.search(rf"^#+ railsight {re.escape(entry.name)}$", page, re.MULTILINE), entry.name
        assert entry.command.help, entry.name
        undocumented = [one.name for one in entry.command.params if not one.help and "--help" not in one.opts]
        assert undocumented == [], entry.name


def test_every_metric_is_in_the_page() -> None:
    """Each metric of the catalogue once."""
    names = re.findall(r"^\| `(\w+)` \| \d+ \|", counters_page.PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(names) == sorted(metric.name.lower() for metric in Metric)


def test_every_topic_is_in_the_page_with_its_content() -> None:
    """And no topic that the registry does not have."""
    assert set(topics_page.CONTENT) == {topic.name for topic in TOPICS}
    page = topics_page.PAGE.read_text("utf-8").partition("## All topics")[2]
    assert re.findall(r"^\| `([\w.-]+)` \|", page, re.MULTILINE) == [topic.name for topic in TOPICS]


def test_every_table_and_view_is_in_the_page() -> None:
    """By the statements of the shipped migrations."""
    created: set[str] = set()
    for migration in shipped_migrations():
        for statement in migration.statements():
            created |= set(re.findall(r"CREATE (?:TABLE|(?:OR REPLACE )?VIEW)(?: IF NOT EXISTS)? (\w+)", statement))
            created -= set(re.findall(r"DROP (?:TABLE|VIEW)(?: IF EXISTS)? (\w+)", statement))
    assert len(created) > 20
    documented = set(re.findall(r"^### (\w+)$", (DOCS / "tables.md").read_text("utf-8"), re.MULTILINE))
    assert created - documented == set()


def test_the_asyncapi_document_is_that_of_the_code() -> None:
    """Each topic is a channel; references inside lead to something, those outside to a JSON Schema."""
    text = topics_page.ASYNCAPI.read_text("utf-8")
    assert text == topics_page.asyncapi_text()
    document = json.loads(text)
    assert document["asyncapi"] == "3.0.0"
    assert set(document["channels"]) == {topic.name for topic in TOPICS}
    for operation in document["operations"].values():
        assert operation["channel"]["$ref"].removeprefix("#/channels/") in document["channels"]
    for channel in document["channels"].values():
        for message in channel["messages"].values():
            if payload := message.get("payload"):
                schema = json.loads((topics_page.ASYNCAPI.parent / payload["$ref"]).read_text("utf-8"))
                jsonschema.Draft202012Validator.check_schema(schema)


def test_the_errors_have_a_text_and_a_module() -> None:
    """The search finds the messages of every room; each starts in lower case or with a name, as all our lines do."""
    messages = found()
    assert len(messages) > 100
    assert {message.module.partition("/")[0] for message in messages} == {"streams", "collectors", "lab"}
    assert {message.code for message in messages} == {1, 2}
