"""`railsight topics`: creates the topics of the registry, or lists them as they are on the brokers."""

import asyncio
import json
from typing import Annotated

import typer

from streams.cli.options import AsJson, Bootstrap, Config, settings_of
from streams.runtime.admin import TopicState, ensure_topics, list_topics, until_ready
from streams.wire.access import ADMIN

READY_TIMEOUT_S = 10.0


def topics(
    config: Config = None,
    bootstrap: Bootstrap = None,
    only_list: Annotated[bool, typer.Option("--list", help="Only list; exit 1 if one is missing or differs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create the missing topics, and print the number of partitions of each."""
    kafka = settings_of(config, bootstrap, ADMIN).kafka

    async def states() -> list[TopicState]:
        await until_ready(kafka, READY_TIMEOUT_S)
        return await (list_topics(kafka) if only_list else ensure_topics(kafka))

    found = asyncio.run(states())
    for state in found:
        typer.echo(json.dumps(_row(state)) if as_json else _line(state))
    if any(state.problem for state in found):
        raise typer.Exit(1)


def _row(state: TopicState) -> dict[str, object]:
    return {
        "topic": state.topic.name,
        "partitions": state.partitions,
        "expected": state.expected,
        "created": state.created,
        "problem": state.problem,
    }


def _line(state: TopicState) -> str:
    text = state.problem or f"{state.partitions} partition{'s' if state.expected > 1 else ''}"
    return f"{state.topic.name:40} {text}{', created' if state.created else ''}"
