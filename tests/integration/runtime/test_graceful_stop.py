"""SIGTERM ends every long-running part in ten seconds, with success: while it is idle, and without its brokers."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import SecretStr

from streams.config.kafka import KafkaSettings
from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.runtime.admin import ensure_topics
from streams.store.clickhouse import ClickHouse
from streams.store.migrate import apply, shipped_migrations
from streams.store.params import StoreParams
from tests.integration.fixtures_kafka import create_topics
from tests.integration.runtime.health_rig import Part, running, running_automation

pytestmark = pytest.mark.timeout(280)
_FEED = "telemetry"


@dataclass(frozen=True)
class Servers:
    """The servers, and a folder for the logs of parts."""

    kafka: EmbeddedKafka
    clickhouse: EmbeddedClickHouse
    store: StoreParams
    folder: Path

    @property
    def at(self) -> tuple[str, str]:
        """The option with the brokers' address."""
        return "--bootstrap", self.kafka.bootstrap

    def env(self) -> dict[str, str]:
        """Return the environment of all parts."""
        return {
            "RAILSIGHT__RUNTIME__DATA": str(self.folder),
            "RAILSIGHT__STORE__URL": self.store.url,
            "RAILSIGHT__STORE__DATABASE": self.store.database,
            "RAILSIGHT__STORE__PASSWORD": self.store.password.get_secret_value(),
            "RAILSIGHT__TICKETS__URL": "http://127.0.0.1:1",
            "XDG_DATA_HOME": str(self.folder),
        }


PARTS: dict[str, tuple[str, ...]] = {
    "stages": ("process",),
    "sink": ("persist",),
    "notifier": ("notify",),
    "tickets": ("tickets",),
    "locality": ("serve", "--port", "0"),
    "gnmi": ("collect", "gnmi", "--targets", "{targets}"),
    "snmp": ("collect", "snmp", "--targets", "{targets}", "--set", "community=public"),
    "bridge": ("collect", "bridge", "--set", f"topics={_FEED}"),
    "host": ("collect", "host"),
    "nic": ("collect", "nic"),
    "automation": (),
}
NOT_READY = {"notifier": "election: ", "locality": "locality: ", "bridge": "kafka: no record acknowledged"}
"""Parts that lack something here even with brokers: an Alertmanager, an inventory, records."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Yield servers with topics and tables."""
    folder = tmp_path_factory.mktemp("stop")
    params = ClickHouseParams(data=folder / "clickhouse")
    with EmbeddedKafka(KafkaParams(data=folder / "kafka")) as kafka, EmbeddedClickHouse(params) as clickhouse:
        store = StoreParams(url=clickhouse.url, password=SecretStr(clickhouse.password), database="test")
        apply(ClickHouse(store), shipped_migrations())

        async def prepare() -> None:
            await ensure_topics(KafkaSettings(bootstrap=kafka.bootstrap))
            await create_topics(kafka.bootstrap, _FEED)

        asyncio.run(prepare())
        yield Servers(kafka, clickhouse, store, folder)


def start(stack: ExitStack, servers: Servers, name: str, folder: Path) -> Part:
    """Start a part, and end it with the stack."""
    if name == "automation":
        return stack.enter_context(running_automation(folder, int(servers.kafka.bootstrap.rpartition(":")[2])))
    arguments = (one.format(targets=folder / "targets.json") for one in PARTS[name])
    return stack.enter_context(running(folder / f"{name}.log", servers.env(), *arguments, *servers.at))


async def until_working(name: str, part: Part) -> None:
    """Wait until a part is ready, or lacks only what it cannot have here."""
    if name in NOT_READY:
        await part.until_not_ready(NOT_READY[name])
    else:
        await part.until_ready()


@pytest.mark.parametrize("is_away", [False, True], ids=["idle", "brokers away"])
async def test_sigterm_ends_every_part_in_time(servers: Servers, tmp_path: Path, is_away: bool) -> None:
    (tmp_path / "targets.json").write_text(json.dumps([{"name": "leaf1", "address": "127.0.0.1:1"}]))
    with ExitStack() as stack:
        if is_away:
            stack.callback(servers.kafka.restart)
        parts = {name: start(stack, servers, name, tmp_path) for name in PARTS}
        for name, part in parts.items():
            await until_working(name, part)
        if is_away:
            await asyncio.to_thread(servers.kafka.kill)
            for name in ("stages", "sink", "tickets"):
                await parts[name].until_not_ready("brokers: no answer for")
        for part in parts.values():
            await asyncio.to_thread(part.terminate)
