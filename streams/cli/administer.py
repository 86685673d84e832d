"""Defines `railsight topics`, `acl`, `migrate` and `key`: topics, rights, tables and keys."""

import asyncio
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.options import (
    AsJson,
    Bootstrap,
    Config,
    collector_access,
    collector_params,
    load_with_login,
    settings_of,
)
from streams.cli.printing import Cell, Output, OutputForm, echo, form_of, print_rows, print_text, progress
from streams.config.settings import Settings, load
from streams.runtime.access_admin import open_access_admin
from streams.runtime.acl import Acl, Comparison, Quota, accesses, compare, derive, derive_quotas, principals
from streams.runtime.admin import TopicState, ensure_topics, list_topics, until_ready
from streams.wire.errors import Misconfigured
from streams.wire.topics import ADMIN

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

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
    header = ["TOPIC", "PARTITIONS", "EXPECTED", "STATE"]
    print_rows(form_of(output, as_json), found, lambda state: json.dumps(_topic_row(state)), header, _topic_cells)
    if any(state.problem for state in found):
        raise typer.Exit(1)


def _topic_row(state: TopicState) -> dict[str, object]:
    return {
        "topic": state.topic.name,
        "partitions": state.partitions,
        "expected": state.expected,
        "created": state.created,
        "problem": state.problem,
    }


def _topic_cells(state: TopicState) -> list[Cell | str]:
    text = state.problem or ("created" if state.created else "well")
    color = typer.colors.RED if state.problem else typer.colors.GREEN
    return [state.topic.name, "-" if state.partitions is None else str(state.partitions), str(state.expected),
            Cell(text, color)]  # fmt: skip


acl = typer.Typer(no_args_is_help=True, help="Print, apply or check the ACLs of Kafka.")

Part = Annotated[str | None, typer.Option("--part", help="Only this part, e.g. persist.")]


@acl.command("print")
def print_acls(
    config: Config = None, part: Part = None, output: OutputForm = Output.TABLE, as_json: AsJson = False
) -> None:
    """Print the ACLs that the parts need, one a line.

    Examples: `railsight acl print --part persist`, `railsight acl print -o wide`.
    """
    rows = [_acl_row(one) for one in _needed(_admin_settings(config, None), part)]
    print_rows(form_of(output, as_json), rows, json.dumps, [name.upper() for name in rows[0]], _values)


def _values(row: dict[str, str]) -> list[str]:
    return list(row.values())


@acl.command()
def apply(
    config: Config = None,
    bootstrap: Bootstrap = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Also delete ACLs of the parts' principals that no part needs.")
    ] = False,
) -> None:
    """Create the missing ACLs and quotas; needs the principal `admin`, or another that may alter the cluster.

    Example: `railsight acl apply --config railsight.toml --prune`.
    """
    settings = _admin_settings(config, bootstrap)

    async def change() -> tuple[Comparison, list[Quota]]:
        async with open_access_admin(settings.kafka.client_options()) as admin:
            if unset := _unset_quotas(settings, await admin.quotas()):
                await admin.set_quotas(unset)
            difference = compare(_needed(settings, None), await admin.acls())
            if difference.missing:
                await admin.create(difference.missing)
            if prune and (obsolete := (*difference.too_wide, *difference.denied)):
                await admin.delete(obsolete)
            return difference, unset

    difference, unset = asyncio.run(change())
    _print_acls("set", unset)
    _print_acls("created", difference.missing)
    _print_acls("deleted" if prune else "not needed, and still there (--prune deletes it)", difference.too_wide)
    _print_acls("deleted" if prune else "denies what a part needs (--prune deletes it)", difference.denied)
    if not (difference or unset):
        echo("nothing to change")


@acl.command()
def check(config: Config = None, bootstrap: Bootstrap = None) -> None:
    """Compare the brokers' ACLs and quotas with what the parts need; exit 1 if one is missing or differs.

    Example: `railsight acl check --config railsight.toml`.
    """
    settings = _admin_settings(config, bootstrap)

    async def read() -> tuple[list[Acl], list[Quota]]:
        async with open_access_admin(settings.kafka.client_options()) as admin:
            return await admin.acls(), await admin.quotas()

    needed = _needed(settings, None)
    found, quotas = asyncio.run(read())
    difference, unset = compare(needed, found), _unset_quotas(settings, quotas)
    _print_acls("missing", difference.missing)
    _print_acls("too wide", difference.too_wide)
    _print_acls("denies what a part needs", difference.denied)
    _print_acls("not set", unset)
    if difference or unset:
        raise typer.Exit(1)
    echo(f"{len(needed)} ACLs, as needed")


def _admin_settings(config: Path | None, bootstrap: str | None) -> Settings:
    """Return the settings with the login of `admin` and the collectors' settings, which have topics and groups."""
    params = collector_params()
    settings = load_with_login(bootstrap, dict(os.environ), lambda environ: load(config, params, environ))
    return settings.model_copy(update={"kafka": settings.kafka.of_part(ADMIN)})


