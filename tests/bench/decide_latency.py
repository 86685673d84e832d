"""`python -m tests.bench.decide_latency`: what the transactions of `decide` cost, in time and CPU.

Runs `railsight process decide` on an embedded broker in turn with its transactions and without. A finding of a random
uplink is sent every 0.3 s and ends once its remediation is read, as committed; then nothing is sent for a while. Prints
the rows of the table in docs/benchmarks.md.
"""

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.constants import set_constants
from streams.cli.main import main as railsight
from streams.config.kafka import KafkaSettings
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.runtime.admin import ensure_topics
from streams.runtime.bindings import BINDINGS
from streams.runtime.topic_io import follow, inventory_records, open_producer, publish, send
from streams.wire import topics
from streams.wire.models import Finding, Message, Progress, ReadingsHeartbeat, Remediation, Status
from streams.wire.topics import Topic
from tests.fixtures.decide_stage import TOP, finding, port_states
from tests.worlds.observations import T0, at
from tests.worlds.small_fabric import inventory

EVERY_S, PROGRESS_S, WARM_UP = 0.3, 0.05, 3
LINKS = [f"{one.lower.device}/{one.lower.port}" for one in TOP.links.values() if one.role == "fabric-link"]
HEAD = "| transactions | p50, ms | p99, ms | CPU with findings | CPU without | findings | load |\n"
ROW = "| {way} | {p50:.0f} | {p99:.0f} | {busy:.1f} % | {idle:.1f} % | {count} | {load:.1f} |\n"


def now_s() -> float:
    """Return the present time on the scale of the fixtures."""
    return time.time() - T0


class Feed:
    """Sends findings, and the Progress of the stage before `decide`, and measures the time to a remediation."""

    def __init__(self, kafka: KafkaSettings, producer: Any) -> None:
        self._kafka, self._producer = kafka, producer
        self._sent, self._since, self.delays_ms = 0, dict[str, float](), list[float]()
        self._read = asyncio.Event()

    async def _send(self, topic: Topic, message: Message, key: str | None = None) -> None:
        await (await send(self._producer, topics.encode(topic, message, key=key), 0))

    async def _publish(self, one: Finding) -> None:
        await self._send(topics.FINDINGS, one)
        self._sent += 1

    async def progress(self) -> None:
        """Send Progress until cancelled."""
        for device in TOP.links_of:
            await self._send(topics.PORT_STATES, port_states(device, now_s()))
        while True:
            await self._send(topics.PORT_STATES, ReadingsHeartbeat(0, at(now_s())))
            done = Progress("attribute", 0, 1, at(now_s()), self._sent)
            await self._send(topics.PROGRESS, done, "attribute/0")
            await asyncio.sleep(PROGRESS_S)

    async def read(self) -> None:
        """Read remediations until cancelled."""
        async for record in follow(self._kafka, topics.REMEDIATIONS):
            one = topics.decode(topics.REMEDIATIONS, record.value)
            assert isinstance(one, Remediation)
            for identity in one.finding_ids:
                if (began := self._since.pop(identity, None)) is not None:
                    self.delays_ms.append(1e3 * (time.monotonic() - began))
                    self._read.set()

    async def find(self, seconds: float) -> None:
        """Send findings one after the other; each ends when its remediation is read."""
        chance, end = random.Random(1), time.monotonic() + seconds
        while time.monotonic() < end:
            due = time.monotonic() + EVERY_S
            one = finding(chance.choice(LINKS), t=round(now_s(), 3))
            self._read.clear()
            self._since[one.id] = time.monotonic()
            await self._publish(one)
            await asyncio.wait_for(self._read.wait(), 60)
            await self._publish(replace(one, revision=2, status=Status.RESOLVED, final=True))
            await asyncio.sleep(max(0.0, due - time.monotonic()))


@contextmanager
def decide(way: str, kafka: KafkaSettings, folder: Path) -> Iterator[int]:
    """Run the stage until the end of the block; yield its process id."""
    settings = {"RAILSIGHT__RUNTIME__DATA": str(folder), "RAILSIGHT__DECIDE__MODE": "act"}
    command = [sys.executable, "-m", "tests.bench.decide_latency", "--stage", way, "--bootstrap", kafka.bootstrap]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=os.environ | settings, stdout=log, stderr=log)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def run_stage(way: str, bootstrap: str) -> None:
    """Run the stage in this process."""
    BINDINGS["decide"] = replace(BINDINGS["decide"], is_transactional=way == "with")
    set_constants({"decide.settle_s": 0})
    railsight(["process", "decide", "--bootstrap", bootstrap])


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measured(way: str, kafka: KafkaSettings, folder: Path, seconds: float) -> str:
    """Return the row of one run."""
    async with open_producer(kafka) as producer:
        feed = Feed(kafka, producer)
        tasks = [asyncio.create_task(one) for one in (feed.progress(), feed.read())]
        try:
            with decide(way, kafka, folder) as pid:
                await feed.find(WARM_UP)
                feed.delays_ms.clear()
                shares = []
                for step in (feed.find(seconds), asyncio.sleep(seconds / 2)):
                    cpu, began = cpu_s(pid), time.monotonic()
                    await step
                    shares.append(100 * (cpu_s(pid) - cpu) / (time.monotonic() - began))
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
    delays = sorted(feed.delays_ms)
    p50, p99 = delays[len(delays) // 2], delays[int(0.99 * (len(delays) - 1))]
    return ROW.format(
        way=way, p50=p50, p99=p99, busy=shares[0], idle=shares[1], count=len(delays), load=os.getloadavg()[0]
    )


async def measure(seconds: float, runs: int) -> None:
    """Measure both ways in turn, each time on a new broker."""
    sys.stdout.write(HEAD + "|---" * HEAD.count(" |") + "|\n")
    for way in ("with", "without") * runs:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with EmbeddedKafka(KafkaParams(data=folder / "kafka")) as broker:
                kafka = KafkaSettings.model_validate({"bootstrap": broker.bootstrap})
                await ensure_topics(kafka)
                await publish(kafka, inventory_records(inventory(), 1))
                sys.stdout.write(await measured(way, kafka, folder, seconds))
                sys.stdout.flush()


def main() -> None:
    """Measure, or run the stage for a measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=24.0)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--stage", help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        run_stage(options.stage, options.bootstrap)
    else:
        asyncio.run(measure(options.seconds, options.runs))


if __name__ == "__main__":
    main()
