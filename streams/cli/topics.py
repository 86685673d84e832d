"""`railsight topics`: creates the topics of the registry, or lists them as they are on the brokers."""

import asyncio
import json
from typing import Annotated

import typer

from streams.cli.options import AsJson, Bootstrap, Config, settings_of
from streams.cli.tables import Cell, Output, OutputForm, form_of, print_table
from streams.runtime.admin import TopicState, ensure_topics, list_topics, until_ready
from streams.wire.access import ADMIN

READY_TIMEOUT_S = 10.0


def topics(
    config: Config = None,
    bootstrap: Bootstrap = None,
    only_list: Annotated[bool, typer.Option("--list", help="Only list; exit 1 if one is missing or differs.")] = False,
    output: OutputForm = Output.TABLE,
    as_json: AsJson = False,
) -> None:
    """Create the missing topics, and print the number of partitions of each.

    Examples: `railsight topics`, `railsight topics --list -o json`.
    """
    kafka = settings_of(config, bootstrap, ADMIN).kafka

    async def states() -> list[TopicState]:
        await until_ready(kafka, READY_TIMEOUT_S)
        return await (list_topics(kafka) if only_list else ensure_topics(kafka))

    found = asyncio.run(states())
    form = form_of(output, as_json)
    if form is Output.JSON:
        for state in found:
            typer.echo(json.dumps(_row(state)))
    else:
        print_table(["TOPIC", "PARTITIONS", "EXPECTED", "STATE"], [_cells(state) for state in found], form)
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


def _cells(state: TopicState) -> list[Cell | str]:
    text = state.problem or ("created" if state.created else "well")
    color = typer.colors.RED if state.problem else typer.colors.GREEN
    return [state.topic.name, "-" if state.partitions is None else str(state.partitions), str(state.expected),
            Cell(text, color)]  # fmt: skip
