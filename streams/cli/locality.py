"""`railsight locality`: serves the locality over HTTP and publishes it, until Ctrl-C or SIGTERM."""

import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streams.cli.options import Bootstrap, Config, settings_of
from streams.cli.process import MetricsPort
from streams.wire.access import LOCALITY

if TYPE_CHECKING:
    from streams.locality.params import LocalityParams


def locality(
    config: Config = None,
    bootstrap: Bootstrap = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; default: of the configuration.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port; 0: a free one.")] = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Serve distances, placements and exports with a token, and publish railsight.topology.v1.

    Example: `railsight locality --config railsight.toml --port 8087`.
    """
    from streams.health.health import Health
    from streams.health.status_server import PrometheusMetrics
    from streams.wire.errors import Misconfigured

    try:
        from streams.report.locality.server import serve
    except ModuleNotFoundError as error:
        raise Misconfigured(f"{error.name} is not installed; install railsight[serve]") from error
    from streams.report.locality.service import LocalityService

    settings = settings_of(config, bootstrap, LOCALITY)
    given = {name: value for name, value in {"host": host, "port": port}.items() if value is not None}
    params = _with_options(settings.locality, given)
    token, file = _token(params)
    health = Health(settings.health, time.monotonic)
    if metrics_port is not None:
        PrometheusMetrics(settings.runtime.metrics_host, metrics_port, health)

    def print_address(url: str) -> None:
        sys.stdout.write(f"{url}\ntoken in {file}\n")
        sys.stdout.flush()

    async def run() -> None:
        service = LocalityService(settings.kafka, params, time.time_ns, time.monotonic)
        await serve(service, params, token, health, print_address)

    asyncio.run(run())


def _with_options(params: "LocalityParams", given: dict[str, Any]) -> "LocalityParams":
    """Return the settings with the options of the command line, validated together."""
    from pydantic import ValidationError

    from streams.wire.errors import Misconfigured

    try:
        return type(params).model_validate(params.model_dump() | given)
    except ValidationError as error:
        raise Misconfigured("\n".join(f"locality: {each['msg']}" for each in error.errors())) from error


def _token(params: "LocalityParams") -> tuple[str, Path]:
    """Return the token and its file, made at the first start where none is configured."""
    from streams.embedded.directories import data_directory, refusing_disk_errors
    from streams.embedded.passwords import made_password, read_password

    if params.token_file is not None:
        return read_password(params.token_file), params.token_file
    folder = data_directory() / "locality"
    with refusing_disk_errors(folder, "the token's folder"):
        folder.mkdir(parents=True, exist_ok=True)
        return made_password(folder / "token"), folder / "token"
