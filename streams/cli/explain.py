"""`railsight explain ID`: one finding with its evidence, what it explains, and what was decided for it."""

import asyncio
from typing import Annotated

import typer

from streams.cli import shown
from streams.cli.found import findings_like, newest, remediations_of
from streams.cli.options import AsJson, Bootstrap, Config, settings_of
from streams.wire import codec


def explain(
    identity: Annotated[str, typer.Argument(metavar="ID", help="Id of a finding, or how it begins.")],
    config: Config = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Print one finding with all that speaks for it; exit 1 if there is none of this id."""
    kafka = settings_of(config, bootstrap).kafka
    revisions = asyncio.run(findings_like(kafka, identity))
    last = newest(revisions)
    own = [finding for finding in last.values() if finding.id.startswith(identity)]
    if len(own) != 1:
        many = ", ".join(finding.id for finding in own)
        typer.echo(f"railsight explain: {'several: ' + many if own else f'no finding {identity}'}", err=True)
        raise typer.Exit(1)
    finding = own[0]
    if as_json:
        typer.echo(codec.to_json(finding))
        return
    children = [child for child in last.values() if child.parent_id == finding.id]
    remediations = asyncio.run(remediations_of(kafka, finding.id))
    count = sum(revision.id == finding.id for revision in revisions)
    for text in shown.whole(finding, children, remediations, count):
        typer.echo(text)
