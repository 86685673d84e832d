"""The parts of the pipeline as processes of this machine: the command line of each, and when the servers answer.

`demo` and `up` start the same parts from here; how they are kept running is streams.runtime.supervise's.
"""

import asyncio
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from streams.runtime.supervise import GaveUp, Part, Supervisor

SERVERS, USERS = 0, 1
READY_S = 600.0
"""A first start fetches the broker's jars and Java's runtime: minutes on a slow line."""


def railsight(*arguments: str) -> tuple[str, ...]:
    """The command that runs a subcommand in a process of its own, with this interpreter."""
    return (sys.executable, "-m", "streams.cli.main", *arguments)


def broker(data: Path, port: int, config: Path | None = None) -> Part:
    """The embedded Kafka; `config` may say more of it."""
    more = () if config is None else ("--config", str(config))
    return Part("broker", railsight("broker", "--data", str(data), "--port", str(port), "--json", *more), SERVERS)


def clickhouse(data: Path, port: int) -> Part:
    """The embedded ClickHouse."""
    return Part("clickhouse", railsight("clickhouse", "--data", str(data), "--port", str(port), "--json"), SERVERS)


async def until_said(supervisor: Supervisor, name: str, key: str, within_s: float = READY_S) -> Mapping[str, Any]:
    """What a part says in its log, as one JSON object with `key`, once it is ready; raises GaveUp."""
    give_up = time.monotonic() + within_s
    while time.monotonic() < give_up:
        if (said := _said(supervisor.log_of(name), key)) is not None:
            return said
        supervisor.tick()
        await asyncio.sleep(0.05)
    raise GaveUp(f"{name} was not ready after {within_s:g} s (log: {supervisor.log_of(name)})")


def _said(log: Path, key: str) -> Mapping[str, Any] | None:
    if not log.exists():
        return None
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("{"):
            try:
                said = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue  # the line is still being written
            # An event of the log has a field `event`; what the command says of itself has none.
            if key in said and "event" not in said:
                return dict(said)
    return None
