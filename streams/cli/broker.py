"""`railsight broker`: runs the embedded Kafka alone, until Ctrl-C, SIGTERM or the end of a broker."""

import asyncio
import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.collector_registry import collector_access, collector_params
from streams.cli.options import Config, settings_of
from streams.cli.printing import print_text
from streams.config.settings import load
from streams.embedded import known_brokers
from streams.embedded.directories import data_directory
from streams.embedded.kafka import EmbeddedKafka
from streams.runtime.access_admin import BrokerLogin, create_users, secure
from streams.runtime.acl import accesses
from streams.runtime.foreground import foreground
from streams.wire.access import Access
from streams.wire.errors import Misconfigured


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
            # The collectors' libraries take as long to import as the broker to start.
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
        print_text(f"railsight broker: {error}", err=True)
        raise typer.Exit(2) from error
    if ended:
        typer.echo(
            f"railsight broker: broker {ended[0]} ended on its own; see {kafka.data}/node-{ended[0]}/server.log",
            err=True,
        )
        raise typer.Exit(1)


def _needs(config: Path | None) -> dict[str, Access]:
    """Return what all parts do on Kafka."""
    settings = load(config, collector_params())
    return accesses(settings, collector_access(settings))


@contextmanager
def _known(bootstrap: str, login: BrokerLogin | None) -> Iterator[None]:
    """Record how to log in, for the commands that get this address by --bootstrap."""
    if login is None:
        yield
        return
    known_brokers.record(bootstrap, login.settings())
    try:
        yield
    finally:
        known_brokers.forget(bootstrap)


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
