"""`railsight explain ID`: prints one finding with its evidence, the findings it explains, and the decisions on it."""

from typing import Annotated

import typer

from streams.cli.options import AsJson, Bootstrap, Config, settings_of
from streams.cli.printing import echo, print_text
from streams.report.explanation import NoSuchFinding, explain_finding
from streams.store.clickhouse import ClickHouse
from streams.wire.access import READER


def explain(
    identity: Annotated[str, typer.Argument(metavar="ID", help="Id of a finding, or a prefix of it.")],
    config: Config = None,
    bootstrap: Bootstrap = None,
    samples: Annotated[bool, typer.Option(help="Print the samples behind the evidence, from ClickHouse.")] = True,
    as_json: AsJson = False,
) -> None:
    """Print one finding with its evidence; exit 1 if no finding, or more than one, has this id.

    Examples: `railsight explain 17f22e`, `railsight explain 17f22e --no-samples`.
    """
    settings = settings_of(config, bootstrap, READER)
    clickhouse = ClickHouse(settings.store)
    try:
        explanation = explain_finding(settings.kafka, clickhouse, identity, samples=samples)
    except NoSuchFinding as error:
        print_text(f"railsight explain: {error}", err=True)
        raise typer.Exit(1) from error
    finally:
        clickhouse.close()
    if explanation.no_samples:
        print_text(f"railsight explain: no samples: {explanation.no_samples}", err=True)
    if as_json:
        import orjson

        echo(orjson.dumps(explanation.as_dict()))
        return
    for line in explanation.lines():
        print_text(line)
