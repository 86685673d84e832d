"""Defines `railsight serve`: pages and JSON of findings, jobs and devices, and the locality with its exports."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from streams.cli.options import Bootstrap, Config, settings_of
from streams.cli.parts import MetricsPort, sender_of
from streams.embedded.directories import data_directory, refusing_disk_errors
from streams.embedded.passwords import made_password, read_password
from streams.health.health import Health
from streams.health.status_server import process_metrics
from streams.locality.params import LocalityParams
from streams.report.locality.service import LocalityService
from streams.report.top.state import TopState
from streams.report.web.answers import Answers
from streams.report.web.server import serve as serve_until_stopped
from streams.wire.errors import Misconfigured
from streams.wire.topics import LOCALITY


def serve(
    config: Config = None,
    bootstrap: Bootstrap = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; default: of the configuration.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port; 0: a free one.")] = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Serve findings, jobs, devices, distances, placements and exports with a token, and publish railsight.topology.v1.

    Example: `railsight serve --port 8790`, beside `railsight up`; a browser asks for the token as the password.
    """
    settings = settings_of(config, bootstrap, LOCALITY)
    given = {name: value for name, value in {"host": host, "port": port}.items() if value is not None}
    params = _with_options(settings.locality, given)
    token, file = _token(params)
    health = Health(settings.health, time.monotonic)
    process_metrics(settings.runtime.metrics_host, metrics_port, health, sender_of(settings, LOCALITY))

    def print_address(url: str) -> None:
        sys.stdout.write(f"{url}\n" + (f"token in {file}\n" if params.client_ca_file is None else ""))
        sys.stdout.flush()

    service = LocalityService(settings.kafka, params, time.time_ns, time.monotonic)
    answers = Answers(settings, TopState(), service)
    asyncio.run(serve_until_stopped(answers, params, token, health, print_address))


def _with_options(params: LocalityParams, given: dict[str, Any]) -> LocalityParams:
    """Return the settings with the options of the command line, validated together."""
    try:
        return type(params).model_validate(params.model_dump() | given)
    except ValidationError as error:
        raise Misconfigured("\n".join(f"locality: {each['msg']}" for each in error.errors())) from error


def _token(params: LocalityParams) -> tuple[str, Path]:
    """Return the token and its file; by default the first start makes the file."""
    if params.token_file is not None:
        return read_password(params.token_file), params.token_file
    folder = data_directory() / "locality"
    with refusing_disk_errors(folder, "the token's folder"):
        folder.mkdir(parents=True, exist_ok=True)
        return made_password(folder / "token"), folder / "token"
