"""`railsight acl print|apply|check`: the least ACLs of each part of railsight, derived from what the parts do."""

import asyncio
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.collector_registry import collector_access, collector_params
from streams.cli.options import AsJson, Bootstrap, Config, load_with_login
from streams.cli.printing import print_text
from streams.cli.tables import Output, OutputForm, form_of, print_table
from streams.config.settings import Settings, load
from streams.runtime.access_admin import open_access_admin
from streams.runtime.acl import Acl, Comparison, accesses, compare, derive, principals
from streams.wire.access import ADMIN

acl = typer.Typer(no_args_is_help=True, help="Print, apply or check the ACLs of Kafka.")

Part = Annotated[str | None, typer.Option("--part", help="Only this part, e.g. persist.")]


@acl.command("print")
def print_acls(
    config: Config = None, part: Part = None, output: OutputForm = Output.TABLE, as_json: AsJson = False
) -> None:
    """Print the ACLs that the parts need, one a line.

    Examples: `railsight acl print --part persist`, `railsight acl print -o wide`.
    """
    form, rows = form_of(output, as_json), [_row(one) for one in _needed(_settings(config, None), part)]
    if form is Output.JSON:
        for row in rows:
            typer.echo(json.dumps(row))
    else:
        print_table([name.upper() for name in rows[0]], [list(row.values()) for row in rows], form)


@acl.command()
def apply(
    config: Config = None,
    bootstrap: Bootstrap = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Also delete ACLs of the parts' principals that no part needs.")
    ] = False,
) -> None:
    """Create the missing ACLs; needs the principal `admin`, or another that may alter the cluster.

    Example: `railsight acl apply --config railsight.toml --prune`.
    """
    settings = _settings(config, bootstrap)

    async def change() -> Comparison:
        async with open_access_admin(settings.kafka.client_options()) as admin:
            difference = compare(_needed(settings, None), await admin.acls())
            if difference.missing:
                await admin.create(difference.missing)
            if prune and (obsolete := (*difference.too_wide, *difference.denied)):
                await admin.delete(obsolete)
            return difference

    difference = asyncio.run(change())
    _echo("created", difference.missing)
    _echo("deleted" if prune else "not needed, and still there (--prune deletes it)", difference.too_wide)
    _echo("deleted" if prune else "denies what a part needs (--prune deletes it)", difference.denied)
    if not difference:
        typer.echo("nothing to change")


@acl.command()
def check(config: Config = None, bootstrap: Bootstrap = None) -> None:
    """Compare the brokers' ACLs with what the parts need; exit 1 if one is missing or too wide.

    Example: `railsight acl check --config railsight.toml`.
    """
    settings = _settings(config, bootstrap)

    async def read() -> list[Acl]:
        async with open_access_admin(settings.kafka.client_options()) as admin:
            return await admin.acls()

    needed = _needed(settings, None)
    difference = compare(needed, asyncio.run(read()))
    _echo("missing", difference.missing)
    _echo("too wide", difference.too_wide)
    _echo("denies what a part needs", difference.denied)
    if difference:
        raise typer.Exit(1)
    typer.echo(f"{len(needed)} ACLs, as needed")


def _settings(config: Path | None, bootstrap: str | None) -> Settings:
    """Return the settings with those of the collectors, whose topics and groups count, and the login of `admin`."""
    params = collector_params()
    settings = load_with_login(bootstrap, dict(os.environ), lambda environ: load(config, params, environ))
    return settings.model_copy(update={"kafka": settings.kafka.of_part(ADMIN)})


def _needed(settings: Settings, part: str | None) -> list[Acl]:
    needs = accesses(settings, collector_access(settings))
    if part is not None and part not in needs:
        raise typer.BadParameter(f"one of {', '.join(needs)}", param_hint="--part")
    chosen = needs if part is None else {part: needs[part]}
    return derive(chosen, principals(settings.kafka, chosen))


def _echo(what: str, acls: Iterable[Acl]) -> None:
    for one in acls:
        print_text(f"{what}: {one}")


def _row(one: Acl) -> dict[str, str]:
    return {
        "principal": one.principal,
        "operation": one.operation.name,
        "resource": one.resource.name,
        "name": one.name,
        "pattern": one.pattern.name,
    }
