"""Tests `railsight tickets` with a broker: each ticket opened and closed once, through outages, kills and takeovers."""

import asyncio
import itertools
import random
import signal
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupCoordinatorNotAvailableError

from collectors.core.clock import SystemClock
from lab.constants import params_of
from streams.notify.params import NotifyParams
from streams.notify.tickets.params import TicketParams
from streams.notify.tickets.service import GROUP, TicketService
from streams.wire.errors import Misconfigured, Retry
from streams.wire.models import Action, Rejected, Remediation
from streams.wire.models import RemediationState as State
from streams.wire.topics import INPUT_LOSSES, REJECTED, REMEDIATIONS, Record, encode
from tests.fakes.ticket_server import WebhookServer, drop, hang
from tests.fixtures.notify_examples import remediation
from tests.fixtures.ports import free_port
from tests.fixtures.runtime_bindings import CountedMetrics
from tests.integration.notify import conftest
from tests.integration.notify.conftest import (
    committed,
    delete_before,
    empty_topics,
    losses,
    messages,
    running_command,
    running_service,
    send,
    until,
)

PARTITION = TopicPartition(REMEDIATIONS.name, 0)


async def state_of_group(admin: AIOKafkaAdminClient) -> str:
    """Return the state of the group; `Dead` if it does not exist, empty while no broker coordinates it."""
    try:
        (response,) = await admin.describe_consumer_groups([GROUP])
    except GroupCoordinatorNotAvailableError:
        return ""
    ((_, _, state, *_),) = response.groups
    return str(state)


@pytest.fixture
async def bootstrap(broker: str) -> AsyncIterator[str]:
    """Yield the broker with the topics empty, and the group without offsets and members."""
    async with empty_topics(broker, REMEDIATIONS, REJECTED, INPUT_LOSSES) as admin:
        give_up = time.monotonic() + 60
        while (state := await state_of_group(admin)) not in ("Empty", "Dead"):
            assert time.monotonic() < give_up, f"the group is {state}"  # a killed member is one until its session ends
            await asyncio.sleep(0.1)
        yield broker


@pytest.fixture
async def desk() -> AsyncIterator[WebhookServer]:
    server = WebhookServer()
    await server.start()
    yield server
    await server.stop()


_revisions = itertools.count(1)


def order(identity: str, state: State, **fields: Any) -> Remediation:
    """Return the next revision of a repair order."""
    return remediation(id=identity, revision=next(_revisions), action=Action.REPAIR_LINK, state=state, **fields)


async def publish(producer: AIOKafkaProducer, *messages: Remediation | Record) -> None:
    await send(producer, *(one if isinstance(one, Record) else encode(REMEDIATIONS, one) for one in messages))


def until_committed(bootstrap: str, offset: int, within_s: float = 40) -> Awaitable[None]:
    return conftest.until_committed(bootstrap, GROUP, PARTITION, offset, within_s)


async def end_of(bootstrap: str) -> int:
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        return int((await consumer.end_offsets([PARTITION]))[PARTITION])


def service(bootstrap: str, url: str, metrics: CountedMetrics | None = None, **settings: Any) -> TicketService:
    """Return the service with short waits."""
    values = {"url": url, "timeout_s": 0.5, "backoff_s": 0.05, "backoff_max_s": 0.2, **settings}
    return TicketService(
        params_of(TicketParams, values), NotifyParams(cluster="test"), {"bootstrap_servers": bootstrap},
        SystemClock(), metrics or CountedMetrics(),
    )  # fmt: skip


def running(
    bootstrap: str, url: str, metrics: CountedMetrics | None = None, **settings: Any
) -> AbstractAsyncContextManager["asyncio.Task[None]"]:
    return running_service(service(bootstrap, url, metrics, **settings))


CONSTANTS = {
    "tickets.timeout_s": 1, "tickets.backoff_s": 0.05, "tickets.backoff_max_s": 0.5,
}  # fmt: skip


def written(tmp_path: Path, bootstrap: str, url: str, text: str = "") -> Path:
    path = tmp_path / "railsight.toml"
    path.write_text(f'[kafka]\nbootstrap = "{bootstrap}"\ncluster = "ams"\n[tickets]\nurl = "{url}"\n{text}')
    return path


