"""`railsight clickhouse`: runs the embedded ClickHouse alone, until Ctrl-C, SIGTERM or its own end."""

import json
from pathlib import Path
from typing import Annotated

import typer

from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse, Limits, User
from streams.runtime.foreground import foreground
from streams.wire.errors import Misconfigured


def clickhouse(
    data: Annotated[Path | None, typer.Option(help="Data folder; default: in the user's data folder.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port; default: a free one.")] = None,
    user: Annotated[str, typer.Option(help="User with all rights.")] = "default",
    password_file: Annotated[
        Path | None, typer.Option(help="File with that user's password; default: no password.")
    ] = None,
    read_only_user: Annotated[str | None, typer.Option(help="User with read-only rights.")] = None,
    read_only_password_file: Annotated[Path | None, typer.Option(help="File with that user's password.")] = None,
    memory_mib: Annotated[int, typer.Option(min=512, help="Memory limit of the server.")] = 8192,
    queries: Annotated[int, typer.Option(min=1, help="Limit of concurrent queries.")] = 32,
    as_json: Annotated[bool, typer.Option("--json", help="Print the URL as one line of JSON.")] = False,
) -> None:
    """Run ClickHouse on this machine, on loopback, and print its URL once it answers."""
    ended: int | None = None
    try:
        users = [User(user, _password(password_file))]
        if read_only_user is not None:
            users.append(User(read_only_user, _password(read_only_password_file), read_only=True))
        _require_passwords(host, users)
        memory = memory_mib << 20
        limits = Limits(server_memory_bytes=memory, query_memory_bytes=memory // 2, concurrent_queries=queries)
        server = EmbeddedClickHouse(ClickHouseParams(data, host, port, tuple(users), limits))
        with foreground(server.stop):
            server.start()
            print(json.dumps({"url": server.url, "data": str(server.data)}) if as_json else server.url, flush=True)  # noqa: T201 — the output of the command
            while (ended := server.wait(1.0)) is None:
                continue
    except Misconfigured as error:
        typer.echo(f"railsight clickhouse: {error}", err=True)
        raise typer.Exit(2) from error
    if ended is not None:
        typer.echo(f"railsight clickhouse: the server ended on its own; see {server.log}", err=True)
        raise typer.Exit(1)


def _password(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        return file.read_text().strip("\r\n")
    except OSError as error:
        raise Misconfigured(f"cannot read the password file {file}: {error.strerror}") from error


def _require_passwords(host: str, users: list[User]) -> None:
    if host in {"127.0.0.1", "::1", "localhost"}:
        return
    for user in users:
        if not user.password:
            raise Misconfigured(f"the user {user.name} needs a password to be reached on {host}: give a password file")
