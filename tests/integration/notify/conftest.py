"""Provides real Alertmanagers with the shipped configuration, receivers that record notifications, and a notifier."""

import asyncio
import copy
import signal
import subprocess
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.records_to_delete import RecordsToDelete

from collectors.core.clock import SystemClock
from lab.constants import command_with, params_of
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.instrument.clock import Clock
from streams.instrument.metrics import Metrics
from streams.notify.board import TOPICS
from streams.notify.log_export import LogExport
from streams.notify.params import NotifyParams
from streams.notify.service import NotifyService
from streams.notify.tickets.service import TicketService
from streams.wire.models import Endpoint, Finding, InputLoss, Message, Subject
from streams.wire.topics import (
    FINDINGS,
    FINDINGS_OPEN,
    INPUT_LOSSES,
    REJECTED,
    Record,
    Topic,
    decode,
    encode,
    tombstone,
)
from tests.fixtures.external_programs import program
from tests.fixtures.notify_examples import finding
from tests.fixtures.ports import free_port

CONFIG = Path(__file__).parents[3] / "deploy/alertmanager/alertmanager.yml"


async def until(condition: Callable[[], object], within_s: float = 60) -> None:
    """Wait for a condition; fail after the timeout."""
    give_up = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up, "the condition was not met in time"
        await asyncio.sleep(0.02)


@dataclass
class Receivers:
    """The notifications that Alertmanager sent to its receivers, in order."""

    url: str = ""
    received: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """The time of each, by the monotonic clock."""

    async def take(self, request: web.Request) -> web.Response:
        """Record one webhook call."""
        self.received.append((request.match_info["receiver"], await request.json()))
        self.times.append(time.monotonic())
        return web.Response()

    def to(self, receiver: str, status: str | None = None) -> list[dict[str, Any]]:
        """Return the notifications of one receiver."""
        return [
            notification
            for name, notification in self.received
            if name == receiver and status in (None, notification["status"])
        ]


