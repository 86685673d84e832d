"""Defines `railsight grafana install`: the data source, the boards and the alert rules in a running Grafana."""

import os
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from streams.cli.options import Config, settings_of
from streams.cli.printing import print_text
from streams.embedded.passwords import read_password
from streams.report.grafana import BoardReader, Grafana
from streams.runtime import local_pipeline
from streams.store.params import StoreParams
from streams.wire.errors import Misconfigured
from streams.wire.login_settings import is_loopback
from streams.wire.topics import READER

grafana = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


@grafana.callback()
def _group() -> None:
    """Install the boards in a running Grafana."""


@grafana.command()
def install(
    url: Annotated[str, typer.Option("--url", help="Grafana's address, such as https://grafana.example.net.")],
    config: Config = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with a token; default: GRAFANA_TOKEN, or GRAFANA_USER and GRAFANA_PASSWORD."),
    ] = None,
    clickhouse: Annotated[
        str | None, typer.Option(help="ClickHouse's URL as Grafana reaches it; default: that of the configuration.")
    ] = None,
    reader: Annotated[str, typer.Option(help="User of ClickHouse that may only read.")] = local_pipeline.BOARD_READER,
    reader_password_file: Annotated[
        Path | None, typer.Option(help="File with its password; default: that of the ClickHouse of `railsight up`.")
    ] = None,
) -> None:
    """Create or replace the data source, the boards and the alert rules, and check that Grafana can query.

    Example: `railsight grafana install --url http://127.0.0.1:3000 --token-file grafana.token` beside `railsight up`.
    """
    settings = settings_of(config, None, READER)
    store = settings.store
    password_file = reader_password_file or _made_password(store)
    address = clickhouse or store.url
    if is_loopback(urlsplit(address).netloc) and not is_loopback(urlsplit(url).netloc):
        raise Misconfigured(
            f"a Grafana at {url} cannot reach ClickHouse at {address}, which is this machine's loopback: give"
            " --clickhouse URL, an address that it reaches (docs/dashboards.md)"
        )
    environ = dict(os.environ)
    if token_file is not None:
        environ["GRAFANA_TOKEN"] = read_password(token_file)
    board_reader = BoardReader(address, store.database, reader, read_password(password_file))
    has_alertmanager = "alertmanagers" in settings.notify.model_fields_set
    opened = Grafana(url, environ).install(board_reader, alerts_of_findings=not has_alertmanager)
    print_text(f"installed; open {opened}")
    if has_alertmanager:
        print_text("the rule of critical findings is paused: `railsight notify` sends them to your Alertmanager")


def _made_password(store: StoreParams) -> Path:
    """Return the file of the reader's password that the embedded ClickHouse has made; raises Misconfigured."""
    found = None if store.password_file is None else local_pipeline.reader_password_file(store.password_file)
    if found is None or not found.exists():
        raise Misconfigured(
            f"the password of the reader of {store.url} is unknown: start `railsight up` first, or give --reader and"
            " --reader-password-file of a user that may only read"
        )
    return found
