"""The notifier as it runs: from findings in Kafka to a page, through changes of owner and of Alertmanager."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.notify.alertmanager import Alertmanager
from streams.notify.params import NotifyParams
from streams.notify.service import NotifyService
from streams.wire.errors import Retry
from streams.wire.models import Control, ControlKind, Finding, Rejected, Status
from streams.wire.topics import CONTROLS, FINDINGS, FINDINGS_OPEN, REJECTED, Record, decode, encode, tombstone
from tests.fixtures.notify_examples import finding
from tests.integration.notify.conftest import Desk, Server, free_port, until

pytestmark = pytest.mark.peer("prometheus-alertmanager")


class WallClock:
    def now_ns(self) -> int:
        return time.time_ns()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield a broker of this module's own: the topics' names are fixed, and other tests use them too."""
    with EmbeddedKafka(KafkaParams(data=tmp_path_factory.mktemp("kafka"))) as kafka:
        yield kafka.bootstrap


@pytest.fixture
async def bootstrap(broker: str) -> AsyncIterator[str]:
    """Yield the broker with the topics empty."""
    admin = AIOKafkaAdminClient(bootstrap_servers=broker)
    await admin.start()
    topics = (FINDINGS, FINDINGS_OPEN, CONTROLS, REJECTED)
    answer = await admin.create_topics(
        [NewTopic(topic.name, 1, 1, topic_configs=topic.broker_config()) for topic in topics]
    )
    assert [code for _, code, *_ in answer.topic_errors] == [0] * len(topics)
    yield broker
    await admin.delete_topics([topic.name for topic in topics])
    give_up = time.monotonic() + 20
    while {topic.name for topic in topics} & set(await admin.list_topics()):
        assert time.monotonic() < give_up, "the topics are still there"
        await asyncio.sleep(0.05)
    await admin.close()


