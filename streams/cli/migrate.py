"""`railsight migrate`: brings the tables of ClickHouse up to date, or prints the statements."""

from typing import Annotated

import typer

from streams.cli.options import AsJson, Config, settings_of


def migrate(
    config: Config = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the statements and run none.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create the database and apply the missing migrations."""
    from streams.store.clickhouse import ClickHouse
    from streams.store.migrate import apply, pending_migrations, shipped_migrations

    clickhouse = ClickHouse(settings_of(config).store)
    try:
        migrations = shipped_migrations()
        todo = pending_migrations(clickhouse, migrations) if dry_run else apply(clickhouse, migrations)
    finally:
        clickhouse.close()
    for migration in todo:
        if as_json:
            typer.echo(f'{{"migration":"{migration.name}","digest":"{migration.digest}"}}')
        elif dry_run:
            typer.echo(f"-- {migration.name}")
            for statement in migration.statements():
                typer.echo(f"{statement};")
        else:
            typer.echo(migration.name)
    if not todo and not as_json:
        typer.echo("up to date")
