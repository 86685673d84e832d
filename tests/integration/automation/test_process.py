"""Tests the automation as a process, with a real broker and the simulator's switches: killed and started again."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiokafka
import pytest
from railsight_automation.messages import rfc3339

from collectors.core.clock import SystemClock
from lab.servers.gnmi_server import GnmiServers
from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from lab.world.demo_world import DemoWorld
from lab.world.port_configuration import DRAIN_POLICY, Setting
from streams.wire import codec
from streams.wire.models import Outcome, RemediationResult
from tests.fixtures.automation import CONFIRMED, remediation_json
from tests.fixtures.automation_process import start
from tests.fixtures.waiting import until
from tests.integration.fixtures_kafka import Broker, create_topics

SHAPE = DemoShape(pods=1, hosts=1, planes=1, spines=1, uplinks=2)

pytestmark = pytest.mark.timeout(240)


@dataclass
class Rig:
    """A broker with two topics, a fabric, and the folder of the automation."""

    producer: aiokafka.AIOKafkaProducer
    consumer: aiokafka.AIOKafkaConsumer
    remediations: str
    folder: Path
    world: DemoWorld
    clock: SystemClock

    async def publish(self, identity: str, action: str) -> None:
        """Publish an approved remediation of the first uplink."""
        link = next(link for link in self.world.inventory.links if link.role == "fabric-link")
        ends = {end: {"device": port.device, "port": port.port} for end, port in (("a", link.a), ("z", link.z))}
        target = {"id": "link:x", "role": "fabric-link"} | ends
        expiry = rfc3339(time.time_ns() + 60 * 10**9)
        value = remediation_json(identity, action, target=target, expiresAt=expiry)
        await self.producer.send_and_wait(self.remediations, value, key=b"link:x")

    async def results(self, count: int) -> list[RemediationResult]:
        """Return the next results; confirm acceptances, as `decide` does."""
        async with asyncio.timeout(60):
            found = [codec.from_json(RemediationResult, (await self.consumer.getone()).value) for _ in range(count)]
        for result in found:
            if result.outcome is Outcome.ACCEPTED:
                more = {"state": "ACCEPTED", "actor": "netbot", "instance": result.instance}
                expiry = rfc3339(time.time_ns() + 60 * 10**9)
                value = remediation_json(result.remediation_id, revision=CONFIRMED, expiresAt=expiry, **more)
                await self.producer.send_and_wait(self.remediations, value, key=b"link:x")
        return found

    def is_drained(self) -> bool:
        """Return whether both ends of the link have the drain policy."""
        link = next(link for link in self.world.inventory.links if link.role == "fabric-link")
        values = [
            self.world.configuration.value(end, setting, self.clock.now_ns())
            for end in (link.a, link.z)
            for setting in (Setting.EXPORT_POLICY, Setting.IMPORT_POLICY)
        ]
        drained = [DRAIN_POLICY in value for value in values if isinstance(value, tuple)]
        assert len(set(drained)) == 1 and len(drained) == 4
        return drained[0]


@asynccontextmanager
async def rig(
    kafka: Broker, topic_name: Callable[[str], str], folder: Path, *, with_topic: bool = True
) -> AsyncIterator[Rig]:
    """Run all but the automation."""
    remediations, results = topic_name("remediations"), topic_name("results")
    await create_topics(kafka.bootstrap, results)
    clock = SystemClock()
    world = DemoWorld(demo_fabric.inventory(SHAPE, clock.now_ns()), (), 1, clock.now_ns())
    async with (
        GnmiServers(world, clock) as face,
        aiokafka.AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer,
        aiokafka.AIOKafkaConsumer(results, bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        targets = [{"name": name, "address": address} for name, address in face.addresses.items()]
        (folder / "targets.json").write_text(json.dumps(targets))
        (folder / "automation.toml").write_text(
            'actor = "netbot"\njournal = "journal.jsonl"\n[gnmi]\ntargets = "targets.json"\n[kafka]\n'
            f'bootstrap = "{kafka.bootstrap}"\nremediations = "{remediations}"\nresults = "{results}"\n'
        )
        if with_topic:
            await create_topics(kafka.bootstrap, remediations)
        yield Rig(producer, consumer, remediations, folder, world, clock)


async def test_a_killed_automation_goes_on_and_acts_once(
    kafka: Broker, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    """Drained, killed, restored after a new start; neither of the two is done a second time."""
    async with rig(kafka, topic_name, tmp_path) as now:
        process = start(tmp_path)
        try:
            await now.publish("r1", "DRAIN_LINK")
            (accepted,), (done,) = await now.results(1), await now.results(1)
            assert (accepted.outcome, done.outcome, done.actor) == (Outcome.ACCEPTED, Outcome.DONE, "netbot")
            assert now.is_drained()
            process.kill()
            process.wait(10)
            await now.publish("r1", "DRAIN_LINK")
            await now.publish("r2", "RESTORE_LINK")
            process = start(tmp_path)
            answers = [("r1", Outcome.DONE)]  # is repeated if the process was killed before the journal had it
            while answers[-1] != ("r2", Outcome.DONE):
                (result,) = await now.results(1)
                answers.append((result.remediation_id, result.outcome))
            assert list(dict.fromkeys(answers)) == [
                ("r1", Outcome.DONE), ("r2", Outcome.ACCEPTED), ("r2", Outcome.DONE),
            ]  # fmt: skip
            assert not now.is_drained()
            process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()
            process.wait(10)


async def test_a_topic_that_is_made_later_is_waited_for(
    kafka: Broker, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    """The order of starts does not matter."""
    async with rig(kafka, topic_name, tmp_path, with_topic=False) as now:
        process = start(tmp_path)
        try:
            await until(lambda: "waiting for topic" in (tmp_path / "log").read_text(), 60, 0.1)
            await create_topics(kafka.bootstrap, now.remediations)
            await now.publish("r1", "DRAIN_LINK")
            found = [*await now.results(1), *await now.results(1)]
            assert [result.outcome for result in found] == [Outcome.ACCEPTED, Outcome.DONE]
        finally:
            process.kill()
            process.wait(10)


def test_a_wrong_configuration_is_one_line(tmp_path: Path) -> None:
    """Exit status 2, without a traceback."""
    (tmp_path / "automation.toml").write_text("[gnmi]\n")
    process = start(tmp_path)
    assert process.wait(30) == 2
    assert (tmp_path / "log").read_text().count("\n") == 1