@pytest.fixture
async def producer(bootstrap: str) -> AsyncIterator[AIOKafkaProducer]:
    """Yield a producer."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as made:
        yield made


async def send(producer: AIOKafkaProducer, *records: Record) -> None:
    for record in records:
        await producer.send_and_wait(
            record.topic.name, record.value, key=record.key, partition=0, headers=list(record.headers)
        )


async def say(producer: AIOKafkaProducer, one: Finding) -> None:
    """What the pipeline writes of a revision: to findings, and to findings-open or out of it."""
    board = tombstone(FINDINGS_OPEN, one.id) if one.is_closed else encode(FINDINGS_OPEN, one, key=one.id)
    await send(producer, encode(FINDINGS, one), board)


@asynccontextmanager
async def running(bootstrap: str, server: Server, hold_s: float = 0.5) -> AsyncIterator["asyncio.Task[None]"]:
    """Run a notifier, and cancel it as a stop of the process does."""
    params = NotifyParams(cluster="test", alertmanagers=(server.url,), hold_s=hold_s)
    service = NotifyService(params, {"bootstrap_servers": bootstrap}, WallClock())
    task = asyncio.create_task(service.run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def fresh(**changes: object) -> Finding:
    return finding(started_at_ns=time.time_ns() - 40_000_000_000, **changes)


async def test_findings_become_one_page_and_its_resolution(
    bootstrap: str, producer: AIOKafkaProducer, alertmanager: Server, desk: Desk
) -> None:
    """What is open before the start is told, an update pages no more, the end is told once with its own words."""
    await say(producer, fresh())
    async with running(bootstrap, alertmanager):
        await until(lambda: desk.to("pager"), 30)
        await say(producer, fresh(revision=2, status=Status.UPDATED, summary="still down"))
        await say(producer, fresh(revision=3, status=Status.RETRACTED, resolved_at_ns=time.time_ns()))
        await until(lambda: desk.to("pager", "resolved"))
    assert [said["status"] for said in desk.to("pager")] == ["firing", "resolved"]
    (end,) = desk.to("pager", "resolved")
    assert end["alerts"][0]["annotations"]["summary"].startswith("Retracted")


async def test_a_stop_resolves_nothing_and_a_restart_pages_nothing(
    bootstrap: str, producer: AIOKafkaProducer, alertmanager: Server, desk: Desk
) -> None:
    """While nobody runs one of two findings ends: its page is resolved after the start, the other is left alone."""
    await say(producer, fresh())
    await say(producer, fresh(id="f2"))
    async with running(bootstrap, alertmanager):
        await until(lambda: len(desk.to("pager")) == 2, 30)
    await say(producer, fresh(id="f2", revision=2, status=Status.RESOLVED, resolved_at_ns=time.time_ns()))
    # A hold of an hour: had the successor to hold again, the page would end.
    async with running(bootstrap, alertmanager, hold_s=3600):
        await until(lambda: desk.to("pager", "resolved"), 30)
        await say(producer, fresh(id="f3"))
        await until(lambda: any("f3" in str(said) for said in desk.to("board")), 30)
    told = [(said["status"], said["groupLabels"]["cause_id"]) for said in desk.to("pager")]
    assert sorted(told[:2]) == [("firing", "f1"), ("firing", "f2")]
    assert told[2:] == [("resolved", "f2")]


async def test_an_acknowledgement_before_the_start_keeps_it_quiet(
    bootstrap: str, producer: AIOKafkaProducer, alertmanager: Server, desk: Desk
) -> None:
    """Controls are read from the beginning, as findings are."""
    await send(producer, encode(CONTROLS, Control("c1", ControlKind.ACKNOWLEDGE, "f1")))
    await say(producer, fresh())
    await say(producer, fresh(id="f2"))
    async with running(bootstrap, alertmanager):
        await until(lambda: desk.to("pager"), 30)
        await until(lambda: any("f1" in str(said) for said in desk.to("board")), 30)
    assert [said["groupLabels"]["cause_id"] for said in desk.to("pager")] == ["f2"]


async def test_what_cannot_be_read_is_rejected_and_stops_nothing(
    bootstrap: str, producer: AIOKafkaProducer, alertmanager: Server, desk: Desk
) -> None:
    """A poisoned finding goes to the rejected topic with its origin; the next one pages."""
    await send(producer, Record(FINDINGS_OPEN, b"poison", b"not json"))
    await say(producer, fresh())
    async with running(bootstrap, alertmanager):
        await until(lambda: desk.to("pager"), 30)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(REJECTED.name, 0)])
        await consumer.seek_to_beginning()
        record = await asyncio.wait_for(consumer.getone(), 20)
    rejected = decode(REJECTED, record.value, record.headers)
    assert isinstance(rejected, Rejected)
    assert (rejected.topic, rejected.offset, rejected.stage, rejected.value) == (
        FINDINGS_OPEN.name,
        0,
        "notify",
        b"not json",
    )


async def test_an_alertmanager_that_is_away_is_told_when_it_is_back(
    bootstrap: str, producer: AIOKafkaProducer, alertmanager: Server, desk: Desk
) -> None:
    """What is still open then is paged; what came and went meanwhile is not."""
    async with running(bootstrap, alertmanager):
        await say(producer, fresh(id="f0"))
        await until(lambda: desk.to("pager"), 30)
        alertmanager.stop()
        await say(producer, fresh(id="short"))
        await say(producer, fresh())
        await say(producer, fresh(id="short", revision=2, status=Status.RESOLVED, resolved_at_ns=time.time_ns()))
        await asyncio.sleep(2)  # longer than the hold: it is tried in vain
        alertmanager.start()
        await until(lambda: any("f1" in str(said) for said in desk.to("pager")), 60)
    assert not any("short" in str(said) for _, said in desk.told)


async def test_a_second_notifier_waits_and_takes_over(
    bootstrap: str, producer: AIOKafkaProducer, alertmanager: Server, desk: Desk
) -> None:
    """Two run for safety: one pages, and when it goes the other does, each cause once."""
    async with running(bootstrap, alertmanager):
        async with running(bootstrap, alertmanager):
            await say(producer, fresh())
            await until(lambda: desk.to("pager"), 60)
        await say(producer, fresh(id="f2"))
        await until(lambda: len(desk.to("pager")) == 2, 60)
    assert sorted(said["groupLabels"]["cause_id"] for said in desk.to("pager")) == ["f1", "f2"]


async def test_the_command_pages_and_a_stop_leaves_the_page_standing(
    bootstrap: str, producer: AIOKafkaProducer, alertmanager: Server, desk: Desk, tmp_path: Path
) -> None:
    """`railsight notify` with a configuration file; SIGTERM ends it with 0, and resolves nothing."""
    config = tmp_path / "railsight.toml"
    config.write_text(
        f'[kafka]\nbootstrap = "{bootstrap}"\ncluster = "ams"\n'
        f'[notify]\nalertmanagers = ["{alertmanager.url}"]\nhold_s = 0.5\n'
    )
    await say(producer, fresh())
    command = [sys.executable, "-m", "streams.cli.main", "notify", "--config", str(config)]
    process = await asyncio.create_subprocess_exec(*command)
    try:
        await until(lambda: desk.to("pager"), 60)
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 20) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert [alert["labels"]["cluster"] for alert in desk.to("pager")[0]["alerts"]] == ["ams"]
    async with Alertmanager(NotifyParams(cluster="ams", alertmanagers=(alertmanager.url,))) as client:
        assert [alert.labels["page"] for alert in await client.active_alerts()] == ["true"]


async def test_missing_topics_are_named(broker: str, alertmanager: Server) -> None:
    """A notifier on a new cluster says what to do, and does not wait without a word."""
    service = NotifyService(NotifyParams(alertmanagers=(alertmanager.url,)), {"bootstrap_servers": broker}, WallClock())
    with pytest.raises(Retry, match=r"railsight\.findings\.v1: create them with `railsight topics`"):
        await asyncio.wait_for(service.run(), 30)


async def test_no_kafka_is_one_clear_line(alertmanager: Server) -> None:
    """Where no broker answers, the process ends with Retry and leaves nothing open."""
    params = NotifyParams(alertmanagers=(alertmanager.url,))
    service = NotifyService(params, {"bootstrap_servers": f"127.0.0.1:{free_port()}"}, WallClock())
    with pytest.raises(Retry, match="cannot connect to Kafka"):
        await service.run()
