"""`railsight up`: the whole pipeline on this machine, with the collectors that the configuration names."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from streams.cli import parts
from streams.cli.parts import USERS, railsight
from streams.cli.specs import params_of_collectors
from streams.config.settings import Settings, load
from streams.embedded.folders import data_folder
from streams.embedded.kafka_folder import free_ports
from streams.runtime.supervise import Part, Supervisor
from streams.wire.errors import Misconfigured

JOB_S = 120.0
INSTANCE = "up"
"""There is one worker here; named, it has its partitions back at once after a kill."""


def up(
    config: Annotated[Path, typer.Option("--config", help="The configuration file (TOML).")],
    run_dir: Annotated[
        Path | None, typer.Option(help="Folder of the parts' logs; default: run in the user's data folder.")
    ] = None,
) -> None:
    """Run everything until Ctrl-C or SIGTERM: Kafka and ClickHouse too, unless the configuration names others."""
    settings = load(config, params_of_collectors())
    if not settings.collectors:
        raise Misconfigured(f"{config}: no collector is configured: give at least one [collect.<name>] section")
    supervisor = Supervisor(run_dir or data_folder() / "run")
    try:
        asyncio.run(_until_signalled(supervisor, settings, config.resolve()))
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        supervisor.stop()


async def _until_signalled(supervisor: Supervisor, settings: Settings, config: Path) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    running = asyncio.ensure_future(_run(supervisor, settings, config))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    running.cancel()


async def _run(supervisor: Supervisor, settings: Settings, config: Path) -> None:
    await _start_servers(supervisor, settings, config)
    for name in ("topics", "migrate"):
        await supervisor.run_once(Part(name, railsight(name, "--config", str(config))), JOB_S)
    for part in pipeline(settings, config):
        supervisor.start(part)
    typer.echo(f"running: {', '.join(state.name for state in supervisor.states())}; logs in {supervisor.folder}")
    await supervisor.watch()


async def _start_servers(supervisor: Supervisor, settings: Settings, config: Path) -> None:
    """Start the servers that the configuration does not name; the parts learn of them through the environment."""
    kafka_port, clickhouse_port = free_ports(2)
    own_kafka = "bootstrap" not in settings.kafka.model_fields_set
    own_clickhouse = "url" not in settings.store.model_fields_set
    if own_kafka:
        params = settings.embedded.kafka
        supervisor.start(parts.broker(params.data or data_folder() / "kafka", params.port or kafka_port, config))
    if own_clickhouse:
        supervisor.start(parts.clickhouse(data_folder() / "clickhouse", clickhouse_port))
    if own_kafka:
        said = await parts.until_said(supervisor, "broker", "bootstrap")
        os.environ["RAILSIGHT__KAFKA__BOOTSTRAP"] = said["bootstrap"]
        typer.echo(f"Kafka: {said['bootstrap']}")
    if own_clickhouse:
        said = await parts.until_said(supervisor, "clickhouse", "url")
        os.environ["RAILSIGHT__STORE__URL"] = said["url"]
        typer.echo(f"ClickHouse: {said['url']}")


def pipeline(settings: Settings, config: Path) -> Iterator[Part]:
    """The stages, the sink, the configured collectors, and the pager where Alertmanager is named."""
    at = ("--config", str(config))
    yield Part("process", railsight("process", *at, "--instance", INSTANCE), USERS)
    yield Part("persist", railsight("persist", *at), USERS)
    if "alertmanagers" in settings.notify.model_fields_set:
        yield Part("notify", railsight("notify", *at), USERS)
    for name, params in settings.collectors.items():
        yield Part(f"collect-{name}", railsight("collect", name, *at, *_spool(params)), USERS)


def _spool(params: BaseModel) -> tuple[str, ...]:
    """Where a collector's readings wait while Kafka is away, unless the configuration says it."""
    publisher = getattr(params, "publisher", None)
    if publisher is None or publisher.spool is not None or not getattr(params, "takes_spool", False):
        return ()
    return ("--set", f"publisher.spool={data_folder() / 'spool'}")
