"""The locality service on a real broker: a degraded rail is avoided and returns, over HTTP and on the topic."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from lab.constants import with_constants
from lab.world.demo_fabric import DemoShape, inventory
from streams.config.kafka import KafkaSettings
from streams.config.settings import Settings
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.health.health import Health, HealthParams
from streams.locality.params import LocalityParams
from streams.report.locality.reader import read_locality
from streams.report.locality.service import LocalityService
from streams.report.top.state import TopState
from streams.report.web.answers import Answers
from streams.report.web.server import serve
from streams.runtime.admin import ensure_topics
from streams.runtime.topic_io import inventory_records, publish, read_to_end
from streams.wire.models import Condition, Finding, HostLocality, HostUsability, Severity, Status, Subject
from streams.wire.topics import FINDINGS_OPEN, TOPOLOGY, decode, encode, tombstone
from tests.e2e.processes import once

pytestmark = pytest.mark.timeout(180)
TOKEN = "a token of tests"
NOW_NS = time.time_ns()
FINDING = Finding(
    "0123456789abcdef", 1, False, Condition.RAIL_DEGRADED, Status.OPEN, Severity.WARNING, Subject("rail:pod1-host2/3"),
    NOW_NS, NOW_NS, summary="pod1-host2 rail 3 sends less than its peers",
)  # fmt: skip
REASON = "rail:pod1-host2/3: pod1-host2 rail 3 sends less than its peers (rail/degraded 01234567)"
POD1, POD2 = ([f"pod{pod}-host{number}" for number in range(1, 5)] for pod in (1, 2))


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaSettings]:
    """Yield a broker with the real topics and the demo's inventory, which no other module shares."""
    with EmbeddedKafka(KafkaParams(data=tmp_path_factory.mktemp("kafka"))) as broker:
        settings = KafkaSettings.model_validate({"bootstrap": broker.bootstrap})

        async def prepare() -> None:
            await ensure_topics(settings)
            await publish(settings, inventory_records(inventory(DemoShape(), NOW_NS), 1))

        asyncio.run(prepare())
        yield settings