def _needed(settings: Settings, part: str | None) -> list[Acl]:
    needs = accesses(settings, collector_access(settings))
    if part is not None and part not in needs:
        raise typer.BadParameter(f"one of {', '.join(needs)}", param_hint="--part")
    chosen = needs if part is None else {part: needs[part]}
    return derive(chosen, principals(settings.kafka, chosen))


def _unset_quotas(settings: Settings, present: Iterable[Quota]) -> list[Quota]:
    """Return the quotas that the brokers do not have, or only with a higher rate; a lower one is the site's own."""
    rates = {(one.user, one.name): one.bytes_per_s for one in present}
    parts = accesses(settings, collector_access(settings))
    own = derive_quotas(principals(settings.kafka, parts))
    return [one for one in own if rates.get((one.user, one.name), one.bytes_per_s + 1) > one.bytes_per_s]


def _print_acls(what: str, acls: Iterable[Acl | Quota]) -> None:
    for one in acls:
        print_text(f"{what}: {one}")


def _acl_row(one: Acl) -> dict[str, str]:
    return {
        "principal": one.principal,
        "operation": one.operation.name,
        "resource": one.resource.name,
        "name": one.name,
        "pattern": one.pattern.name,
    }


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
            echo(f'{{"migration":"{migration.name}","digest":"{migration.digest}"}}')
        elif dry_run:
            echo(f"-- {migration.name}")
            for statement in migration.statements():
                for rendered in render(statement, params):
                    print_text(f"{rendered};")
        else:
            echo(migration.name)
    for statement in others if dry_run and not as_json else ():
        print_text(f"{statement};")
    if not todo and not others and not as_json:
        echo("up to date")


File = Annotated[Path, typer.Argument(metavar="FILE", help="The file of the private key (PEM).")]

key = typer.Typer(no_args_is_help=True, help="Make the keys of controls and of telemetry.")


@key.command()
def new(file: File) -> None:
    """Write a new Ed25519 private key, readable by its owner only, and print the public key, and its id to stderr.

    Example: `railsight key new operator.pem`.
    """
    from streams.wire.signatures import load_private_key, new_private_key

    pem = new_private_key()
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise Misconfigured(f"cannot create {file}: {error.strerror}") from error
    with os.fdopen(descriptor, "wb") as out:
        out.write(pem)
    _print_public(load_private_key(pem, str(file)))


def _print_public(private: "Ed25519PrivateKey") -> None:
    """Print the public key for `trusted_keys`, and its id, which is in records and rejections, to standard error."""
    from streams.wire.signatures import key_id, public_text

    public = public_text(private)
    echo(public)
    print_text(f"key id {key_id(public)}", err=True)


@key.command()
def show(file: File) -> None:
    """Print the public key of a private key, for `trusted_keys`, and its id to stderr.

    Example: `railsight key show operator.pem`.
    """
    from streams.wire.signatures import load_private_key

    try:
        pem = file.read_bytes()
    except OSError as error:
        raise Misconfigured(f"cannot read {file}: {error.strerror}") from error
    _print_public(load_private_key(pem, str(file)))


@key.command()
def secret(file: Annotated[Path, typer.Argument(metavar="FILE", help="The file of the fabric's secrets.")]) -> None:
    """Make the secret of the fabric, from which the keys of telemetry are derived; a second call rotates it.

    The file then has the new secret and the former one, whose keys remain valid. The next call removes the former one.
    Example: `railsight key secret /etc/railsight/identity-secret`.
    """
    from streams.embedded.directories import write_private
    from streams.wire.identity import MAX_SECRETS, new_secret, read_secrets

    secrets = [new_secret(), *(read_secrets(file) if file.exists() else ())][:MAX_SECRETS]
    try:
        write_private(file, "".join(f"{one.value.hex()}\n" for one in secrets))
    except OSError as error:
        raise Misconfigured(f"cannot write {file}: {error.strerror}") from error
    print_text(f"secret {secrets[0].id.hex()}", err=True)


@key.command()
def issue(
    names: Annotated[
        list[str],
        typer.Argument(metavar="PRINCIPAL...", help="host/NAME, prober/NAME, collector/GLOB,GLOB or bridge/GLOB."),
    ],
    file: Annotated[Path | None, typer.Option("--secret-file", help="Default: identity.secret_file.")] = None,
    config: Config = None,
) -> None:
    """Print a key of telemetry for each principal, a line of a key file: what it names, it may report on.

    Examples: `railsight key issue host/gpu-17 > gpu-17.key`, `railsight key issue 'collector/leaf*,spine*'`.
    """
    from streams.wire.identity import read_secrets

    path = file or settings_of(config).identity.secret_file
    if path is None:
        raise Misconfigured("identity.secret_file: not set; pass --secret-file or --config")
    current = read_secrets(path)[0]
    for line in [current.key_of(name).line for name in names]:
        echo(line)