async def test_a_ticket_follows_its_remediation(
    bootstrap: str, producer: AIOKafkaProducer, desk: WebhookServer
) -> None:
    """A first start opens what is open now, with its last revision; a stop and a start deliver nothing twice."""
    metrics = CountedMetrics()
    await publish(
        producer, order("r0", State.APPROVED), order("r0", State.CLOSED), order("r2", State.APPROVED),
        order("r2", State.ACCEPTED), order("r3", State.ESCALATED),
    )  # fmt: skip
    async with running(bootstrap, desk.url, metrics):
        await until_committed(bootstrap, 5)
        assert desk.history == {"r2": ["open"], "r3": ["open"]} and desk.tickets["r2"]["state"] == "ACCEPTED"
        await publish(producer, order("r1", State.APPROVED))
        await until(lambda: desk.open_ids == {"r1", "r2", "r3"})
        await until_committed(bootstrap, 6)
        await until(lambda: metrics.counts["railsight_tickets_open"] == 3)
    async with running(bootstrap, desk.url, metrics):
        await publish(producer, order("r1", State.ACCEPTED, repair_hint="replace the cable"))
        await until(lambda: desk.tickets["r1"].get("repairHint") == "replace the cable")
        await publish(producer, order("r1", State.CLOSED))
        await until(lambda: desk.history["r1"] == ["open", "closed"])
        await until_committed(bootstrap, 8)
    assert len(desk.requests) == 6
    assert metrics.counts["railsight_tickets_delivered_total"] == 6
    assert metrics.counts["railsight_tickets_blocked"] == 0


async def test_a_first_start_that_was_interrupted_closes_what_it_opened(
    bootstrap: str, producer: AIOKafkaProducer, desk: WebhookServer
) -> None:
    """A ticket that was opened before the interruption, and whose remediation ended in it, does not stay open."""

    async def fail_one(request: web.Request) -> web.Response | None:
        return web.Response(status=500) if request.path.endswith("/r2") else None

    desk.before, metrics = fail_one, CountedMetrics()
    await publish(producer, order("r1", State.APPROVED), order("r2", State.APPROVED))
    async with running(bootstrap, desk.url, metrics):
        await until(lambda: metrics.counts.get("railsight_ticket_failures_total", 0) > 1)
    assert desk.open_ids == {"r1"}
    await publish(producer, order("r1", State.CLOSED))
    desk.before = None
    async with running(bootstrap, desk.url):
        await until_committed(bootstrap, 3)
    assert desk.history == {"r1": ["open", "closed"], "r2": ["open"]}


async def test_remediations_that_were_deleted_unread_are_counted_and_the_next_is_delivered(
    bootstrap: str, producer: AIOKafkaProducer, desk: WebhookServer
) -> None:
    """Three of four unread ones; a second start counts nothing again."""
    metrics = CountedMetrics()
    async with running(bootstrap, desk.url, metrics):
        await publish(producer, order("r0", State.APPROVED))
        await until_committed(bootstrap, 1)
    await publish(producer, *(order(f"r{number}", State.APPROVED) for number in range(1, 5)))
    await delete_before(bootstrap, PARTITION, 4)
    for _ in range(2):
        async with running(bootstrap, desk.url, metrics):
            await until_committed(bootstrap, 5)
    assert desk.history == {"r0": ["open"], "r4": ["open"]}
    assert metrics.counts["railsight_input_lost_records_total"] == 3
    assert await losses(bootstrap) == [("tickets", REMEDIATIONS.name, 1, 3)]


async def refuse(_request: web.Request) -> web.Response:
    return web.Response(status=401)


@pytest.mark.parametrize("refuses", [False, True], ids=["away", "refuses the login"])
async def test_a_system_that_is_away_or_refuses_the_login_misses_nothing(
    bootstrap: str, producer: AIOKafkaProducer, desk: WebhookServer, refuses: bool
) -> None:
    """Tickets that opened and closed meanwhile are delivered as well, in order; the metric shows the outage."""
    metrics = CountedMetrics()
    async with running(bootstrap, desk.url, metrics):
        await publish(producer, order("r0", State.APPROVED))
        await until(lambda: desk.open_ids == {"r0"})
        await until_committed(bootstrap, 1)
        if refuses:
            desk.before = refuse
        else:
            await desk.stop()
        await publish(
            producer, order("r1", State.APPROVED), order("r0", State.CLOSED), order("r2", State.APPROVED),
            order("r1", State.CLOSED),
        )  # fmt: skip
        await until(lambda: metrics.counts["railsight_tickets_blocked"] == 1)
        await until(lambda: metrics.counts["railsight_ticket_failures_total"] > 3)
        assert await committed(bootstrap, GROUP, PARTITION) == 1
        desk.before = None
        if not refuses:
            await desk.start()
        await until_committed(bootstrap, 5)
        await until(lambda: metrics.counts["railsight_tickets_blocked"] == 0)
    assert desk.history == {"r0": ["open", "closed"], "r1": ["open", "closed"], "r2": ["open"]}
    assert metrics.counts["railsight_tickets_delivered_total"] == 5


