"""Defines `railsight broker` and `clickhouse`, which run an embedded server until a signal or its own end."""

import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.options import Config, WithoutSandbox, collector_access, collector_params, settings_of
from streams.cli.printing import fail, print_text
from streams.config.settings import load
from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse, Limits, User
from streams.embedded.clickhouse.params import WITHOUT_SANDBOX
from streams.embedded.directories import data_directory
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.passwords import read_password
from streams.embedded.running_instances import forget_broker, record_broker
from streams.runtime.access_admin import BrokerLogin, create_users, secure
from streams.runtime.acl import accesses
from streams.runtime.foreground import foreground
from streams.wire.errors import Misconfigured
from streams.wire.topics import Access


def broker(
    data: Annotated[Path | None, typer.Option(help="Data folder; default: in the user's data folder.")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65533, help="Port of the first broker; default: a free one, then the same.")
    ] = None,
    brokers: Annotated[int | None, typer.Option(help="Number of brokers: 1 or 3; default: 1.")] = None,
    jars: Annotated[
        Path | None, typer.Option(help="Folder of the broker's jars, for a machine without a network.")
    ] = None,
    config: Config = None,
    security: Annotated[
        str | None,
        typer.Option(help="password: users and ACLs; tls: the same over TLS; none: neither; default: password."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as one line of JSON.")] = False,
) -> None:
    """Run Apache Kafka on this machine, on loopback, and print its bootstrap address once it accepts requests.

    Examples: `railsight broker`, `railsight broker --security tls --port 9092`.
    """
    if brokers not in (None, 1, 3):
        raise typer.BadParameter("1 or 3", param_hint="--brokers")
    if security not in (None, "none", "password", "tls"):
        raise typer.BadParameter("none, password or tls", param_hint="--security")
    given = {"data": data, "port": port, "brokers": brokers, "jars": jars, "security": security}
    settings = settings_of(config)
    params = settings.embedded.kafka.model_copy(
        update={name: value for name, value in given.items() if value is not None}
    )
    ended: list[int] = []
    try:
        found, login = secure(params, params.data or data_directory() / "kafka")
        kafka = EmbeddedKafka(params, found)
        with foreground(kafka.stop), ThreadPoolExecutor(1) as pool:
            # Imports the collectors' libraries meanwhile, which takes as long as the broker's start.
            needs = None if login is None else pool.submit(_needs, config)
            kafka.start()
            if login is not None and needs is not None:
                asyncio.run(create_users(kafka, login, needs.result()))
            with _known(kafka.bootstrap, login):
                print(_address(kafka, login, as_json), flush=True)  # noqa: T201 — the output of the command
                if login is not None and not as_json:
                    print_text(_hint(kafka.bootstrap, login), err=True)
                while not (ended := kafka.ended()):
                    signal.sigtimedwait((), 1.0)
    except Misconfigured as error:
        fail("broker", error, 2)
    if ended:
        fail("broker", f"broker {ended[0]} ended on its own; see {kafka.data}/node-{ended[0]}/server.log")


def _needs(config: Path | None) -> dict[str, Access]:
    """Return the access of all parts to Kafka."""
    settings = load(config, collector_params())
    return accesses(settings, collector_access(settings))


@contextmanager
def _known(bootstrap: str, login: BrokerLogin | None) -> Iterator[None]:
    """Record the login for commands with this address in --bootstrap."""
    if login is None:
        yield
        return
    record_broker(bootstrap, login.settings())
    try:
        yield
    finally:
        forget_broker(bootstrap)


def _address(kafka: EmbeddedKafka, login: BrokerLogin | None, as_json: bool) -> str:
    if not as_json:
        return kafka.bootstrap
    fields: dict[str, object] = {"bootstrap": kafka.bootstrap, "data": str(kafka.data)}
    if login is not None:
        fields |= {"login": login.settings(), "kcat": str(login.kcat)}
    return json.dumps(fields)


def _hint(bootstrap: str, login: BrokerLogin) -> str:
    return (
        f"users and their passwords: {login.folder}\n"
        f"`railsight COMMAND --bootstrap {bootstrap}` finds them\n"
        f"findings by `kcat -F {login.kcat} -C -t railsight.findings.v1`"
    )


def clickhouse(
    data: Annotated[Path | None, typer.Option(help="Data folder; default: in the user's data folder.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port; default: a free one.")] = None,
    user: Annotated[str, typer.Option(help="User with all rights.")] = "default",
    password_file: Annotated[
        Path | None, typer.Option(help="File with that user's password; default: one is made, in the data folder.")
    ] = None,
    read_only_user: Annotated[str | None, typer.Option(help="User with read-only rights.")] = None,
    read_only_password_file: Annotated[
        Path | None, typer.Option(help="File with that user's password; default: one is made.")
    ] = None,
    host_name: Annotated[
        list[str] | None, typer.Option(help="A name by which clients reach the server, besides those of loopback.")
    ] = None,
    memory_mib: Annotated[int, typer.Option(min=512, help="Memory limit of the server.")] = 8192,
    queries: Annotated[int, typer.Option(min=1, help="Limit of concurrent queries of each user.")] = 32,
    without_sandbox: WithoutSandbox = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the URL as one line of JSON.")] = False,
) -> None:
    """Run ClickHouse on this machine, on loopback, and print its URL once it answers.

    Example: `railsight clickhouse --port 8123`.
    """
    ended: int | None = None
    try:
        users = [User(user, _password(password_file))]
        if read_only_user is not None:
            users.append(User(read_only_user, _password(read_only_password_file), read_only=True))
        _require_passwords(host, users)
        memory = memory_mib << 20
        limits = Limits(server_memory_bytes=memory, query_memory_bytes=memory // 2, concurrent_queries=queries)
        params = ClickHouseParams(data, host, port, tuple(users), tuple(host_name or ()), limits, without_sandbox)
        server = EmbeddedClickHouse(params)
        if without_sandbox:
            print_text(f"railsight: {WITHOUT_SANDBOX}", err=True)
        with foreground(server.stop):
            server.start()
            _print_address(server, as_json=as_json, made=password_file is None)
            while (ended := server.wait(1.0)) is None:
                continue
    except Misconfigured as error:
        fail("clickhouse", error, 2)
    if ended is not None:
        fail("clickhouse", f"the server ended on its own; see {server.log}")


def _password(file: Path | None) -> str:
    """Return the password in the file, or an empty text without a file, so that a password is made."""
    return "" if file is None else read_password(file)


def _require_passwords(host: str, users: list[User]) -> None:
    if host in {"127.0.0.1", "::1", "localhost"}:
        return
    for user in users:
        if not user.password:
            raise Misconfigured(f"the user {user.name} needs a password to be reached on {host}: give a password file")


def _print_address(server: EmbeddedClickHouse, *, as_json: bool, made: bool) -> None:
    """Print the URL and the file of the password; print the password itself only on a terminal."""
    if as_json:
        fields = {
            "url": server.url, "data": str(server.data),
            "user": server.user, "password_file": str(server.password_file),
        }  # fmt: skip
        print(json.dumps(fields), flush=True)  # noqa: T201 — the output of the command
        return
    print(server.url, flush=True)  # noqa: T201 — the output of the command
    if made:
        shown = f"password {server.password}, " if sys.stdout.isatty() else "password "
        print(f"user {server.user}, {shown}in {server.password_file}", flush=True)  # noqa: T201 — the output of the command
