"""Runs the whole pipeline on one machine: stages, sink, collectors, and servers that the configuration does not name.

`up`, `demo` and `bench` start their processes from these command lines; supervise.py keeps them running.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel

from streams.config.loader import PREFIX, secret_variables
from streams.config.settings import Settings
from streams.embedded.clickhouse.params import WITHOUT_SANDBOX
from streams.embedded.directories import data_directory, write_private
from streams.embedded.kafka_data_dir import free_ports, stable_port
from streams.embedded.running_instances import Instance, record, registered
from streams.runtime.supervise import GaveUp, Part, Supervisor

SERVERS, CLIENTS = 0, 1
BOARD_READER = "grafana"
"""The user of the embedded ClickHouse that may only read."""
READY_TIMEOUT_S = 600.0
"""A first start downloads the broker's jars and the Java runtime: minutes on a slow line."""


def railsight_command(*arguments: str) -> tuple[str, ...]:
    """Return the command that runs a subcommand in its own process, with this interpreter."""
    return (sys.executable, "-m", "streams.cli.main", *arguments)


def broker_part(data: Path, port: int | None, config: Path | None = None, security: str | None = None) -> Part:
    """Return the part of the embedded Kafka; `config` may set other options; by default it has its last run's port."""
    options = [] if port is None else ["--port", str(port)]
    options += [] if config is None else ["--config", str(config)]
    options += [] if security is None else ["--security", security]
    command = railsight_command("broker", "--data", str(data), "--json", *options)
    return Part("broker", command, SERVERS)


def clickhouse_part(data: Path, port: int, *, without_sandbox: bool = False) -> Part:
    """Return the part of the embedded ClickHouse, with a user for the boards that may only read."""
    options = ["--read-only-user", BOARD_READER, *(["--without-sandbox"] if without_sandbox else [])]
    command = railsight_command("clickhouse", "--data", str(data), "--port", str(port), "--json", *options)
    return Part("clickhouse", command, SERVERS)


def reader_password_file(password_file: Path) -> Path:
    """Return the file of the boards' reader beside that of the embedded ClickHouse's user with all rights."""
    return password_file.with_name(f"password-{BOARD_READER}")


@dataclass(frozen=True, slots=True)
class ServerAddresses:
    """The addresses of the embedded servers."""

    kafka: str
    kafka_login: Mapping[str, str | bool]
    """The settings of `[kafka]` with which clients log in."""
    kcat: str
    """The file of kcat's settings, empty without users."""
    clickhouse: str
    clickhouse_password_file: str

    def kafka_lines(self) -> list[str]:
        """Return the section `[kafka]` of a configuration."""
        login = (f"{name} = {orjson.dumps(value).decode()}" for name, value in self.kafka_login.items())
        return ["[kafka]", f'bootstrap = "{self.kafka}"', *login]


async def start_servers(
    supervisor: Supervisor,
    folder: Path,
    security: str | None = None,
    *,
    without_sandbox: bool = False,
) -> ServerAddresses:
    """Start Kafka and ClickHouse on free ports with their data in `folder`, and wait until both are ready."""
    kafka_port, clickhouse_port = free_ports(2)
    supervisor.start(broker_part(folder / "kafka", kafka_port, security=security))
    supervisor.start(clickhouse_part(folder / "clickhouse", clickhouse_port, without_sandbox=without_sandbox))
    kafka = await wait_until_ready(supervisor, "broker", "bootstrap")
    clickhouse = await wait_until_ready(supervisor, "clickhouse", "url")
    return ServerAddresses(
        kafka["bootstrap"],
        kafka.get("login", {}),
        kafka.get("kcat", ""),
        clickhouse["url"],
        clickhouse["password_file"],
    )


async def wait_until_ready(
    supervisor: Supervisor, name: str, key: str, timeout_s: float = READY_TIMEOUT_S
) -> Mapping[str, Any]:
    """Return the JSON object with `key` that a part prints to its log when it is ready; raises GaveUp."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        if (ready := _readiness_line(supervisor.log_of(name), key)) is not None:
            return ready
        supervisor.tick()
        await asyncio.sleep(0.05)
    raise GaveUp(f"{name} was not ready after {timeout_s:g} s (log: {supervisor.log_of(name)})")


def _readiness_line(log: Path, key: str) -> Mapping[str, Any] | None:
    if not log.exists():
        return None
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("{"):
            try:
                fields = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue  # the line is still incomplete
            # Log events have a field `event`; the command's own output has none.
            if key in fields and "event" not in fields:
                return dict(fields)
    return None


SETUP_TIMEOUT_S = 300.0
"""The limit for topics, migrations and the inventory: `migrate` took more than 60 s on two cores with a load of 50."""
FILES_EVERY_S = 0.1
INSTANCE = "up"
"""The name of the only worker; with a fixed name, it regains its partitions at once after a kill."""


async def run_pipeline(
    supervisor: Supervisor,
    settings: Settings,
    config: Path,
    print_line: Callable[[str], None],
    *,
    without_sandbox: bool = False,
) -> None:
    """Start all parts and keep them running until cancelled; print the servers' addresses and the parts."""
    move_secrets_to_files(type(settings), supervisor.folder / "secrets", os.environ)
    instance = Instance("up", str(config), "", str(supervisor.folder.resolve()), step="starts its servers")
    with registered(instance):
        await _start_servers(supervisor, settings, config, print_line, without_sandbox=without_sandbox)
        environ = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
        bootstrap = environ.get("RAILSIGHT__KAFKA__BOOTSTRAP", settings.kafka.bootstrap)
        instance = replace(instance, bootstrap=bootstrap, environ=environ, step="makes topics and tables")
        record(instance)
        await _start_parts(supervisor, settings, config, print_line)
        record(replace(instance, step=""))
        await supervisor.watch()