@asynccontextmanager
async def running(kafka: KafkaSettings) -> AsyncIterator[aiohttp.ClientSession]:
    """Yield a client with the token while the service runs and has a state."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    params = with_constants(LocalityParams, max_waiting=2)(port=0)
    service = LocalityService(kafka, params, time.time_ns, time.monotonic)
    answers = Answers(Settings(kafka=kafka), TopState(), service)
    health = Health(HealthParams(), time.monotonic)
    task = asyncio.create_task(serve(answers, params, TOKEN, health, address.set_result))
    try:
        async with aiohttp.ClientSession(await address, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
            async with asyncio.timeout(60):
                while (await client.get("/v1/version", params={"wait_s": "5"})).status != 200:
                    assert not task.done(), task.result()
            yield client
    finally:
        task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError), ended


async def published(kafka: KafkaSettings) -> dict[str, HostLocality]:
    """Return the records of the topic, the last of each host."""
    found: dict[str, HostLocality] = {}
    async for record in read_to_end(kafka, TOPOLOGY):
        message = decode(TOPOLOGY, record.value)
        assert isinstance(message, HostLocality)
        found[message.host] = message
    return found


async def test_a_degraded_rail_is_avoided_and_returns_when_it_is_healthy(kafka: KafkaSettings) -> None:
    """The stream of events announces both; the topic has the host as doubtful, then as good."""
    async with running(kafka) as client, client.get("/v1/events", params={"seconds": "60"}) as events:

        async def next_version() -> str:
            while not (line := (await events.content.readline()).decode()).startswith("data: "):
                assert line, "the stream ended"
            return str(json.loads(line.removeprefix("data: "))["version"])

        async def first_set() -> tuple[list[str], list[dict[str, object]]]:
            answer = await (await client.get("/v1/placement", params={"gpus": "32"})).json()
            return answer["sets"][0]["hosts"], answer["left_out"]

        versions = [await next_version()]
        assert await first_set() == (POD1, [])
        await publish(kafka, [encode(FINDINGS_OPEN, FINDING, key=FINDING.id)])
        versions.append(await next_version())
        assert await first_set() == (
            POD2, [{"host": "pod1-host2", "unit": "pod1-leaf1", "reasons": [REASON]}],
        )  # fmt: skip
        assert (await read_locality(kafka, time.time_ns)).state.usability.sum() == 1
        placed = await asyncio.to_thread(once, "place", "--gpus", "32", "--bootstrap", kafka.bootstrap)
        assert f"left out: 1 hosts\n  pod1-host2 (pod1-leaf1): {REASON}" in placed.stdout
        assert (placed.returncode, placed.stderr) == (0, "")
        async with asyncio.timeout(60):
            while (doubtful := (await published(kafka))["pod1-host2"]).usability is HostUsability.GOOD:
                pass
        assert (doubtful.unit, doubtful.group, doubtful.gpus) == ("pod1-leaf1", ("spine1",), 8)
        assert [issue.source_id for issue in doubtful.issue] == [FINDING.id]
        await publish(kafka, [tombstone(FINDINGS_OPEN, FINDING.id)])
        versions.append(await next_version())
        assert await first_set() == (POD1, [])
        assert len(set(versions)) == 2 and versions[0] == versions[2]


async def test_answers_have_an_etag_and_errors_a_line(kafka: KafkaSettings) -> None:
    """304 with the version, 401 without the token, 404, 422; a change that does not come ends the long poll.

    A page of a device is from the same inventory.
    """
    async with running(kafka) as client:
        async with client.get("/v1/distance", params={"a": "pod1-host1", "z": "pod2-host1"}) as answer:
            etag = answer.headers["ETag"]
            assert (await answer.json())["switches"] == 3
        async with client.get("/v1/devices/pod1-host1") as answer:
            found = await answer.json()
            assert found["device"]["name"] == "pod1-host1" and found["links"] and found["usability"] == "good"
        version = etag.strip('"')
        for given, status in ((etag, 304), (f'"other", W/{etag}', 304), ('"other"', 200)):
            async with client.get("/v1/hosts/pod1-host1/near", headers={"If-None-Match": given}) as answer:
                assert answer.status == status
        for path, status, detail in (
            ("/v1/hosts/nowhere/near", 404, "nowhere is no device of the inventory; name a host of the inventory"),
            ("/v1/distance?a=pod1-host1&z=spine1", 404, "spine1 is a switch; name a host of the inventory"),
            ("/v1/distance?a=pod1-host1&z=pod1-host2&a_gpu=1", 404,
             "a_gpu and z_gpu belong together: give both or none"),
        ):  # fmt: skip
            async with client.get(path) as answer:
                assert (answer.status, await answer.json()) == (status, {"detail": detail})
        for path in (
            "/v1/placement?gpus=0",
            "/v1/topology/ini",
            f"/v1/hosts/{'h' * 300}/near",
            "/v1/version?wait_s=61",
        ):
            async with client.get(path) as answer:
                assert answer.status == 422, path
        for header in ("", "Bearer wrong", "Basic eDp5"):
            async with client.get("/v1/version", headers={"Authorization": header}) as answer:
                assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        async with client.get("/v1/version", params={"after": version, "wait_s": "0.1"}) as answer:
            assert (await answer.json())["version"] == version
        async with client.get("/v1/topology/slurm") as answer:
            assert "SwitchName=pod1-leaf1 Nodes=pod1-host[1-4]" in await answer.text()


async def test_more_clients_than_may_wait_are_refused(kafka: KafkaSettings) -> None:
    """The others go on; a client that leaves makes room."""
    async with running(kafka) as client:
        streams = [await client.get("/v1/events") for _ in range(2)]
        for stream in streams:
            assert (await stream.content.readline()).startswith(b"id: ")
        async with asyncio.timeout(60):
            while (refused := await client.get("/v1/events")).status != 503:
                refused.close()
        assert refused.headers["Retry-After"] == "5"
        streams[0].close()
        async with asyncio.timeout(60):
            while (again := await client.get("/v1/events")).status != 200:
                again.close()
        again.close()
        streams[1].close()


async def test_a_restart_publishes_nothing_that_is_there(kafka: KafkaSettings) -> None:
    """The topic ends where it ended."""
    async with running(kafka):
        before = await _end(kafka)
    async with running(kafka):
        assert await _end(kafka) == before


async def _end(kafka: KafkaSettings) -> int:
    return max([record.offset async for record in read_to_end(kafka, TOPOLOGY)], default=-1)
