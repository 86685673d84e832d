"""`railsight clickhouse`: runs the embedded ClickHouse alone, until Ctrl-C, SIGTERM or its own end."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.printing import print_text
from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse, Limits, User
from streams.embedded.passwords import read_password
from streams.runtime.foreground import foreground
from streams.wire.errors import Misconfigured


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
    queries: Annotated[int, typer.Option(min=1, help="Limit of concurrent queries.")] = 32,
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
        server = EmbeddedClickHouse(ClickHouseParams(data, host, port, tuple(users), tuple(host_name or ()), limits))
        with foreground(server.stop):
            server.start()
            _print_address(server, as_json=as_json, made=password_file is None)
            while (ended := server.wait(1.0)) is None:
                continue
    except Misconfigured as error:
        print_text(f"railsight clickhouse: {error}", err=True)
        raise typer.Exit(2) from error
    if ended is not None:
        print_text(f"railsight clickhouse: the server ended on its own; see {server.log}", err=True)
        raise typer.Exit(1)


def _password(file: Path | None) -> str:
    """Return the password in the file; empty without one, so that a password is made."""
    return "" if file is None else read_password(file)


def _require_passwords(host: str, users: list[User]) -> None:
    if host in {"127.0.0.1", "::1", "localhost"}:
        return
    for user in users:
        if not user.password:
            raise Misconfigured(f"the user {user.name} needs a password to be reached on {host}: give a password file")


def _print_address(server: EmbeddedClickHouse, *, as_json: bool, made: bool) -> None:
    """Print the URL, and where the password is; the password itself is printed on a terminal only."""
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