async def test_a_bad_ticket_is_counted_and_blocks_no_other(
    bootstrap: str, producer: AIOKafkaProducer, desk: WebhookServer
) -> None:
    """A ticket that is refused is not repeated; its next change is delivered whole."""

    async def refuse_one(request: web.Request) -> web.Response | None:
        return web.Response(status=422) if request.path.endswith("/bad") else None

    desk.before, metrics = refuse_one, CountedMetrics()
    async with running(bootstrap, desk.url, metrics):
        await until_committed(bootstrap, 0)
        await publish(producer, order("bad", State.APPROVED), order("r1", State.APPROVED))
        await until_committed(bootstrap, 2)
        assert desk.open_ids == {"r1"} and metrics.counts["railsight_tickets_refused_total"] == 1
        desk.before = None
        await publish(producer, order("bad", State.ACCEPTED))
        await until(lambda: desk.open_ids == {"bad", "r1"})
    assert desk.tickets["bad"]["state"] == "ACCEPTED"


async def test_an_unreadable_record_is_rejected_and_blocks_no_ticket(
    bootstrap: str, producer: AIOKafkaProducer, desk: WebhookServer
) -> None:
    """It goes to the rejected topic once, with its origin; an id that is no segment of a URL as well."""
    metrics = CountedMetrics()
    async with running(bootstrap, desk.url, metrics):
        await until_committed(bootstrap, 0)
        await publish(
            producer, Record(REMEDIATIONS, b"poison", b"not json"), order("../x", State.APPROVED),
            order("r1", State.APPROVED),
        )  # fmt: skip
        await until(lambda: desk.open_ids == {"r1"})
        await until_committed(bootstrap, 3)
    assert metrics.counts["railsight_rejected_total"] == 2
    assert [path for _, path in desk.requests] == ["/desk/r1"]
    found = await messages(bootstrap, REJECTED)
    assert [(one.offset, one.stage) for one in found if isinstance(one, Rejected)] == [(0, "tickets"), (1, "tickets")]


async def faults(rng: random.Random) -> Callable[[web.Request], Awaitable[web.StreamResponse | None]]:
    """Return a responder that fails a third of the requests: 500, 503, a lost connection, or a slow response."""

    async def fail(request: web.Request) -> web.StreamResponse | None:
        match rng.randrange(12):
            case 0:
                return web.Response(status=500)
            case 1:
                return web.Response(status=503, headers={"Retry-After": "0"})
            case 2:
                drop(request)
            case 3:
                await asyncio.sleep(0.8)
        return None

    return fail


async def live(producer: AIOKafkaProducer, rng: random.Random, number: int) -> dict[str, str]:
    """Publish the lives of orders, interleaved; return the status that each ticket must have in the end."""
    lives = {
        f"r{i}": [State.APPROVED, State.ACCEPTED, State.ESCALATED, State.CLOSED][: 4 if i % 3 else 2]
        for i in range(number)
    }
    expected = {identity: "closed" if State.CLOSED in states else "open" for identity, states in lives.items()}
    while lives:
        identity = rng.choice(sorted(lives))
        await publish(producer, order(identity, lives[identity].pop(0)))
        if not lives[identity]:
            del lives[identity]
        await asyncio.sleep(0.02)
    return expected


