"""Command lines of the pipeline's processes on one machine, and readiness of the servers.

`up`, `demo` and `bench` start their processes from these; streams.runtime.supervise keeps them running.
"""

import asyncio
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from streams.embedded.kafka_data_dir import free_ports
from streams.runtime.supervise import GaveUp, Part, Supervisor

SERVERS, CLIENTS = 0, 1
READY_TIMEOUT_S = 600.0
"""A first start downloads the broker's jars and the Java runtime: minutes on a slow line."""


def railsight_command(*arguments: str) -> tuple[str, ...]:
    """Return the command that runs a subcommand in its own process, with this interpreter."""
    return (sys.executable, "-m", "streams.cli.main", *arguments)


def broker_part(data: Path, port: int | None, config: Path | None = None, security: str | None = None) -> Part:
    """Return the embedded Kafka; `config` may set more of its options. Without a port it has that of its last run."""
    options = [] if port is None else ["--port", str(port)]
    options += [] if config is None else ["--config", str(config)]
    options += [] if security is None else ["--security", security]
    command = railsight_command("broker", "--data", str(data), "--json", *options)
    return Part("broker", command, SERVERS)


def clickhouse_part(data: Path, port: int, reader: str | None = None) -> Part:
    """Return the embedded ClickHouse; `reader` is the name of a read-only user that it gets."""
    options = () if reader is None else ("--read-only-user", reader)
    command = railsight_command("clickhouse", "--data", str(data), "--port", str(port), "--json", *options)
    return Part("clickhouse", command, SERVERS)


@dataclass(frozen=True, slots=True)
class ServerAddresses:
    """Addresses of the embedded servers."""

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
    supervisor: Supervisor, folder: Path, security: str | None = None, reader: str | None = None
) -> ServerAddresses:
    """Start Kafka and ClickHouse on free ports with their data in `folder`, and wait until both are ready.

    `reader` is the name of a read-only user of ClickHouse, if there is to be one.
    """
    kafka_port, clickhouse_port = free_ports(2)
    supervisor.start(broker_part(folder / "kafka", kafka_port, security=security))
    supervisor.start(clickhouse_part(folder / "clickhouse", clickhouse_port, reader))
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
    """Return the JSON object with `key` that a part prints to its log once it is ready; raise GaveUp."""
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
                continue  # the line is not completely written yet
            # Log events have a field `event`; the command's own output has none.
            if key in fields and "event" not in fields:
                return dict(fields)
    return None