async def _start_parts(
    supervisor: Supervisor, settings: Settings, config: Path, print_line: Callable[[str], None]
) -> None:
    for name in ("topics", "migrate"):
        part = Part(name, railsight_command(name, "--config", str(config)))
        await supervisor.run_once(part, SETUP_TIMEOUT_S)
    if (folder := settings.runtime.inventory) is not None:
        await _publish_inventory(supervisor, folder, config, print_line)
    for part in pipeline_parts(settings, config):
        started_ns = time.time_ns()
        supervisor.start(part)
        await _wait_for_files(supervisor, part, written_files(settings).get(part.name, ()), started_ns)
    print_line(f"running: {', '.join(state.name for state in supervisor.states())}; logs in {supervisor.folder}")


async def _publish_inventory(
    supervisor: Supervisor, folder: Path, config: Path, print_line: Callable[[str], None]
) -> None:
    """Publish the folder if no version is in effect; otherwise that version stays, with a warning.

    A wrong folder does not stop the pipeline either: without a version, a device's name serves as its pod.
    """
    apply = ("inventory", "apply", str(folder), "--config", str(config))
    part = Part("inventory", railsight_command(*apply, "--if-none", "--json"))
    try:
        await supervisor.run_once(part, SETUP_TIMEOUT_S)
    except GaveUp as error:
        why = str(error)
    else:
        done = _readiness_line(supervisor.log_of(part.name), "inventory") or {}
        if not str(done.get("is", "")).startswith("not published"):
            return
        why = f"it differs from the version in effect (log: {supervisor.log_of(part.name)})"
    print_line(f"warning: {folder} is not published, and a version in effect stays: {why}")
    print_line(f"publish it with `railsight {' '.join(apply)}`")


def pipeline_directory(settings: Settings) -> Path:
    """Return the folder of all data of one pipeline, which two pipelines on a machine must not share."""
    return (settings.runtime.data or data_directory()).absolute()


def pipeline_parts(settings: Settings, config: Path) -> Iterator[Part]:
    """Yield the stages, the sink, the notifier if Alertmanager is configured, and the configured collectors."""
    options = ("--config", str(config))
    data = pipeline_directory(settings)
    yield Part("process", railsight_command("process", *options, "--instance", INSTANCE), CLIENTS)
    yield Part("persist", railsight_command("persist", *options), CLIENTS)
    if "alertmanagers" in settings.notify.model_fields_set:
        yield Part("notify", railsight_command("notify", *options), CLIENTS)
    files = written_files(settings)
    for name, params in sorted(settings.collectors.items(), key=lambda item: f"collect-{item[0]}" not in files):
        yield Part(f"collect-{name}", railsight_command("collect", name, *options, *_spool(params, data)), CLIENTS)


def written_files(settings: Settings) -> dict[str, tuple[Path, ...]]:
    """Return, by part, the files that a collector writes and others read; the others start when these files exist."""
    writers = {name: getattr(params, "written_files", None) for name, params in settings.collectors.items()}
    return {f"collect-{name}": files() for name, files in writers.items() if files is not None}


async def _wait_for_files(supervisor: Supervisor, part: Part, files: Iterable[Path], started_ns: int) -> None:
    """Wait until the part has written its files, because an earlier run may have left old ones; raises GaveUp."""
    deadline_s = time.monotonic() + SETUP_TIMEOUT_S
    for path in files:
        while not path.exists() or path.stat().st_mtime_ns < started_ns:
            supervisor.tick()
            if time.monotonic() > deadline_s:
                raise GaveUp(f"{part.name} did not write {path} (log: {supervisor.log_of(part.name)})")
            await asyncio.sleep(FILES_EVERY_S)


def move_secrets_to_files(model: type[BaseModel], folder: Path, environ: MutableMapping[str, str]) -> None:
    """Replace secrets in the environment, which children would inherit, by the names of files with the secrets."""
    for name in secret_variables(model, environ):
        folder.mkdir(mode=0o700, exist_ok=True)
        write_private(folder / name.lower(), f"{environ.pop(name)}\n")
        environ[f"{name}_FILE"] = str(folder / name.lower())


async def _start_servers(
    supervisor: Supervisor,
    settings: Settings,
    config: Path,
    print_line: Callable[[str], None],
    *,
    without_sandbox: bool,
) -> None:
    """Start the servers that the configuration does not name; pass their addresses to the parts by the environment."""
    data = pipeline_directory(settings)
    embeds_kafka = "bootstrap" not in settings.kafka.model_fields_set
    embeds_clickhouse = "url" not in settings.store.model_fields_set
    if embeds_kafka:
        params = settings.embedded.kafka
        supervisor.start(broker_part(params.data or data / "kafka", params.port, config))
    if embeds_clickhouse:
        port = stable_port(data / "clickhouse-port")
        supervisor.start(clickhouse_part(data / "clickhouse", port, without_sandbox=without_sandbox))
        if without_sandbox:
            print_line(f"warning: {WITHOUT_SANDBOX}")
    if embeds_kafka:
        kafka = await wait_until_ready(supervisor, "broker", "bootstrap")
        os.environ["RAILSIGHT__KAFKA__BOOTSTRAP"] = kafka["bootstrap"]
        print_line(f"Kafka: {kafka['bootstrap']}")
        if login := kafka.get("login"):
            # The login has the folder of the passwords, not a password.
            os.environ |= {f"RAILSIGHT__KAFKA__{name.upper()}": str(value) for name, value in login.items()}
            print_line(f"Kafka users and their passwords: {login['login_folder']}; `kcat -F {kafka['kcat']}`")
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