async def test_with_faults_kills_and_takeovers_every_ticket_is_opened_and_closed_once(
    bootstrap: str, producer: AIOKafkaProducer, desk: WebhookServer, tmp_path: Path
) -> None:
    """The process is killed in the midst of requests and starts again, a second one waits; the desk is as Kafka."""
    rng = random.Random(7)
    desk.before = await faults(rng)
    desk.after = await faults(rng)
    config = written(tmp_path, bootstrap, desk.url)
    async with running(bootstrap, desk.url):
        await until_committed(bootstrap, 0)
    publishing = asyncio.create_task(live(producer, rng, 20))
    for _ in range(2):
        before = len(desk.requests)
        async with running_command(CONSTANTS, "tickets", config) as process:
            await until(lambda before=before: len(desk.requests) > before + 5, 60)  # type: ignore[misc]
            process.kill()
            await process.wait()
    expected = await publishing
    async with running(bootstrap, desk.url):
        await until_committed(bootstrap, await end_of(bootstrap), 90)
    assert {key: ticket["status"] for key, ticket in desk.tickets.items()} == expected
    assert desk.history == {
        key: ["open", "closed"] if status == "closed" else ["open"] for key, status in expected.items()
    }


async def test_a_process_that_was_stopped_takes_over_before_it_writes(
    bootstrap: str, producer: AIOKafkaProducer, desk: WebhookServer, tmp_path: Path
) -> None:
    """Another one closes the ticket meanwhile; after it continues, the first writes no old state."""
    config = written(tmp_path, bootstrap, desk.url)
    async with running_command(CONSTANTS, "tickets", config) as stopped:
        await until_committed(bootstrap, 0)
        await publish(producer, order("r1", State.APPROVED))
        await until(lambda: desk.open_ids == {"r1"}, 60)
        await until_committed(bootstrap, 1)
        desk.before = hang  # the update waits in the first process, which is stopped in the midst of it
        await publish(producer, order("r1", State.ACCEPTED))
        requests = len(desk.requests)
        await until(lambda: len(desk.requests) > requests)
        stopped.send_signal(signal.SIGSTOP)
        desk.before = None
        async with running(bootstrap, desk.url):
            await publish(producer, order("r1", State.CLOSED))
            await until(lambda: desk.history["r1"] == ["open", "closed"], 60)
            await until_committed(bootstrap, 3)
            stopped.send_signal(signal.SIGCONT)
            await until(lambda: "taking over again" in config.with_suffix(".log").read_text(), 60)
        await publish(producer, order("r2", State.APPROVED))
        await until(lambda: desk.open_ids == {"r2"}, 60)
        await until_committed(bootstrap, 4)
    assert desk.history == {"r1": ["open", "closed"], "r2": ["open"]}
    assert desk.tickets["r1"]["status"] == "closed"


async def test_a_topic_that_was_made_again_is_begun_as_for_the_first_time(
    bootstrap: str, producer: AIOKafkaProducer, desk: WebhookServer
) -> None:
    """An offset beyond the end is of another topic; waiting for it would deliver nothing."""
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=GROUP, enable_auto_commit=False) as consumer:
        consumer.assign([PARTITION])
        await consumer.commit({PARTITION: 500})
    await publish(producer, order("r1", State.APPROVED))
    async with running(bootstrap, desk.url):
        await until(lambda: desk.open_ids == {"r1"})
        await until_committed(bootstrap, 1)


async def test_the_command_serves_the_metrics_of_its_alert(
    bootstrap: str, producer: AIOKafkaProducer, tmp_path: Path
) -> None:
    """`railsight tickets` reads the shared file; while no desk answers its gauge is 1; SIGTERM ends it with 0."""
    port, away = free_port(), free_port()
    config = written(tmp_path, bootstrap, f"http://127.0.0.1:{away}")
    await publish(producer, order("r1", State.APPROVED))

    def blocked() -> bool:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as answer:
            return 'railsight_tickets_blocked{partition="0",stage="tickets"} 1.0' in answer.read().decode()
        return False

    async with running_command(CONSTANTS, "tickets", config, "--metrics-port", str(port)) as process:
        await until(blocked, 60)
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 20) == 0


async def test_what_is_missing_at_the_start_is_one_clear_line(broker: str, tmp_path: Path) -> None:
    """No topic, no Kafka, no token: each names the next step."""
    away = "http://127.0.0.1:1"
    with pytest.raises(Retry, match="create it with `railsight topics`"):
        await asyncio.wait_for(service(broker, away).run(), 30)
    with pytest.raises(Retry, match="cannot connect to Kafka"):
        await asyncio.wait_for(service(f"127.0.0.1:{free_port()}", away).run(), 30)
    with pytest.raises(Misconfigured, match=r"tickets\.token_file: cannot read"):
        await service(broker, away, token_file=tmp_path / "absent").run()