@dataclass
class Server:
    """One Alertmanager that can be stopped and restarted on its data."""

    url: str
    command: list[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and return once it is ready."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        give_up = time.monotonic() + 20
        while not self.ready():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < give_up, self.log.read_text()
            time.sleep(0.05)

    def ready(self) -> bool:
        """Return whether it responds that it is ready."""
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        """Stop the server and wait for its end."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(20)
            self.process = None

    def kill(self) -> None:
        """End the server at once, without what it writes at a stop."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(20)
            self.process = None

    def freeze(self) -> None:
        """Stop the server's execution; its port accepts connections and nothing answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue the server."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


@pytest.fixture
async def receivers() -> AsyncIterator[Receivers]:
    """Yield a receiver of webhooks on loopback."""
    receivers = Receivers()
    app = web.Application()
    app.router.add_post("/{receiver}", receivers.take)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    receivers.url = f"http://127.0.0.1:{port}"
    yield receivers
    await runner.cleanup()


def shipped_config(receivers: Receivers) -> dict[str, Any]:
    """Return the shipped configuration with webhooks as receivers, and a hundredth of its waits, at least 0.2 s."""
    config = copy.deepcopy(yaml.safe_load(CONFIG.read_text()))
    for receiver in config["receivers"]:
        receiver["webhook_configs"] = [{"url": f"{receivers.url}/{receiver['name']}"}]
    for route in (config["route"], *config["route"]["routes"]):
        waits = ("group_wait", "group_interval", *(["repeat_interval"] if route["receiver"] == "watchdog" else []))
        for wait in waits:
            if wait in route:
                route[wait] = f"{max(200, _seconds(route[wait]) * 10)}ms" if route[wait] != "0s" else "0s"
    return dict(config)


def _seconds(duration: str) -> int:
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]]


def make_server(receivers: Receivers, folder: Path, **options: str) -> Server:
    """Return Debian's Alertmanager with the shipped configuration; skip where it is not installed, fail in CI."""
    binary = program("prometheus-alertmanager", "alertmanager")
    folder.mkdir(exist_ok=True)
    config = folder / "alertmanager.yml"
    config.write_text(yaml.safe_dump(shipped_config(receivers)))
    address = f"127.0.0.1:{free_port()}"
    given = {
        "config.file": config,
        "storage.path": folder / "data",
        "web.listen-address": address,
        "web.external-url": f"http://{address}",
        "cluster.listen-address": "",
        **{name.replace("__", ".").replace("_", "-"): value for name, value in options.items()},
    }
    command = [binary, *(f"--{name}={value}" for name, value in given.items())]
    return Server(f"http://{address}", command, folder / "alertmanager.log")


@pytest.fixture
def alertmanager(receivers: Receivers, tmp_path: Path) -> Iterator[Server]:
    """Yield one Alertmanager, running."""
    server = make_server(receivers, tmp_path / "alertmanager")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield a broker for this module, because other tests use the same topic names."""
    with EmbeddedKafka(KafkaParams(data=tmp_path_factory.mktemp("kafka"))) as kafka:
        yield kafka.bootstrap


@asynccontextmanager
async def empty_topics(broker: str, *topics: Topic) -> AsyncIterator[AIOKafkaAdminClient]:
    """Create the topics, and delete them at the end; yield a client for administration."""
    admin = AIOKafkaAdminClient(bootstrap_servers=broker)
    await admin.start()
    answer = await admin.create_topics(
        [NewTopic(topic.name, 1, 1, topic_configs=topic.broker_config()) for topic in topics]
    )
    assert [code for _, code, *_ in answer.topic_errors] == [0] * len(topics)
    yield admin
    await admin.delete_topics([topic.name for topic in topics])
    give_up = time.monotonic() + 20
    while {topic.name for topic in topics} & set(await admin.list_topics()):
        assert time.monotonic() < give_up, "the topics are still there"
        await asyncio.sleep(0.05)
    await admin.close()


@pytest.fixture
async def bootstrap(broker: str) -> AsyncIterator[str]:
    """Yield the broker with the topics empty."""
    async with empty_topics(broker, *TOPICS, REJECTED, INPUT_LOSSES):
        yield broker


@pytest.fixture
async def producer(bootstrap: str) -> AsyncIterator[AIOKafkaProducer]:
    """Yield a producer."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as made:
        yield made


async def send(producer: AIOKafkaProducer, *records: Record) -> None:
    """Send records, each after the acknowledgement of the one before."""
    for record in records:
        await producer.send_and_wait(
            record.topic.name, record.value, key=record.key, partition=0, headers=list(record.headers)
        )


async def publish(producer: AIOKafkaProducer, one: Finding) -> None:
    """Publish a revision as the pipeline does: to findings, and to findings-open or as its tombstone."""
    current = tombstone(FINDINGS_OPEN, one.id) if one.is_closed else encode(FINDINGS_OPEN, one, key=one.id)
    await send(producer, encode(FINDINGS, one), current)


@asynccontextmanager
async def running(
    bootstrap: str, *servers: Server, hold_s: float = 0.5, metrics: Metrics | None = None, **settings: float
) -> AsyncIterator["asyncio.Task[None]"]:
    """Run a notifier, and cancel it as a stop of the process would."""
    async with running_by(SystemClock(), bootstrap, *servers, hold_s=hold_s, metrics=metrics, **settings) as task:
        yield task


@asynccontextmanager
async def running_by(
    clock: Clock, bootstrap: str, *servers: Server, metrics: Metrics | None = None, **settings: float
) -> AsyncIterator["asyncio.Task[None]"]:
    """Run a notifier on a host with this clock."""
    params = params_of(NotifyParams, {"cluster": "test", "alertmanagers": [one.url for one in servers], **settings})
    async with running_service(NotifyService(params, {"bootstrap_servers": bootstrap}, clock, metrics)) as task:
        yield task


@asynccontextmanager
async def running_service(service: NotifyService | TicketService | LogExport) -> AsyncIterator["asyncio.Task[None]"]:
    """Run a service, and cancel it as a stop of the process would."""
    task = asyncio.create_task(service.run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def running_command(
    constants: Mapping[str, object], name: str, config: Path, *arguments: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a command of railsight until the end of the context; its log is beside the configuration."""
    command = command_with(constants, name, "--config", str(config), *arguments)
    with config.with_suffix(".log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
    try:
        yield process
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.kill()
            await process.wait()


def fresh(**changes: object) -> Finding:
    """Return the example as of now; each other finding has a device of its own, so that it has a page of its own."""
    if (identity := changes.get("id")) is not None:
        changes = {"subject": Subject(f"device:{identity}", Endpoint(f"{identity}")), **changes}
    return finding(started_at_ns=time.time_ns() - 40_000_000_000, **changes)


async def delete_before(bootstrap: str, at: TopicPartition, offset: int) -> None:
    """Delete the records of a partition before an offset, as retention does."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.delete_records({at: RecordsToDelete(offset)})
    finally:
        await admin.close()


async def until_committed(bootstrap: str, group: str, at: TopicPartition, offset: int, within_s: float = 90) -> None:
    """Wait until the group's offset is this one."""
    give_up = time.monotonic() + within_s
    while (found := await committed(bootstrap, group, at)) != offset:
        assert time.monotonic() < give_up, f"committed {found}, not {offset}"
        await asyncio.sleep(0.1)


async def committed(bootstrap: str, group: str, at: TopicPartition) -> int | None:
    """Return the committed offset of a group."""
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False) as consumer:
        consumer.assign([at])
        offset: int | None = await consumer.committed(at)
        return offset


async def messages(bootstrap: str, topic: Topic) -> list[Message]:
    """Return all messages of a topic of one partition."""
    found: list[Message] = []
    at = TopicPartition(topic.name, 0)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([at])
        end = (await consumer.end_offsets([at]))[at]
        while await consumer.position(at) < end:
            record = await consumer.getone(at)
            found.append(decode(topic, record.value, record.headers))
    return found


async def losses(bootstrap: str) -> list[tuple[str, str, int, int]]:
    """Return the reported losses: consumer, topic, first offset and number of records."""
    found = [one for one in await messages(bootstrap, INPUT_LOSSES) if isinstance(one, InputLoss)]
    return [(loss.consumer, loss.topic, loss.first_offset, loss.records) for loss in found]
