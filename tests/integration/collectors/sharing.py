"""Runs forty simulated switches, and collectors in processes of their own that share them through Kafka."""

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiokafka import AIOKafkaConsumer

from collectors.core.clock import SystemClock
from lab.constants import command_with
from lab.servers.gnmi_server import GnmiServers
from lab.world import demo_fabric
from streams.config.kafka import KafkaSettings
from streams.runtime.admin import ensure_topics
from streams.wire.models import Samples
from streams.wire.topics import COLLECTOR_STATUS, EVENTS, FACTS, SAMPLES, TARGETS, decode
from tests.fixtures.waiting import until
from tests.integration.collectors.fabric import world_of

SHAPE = demo_fabric.DemoShape(pods=2, hosts=1, planes=1, spines=24, uplinks=1)
SESSION_S = 6.0
CADENCE_S = 2.0


@dataclass
class Sharing:
    """The running members, and the reader of each device over time, by arrival."""

    bootstrap: str
    targets: Path
    devices: frozenset[str]
    read: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    members: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start a member of the group."""
        settings = {"share_group": "test", "cadence_s": CADENCE_S}
        command = command_with(
            {"collect.gnmi.share_session_s": SESSION_S}, "collect", "gnmi", "--bootstrap", self.bootstrap,
            "--targets", str(self.targets), "--name", name,
        )  # fmt: skip
        self.members[name] = subprocess.Popen(
            [*command, *(f"--set={key}={value}" for key, value in settings.items())]
        )  # fmt: skip

    def signal(self, name: str, number: signal.Signals) -> float:
        """Send the signal; return the time."""
        self.members[name].send_signal(number)
        return time.time()

    def readers(self, since_s: float, until_s: float = float("inf")) -> dict[str, set[str]]:
        """Return the readers of each device in an interval."""
        return {
            device: {who for at_s, who in self.read.get(device, ()) if since_s <= at_s < until_s}
            for device in self.devices
        }

    async def until(self, holds: Callable[[], bool], within_s: float) -> float:
        """Wait until the condition is true; return the time."""
        await until(holds, within_s)
        return time.time()


@asynccontextmanager
async def sharing(bootstrap: str, folder: Path) -> AsyncIterator[Sharing]:
    """Run the fabric and record the reader of each device; the test starts the members."""
    await ensure_topics(KafkaSettings(bootstrap=bootstrap), [SAMPLES, EVENTS, FACTS, COLLECTOR_STATUS, TARGETS])
    async with GnmiServers(world_of(shape=SHAPE), SystemClock()) as face:
        targets = folder / "targets.json"
        targets.write_text(json.dumps([{"name": name, "address": at} for name, at in face.addresses.items()]))
        shared = Sharing(bootstrap, targets, frozenset(face.addresses))
        noting = asyncio.create_task(_note(shared))
        try:
            yield shared
        finally:
            noting.cancel()
            await asyncio.gather(noting, return_exceptions=True)
            for member in shared.members.values():
                member.kill()
                await asyncio.to_thread(member.wait)


async def _note(shared: Sharing) -> None:
    consumer = AIOKafkaConsumer(SAMPLES.name, bootstrap_servers=shared.bootstrap, auto_offset_reset="latest")
    await consumer.start()
    try:
        async for record in consumer:
            samples = decode(SAMPLES, record.value, record.headers)
            if isinstance(samples, Samples):
                shared.read.setdefault(samples.device, []).append((samples.received_at_ns / 1e9, samples.collector))
    finally:
        await consumer.stop()
