"""The whole pipeline on one machine: servers that the configuration does not name, stages, sink and collectors."""

import os
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path

from pydantic import BaseModel

from streams.config.loader import secret_variables
from streams.config.settings import Settings
from streams.embedded.directories import data_directory, write_private
from streams.embedded.kafka_data_dir import free_ports
from streams.runtime.process_specs import CLIENTS, broker_part, clickhouse_part, railsight_command, wait_until_ready
from streams.runtime.supervise import Part, Supervisor

SETUP_TIMEOUT_S = 120.0
INSTANCE = "up"
"""The only worker here; with a fixed name it gets its partitions back at once after a kill."""


async def run_pipeline(
    supervisor: Supervisor, settings: Settings, config: Path, print_line: Callable[[str], None]
) -> None:
    """Start everything and keep it running until cancelled; print the servers' addresses and the parts."""
    move_secrets_to_files(type(settings), supervisor.folder / "secrets", os.environ)
    await _start_servers(supervisor, settings, config, print_line)
    for name in ("topics", "migrate"):
        part = Part(name, railsight_command(name, "--config", str(config)))
        await supervisor.run_once(part, SETUP_TIMEOUT_S)
    for part in pipeline_parts(settings, config):
        supervisor.start(part)
    print_line(f"running: {', '.join(state.name for state in supervisor.states())}; logs in {supervisor.folder}")
    await supervisor.watch()


def pipeline_directory(settings: Settings) -> Path:
    """Return the folder of all data of one pipeline: two of them on one machine must not share any of it."""
    return settings.runtime.data or data_directory()


def pipeline_parts(settings: Settings, config: Path) -> Iterator[Part]:
    """Yield the stages, the sink, the notifier when Alertmanager is configured, and the configured collectors."""
    options = ("--config", str(config))
    data = pipeline_directory(settings)
    yield Part("process", railsight_command("process", *options, "--instance", INSTANCE), CLIENTS)
    yield Part("persist", railsight_command("persist", *options), CLIENTS)
    if "alertmanagers" in settings.notify.model_fields_set:
        yield Part("notify", railsight_command("notify", *options), CLIENTS)
    for name, params in settings.collectors.items():
        yield Part(f"collect-{name}", railsight_command("collect", name, *options, *_spool(params, data)), CLIENTS)


def move_secrets_to_files(model: type[BaseModel], folder: Path, environ: MutableMapping[str, str]) -> None:
    """Replace secrets in the environment, which children would inherit, by the names of files with them."""
    for name in secret_variables(model, environ):
        folder.mkdir(mode=0o700, exist_ok=True)
        write_private(folder / name.lower(), f"{environ.pop(name)}\n")
        environ[f"{name}_FILE"] = str(folder / name.lower())


async def _start_servers(
    supervisor: Supervisor, settings: Settings, config: Path, print_line: Callable[[str], None]
) -> None:
    """Start the servers that the configuration does not name; the parts get their addresses by the environment."""
    data = pipeline_directory(settings)
    kafka_port, clickhouse_port = free_ports(2)
    embeds_kafka = "bootstrap" not in settings.kafka.model_fields_set
    embeds_clickhouse = "url" not in settings.store.model_fields_set
    if embeds_kafka:
        params = settings.embedded.kafka
        supervisor.start(broker_part(params.data or data / "kafka", params.port or kafka_port, config))
    if embeds_clickhouse:
        supervisor.start(clickhouse_part(data / "clickhouse", clickhouse_port))
    if embeds_kafka:
        kafka = await wait_until_ready(supervisor, "broker", "bootstrap")
        os.environ["RAILSIGHT__KAFKA__BOOTSTRAP"] = kafka["bootstrap"]
        print_line(f"Kafka: {kafka['bootstrap']}")
        if login := kafka.get("login"):
            # The folder of the passwords, not a password.
            os.environ |= {f"RAILSIGHT__KAFKA__{name.upper()}": str(value) for name, value in login.items()}
            print_line(f"Kafka users and their passwords: {login['login_folder']}; kcat -F {kafka['kcat']}")
    if embeds_clickhouse:
        ready = await wait_until_ready(supervisor, "clickhouse", "url")
        os.environ["RAILSIGHT__STORE__URL"] = ready["url"]
        if not {"user", "password", "password_file"} & settings.store.model_fields_set:
            os.environ["RAILSIGHT__STORE__PASSWORD_FILE"] = ready["password_file"]
        print_line(f"ClickHouse: {ready['url']}")
        print_line(f"ClickHouse user: {ready['user']}, password in {ready['password_file']}")


def _spool(params: BaseModel, data: Path) -> tuple[str, ...]:
    """Return the option that sets a collector's spool folder, unless the configuration sets it."""
    publisher = getattr(params, "publisher", None)
    if publisher is None or publisher.spool is not None or not getattr(params, "supports_spool", False):
        return ()
    return ("--set", f"publisher.spool={data / 'spool'}")
