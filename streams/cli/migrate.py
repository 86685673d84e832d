"""`railsight migrate`: brings the tables, their retention and the users of ClickHouse up to date, or prints the SQL."""

from pathlib import Path
from typing import Annotated

import typer

from streams.cli.options import AsJson, Config, settings_of
from streams.cli.progress import progress

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the statements and run none.")]
Users = Annotated[
    Path | None,
    typer.Option(
        help="Also create the users railsight_sink, railsight_migrator and railsight_reader, with the least rights;"
        " their passwords are in files of these names in this folder, which are made where they are missing."
    ),
]


def migrate(config: Config = None, dry_run: DryRun = False, users: Users = None, as_json: AsJson = False) -> None:
    """Create the database, apply the missing migrations, and set the retention of tables.

    Examples: `railsight migrate --config railsight.toml`, `railsight migrate --dry-run`.
    """
    from streams.store.clickhouse import ClickHouse
    from streams.store.migrate import apply, pending_migrations, shipped_migrations
    from streams.store.schema_form import render, retention_statements
    from streams.store.users import PLACEHOLDERS, read_passwords, user_statements

    params = settings_of(config).store
    clickhouse = ClickHouse(params)
    try:
        migrations = shipped_migrations()
        with progress("migrate") as bar:
            todo = (
                pending_migrations(clickhouse, migrations)
                if dry_run
                else apply(clickhouse, migrations, params, lambda one: bar.step(one.name))
            )
        retention = [] if dry_run and todo else list(retention_statements(clickhouse, params))
        passwords = PLACEHOLDERS if users is None or dry_run else read_passwords(users)
        others = [*retention, *(user_statements(params, passwords) if users is not None else ())]
        for statement in others if not dry_run else ():
            clickhouse.command(statement)
    finally:
        clickhouse.close()
    for migration in todo:
        if as_json:
            typer.echo(f'{{"migration":"{migration.name}","digest":"{migration.digest}"}}')
        elif dry_run:
            typer.echo(f"-- {migration.name}")
            for statement in migration.statements():
                for rendered in render(statement, params):
                    typer.echo(f"{rendered};")
        else:
            typer.echo(migration.name)
    for statement in others if dry_run and not as_json else ():
        typer.echo(f"{statement};")
    if not todo and not others and not as_json:
        typer.echo("up to date")
