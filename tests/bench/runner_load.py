"""Measures the runner at the full message rate, its idle cost, and the latency of an event under load.

    python -m tests.bench.runner_load [--rate 2150] [--bytes 7000] [--seconds 20] [--probes 500] [--state-mib 5]

A bulk topic carries messages at a steady rate while events are sent beside it, each timed from before its send until
its answer is in a reader's hands. The stage does next to nothing, so what is printed is the runner's own: the CPU of
the worker process, by message and by batch. With `--state-mib`, each of the eight owners has so much state to write
every 30 s, and `recovery` is how long a worker takes to have it all again after a kill.
`idle` is `railsight process`, all four stages, with no traffic.
"""

import argparse
import asyncio
import base64
import json
import logging
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer

from lab.constants import with_constants
from streams.config.kafka import KafkaSettings
from streams.config.runtime import RuntimeSettings
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.runtime.admin import ensure_topics
from streams.runtime.bindings import Binding
from streams.runtime.serve import StageSet, run_stages
from streams.wire import topics
from streams.wire.models import Event, EventKind, Message, Progress, Source
from streams.wire.stage import Output
from streams.wire.topics import PartitionScheme, Topic
from tests.bench.runner_throughput import BESIDE, IN, INVENTORY, JOBS, OUT, SNAPSHOTS, NumpyStage, answers

PARTITIONS = 8
FLUSH_S = 0.02
"""Collectors send what they have read in the meantime: some forty messages at once at the full load."""
BULK = Topic("bench.bulk", Event, PartitionScheme.TELEMETRY, 3600, other_models=(Progress,))
WIRING = StageSet(
    {"measure": Binding("measure", (BULK, IN), SNAPSHOTS, None, (), BESIDE, bulk=(BULK,))},
    (BULK, IN, OUT, BESIDE, SNAPSHOTS, INVENTORY, JOBS, topics.REJECTED),
    INVENTORY,
    JOBS,
)


def settings(bootstrap: str) -> KafkaSettings:
    return KafkaSettings(bootstrap=bootstrap, cluster="bench", telemetry_partitions=PARTITIONS)


class Counted(NumpyStage):
    """Counts what it is handed at once."""

    batches = 0
    messages = 0
    state = b""

    def process(self, batch: Sequence[Message]) -> list[Output]:
        Counted.batches += 1
        Counted.messages += len(batch)
        return super().process(batch)

    def snapshot(self) -> bytes:
        return super().snapshot() + self.state

    def restore(self, data: bytes) -> None:
        super().restore(data[: 8 * 4096])


def work(bootstrap: str, state_bytes: int) -> None:
    """Run the worker; print the number of received messages at the end."""
    logging.basicConfig(level=logging.INFO)
    Counted.state = random.Random(2).randbytes(state_bytes)
    runtime = with_constants(RuntimeSettings, inventory_wait_s=0)(data=Path(tempfile.gettempdir()))
    run_stages({"measure": lambda _: Counted()}, settings(bootstrap), runtime, wiring=WIRING)
    print(json.dumps({"batches": Counted.batches, "messages": Counted.messages}))  # noqa: T201 — what is asked of it


def feed(bootstrap: str, rate: int, size: int) -> None:
    """Be the load, until killed."""

    async def run() -> None:
        detail = base64.b64encode(random.Random(1).randbytes(size * 3 // 4)).decode()
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type="lz4", max_batch_size=1 << 20)
        await producer.start()
        began, sent = time.perf_counter(), 0
        while True:
            while sent < (time.perf_counter() - began) * rate:
                at_ns = time.time_ns()
                event = Event(f"d{sent}", "", EventKind.LOG, at_ns, at_ns, Source.SOURCE_GNMI, code=sent, detail=detail)
                value = topics.encode(BULK, event).value
                await producer.send(BULK.name, value, key=b"k", partition=sent % PARTITIONS)
                sent += 1
            await asyncio.sleep(FLUSH_S)

    asyncio.run(run())


def start(*arguments: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "tests.bench.runner_load", *arguments], text=True, **more)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def loaded(broker: EmbeddedKafka, given: argparse.Namespace) -> dict[str, Any]:
    """CPU of the worker over `seconds` of steady load, after the probes; and what its end and a kill leave."""
    asyncio.run(ensure_topics(settings(broker.bootstrap), WIRING.topics))
    log = Path(given.folder) / "worker.log"
    worker = working(broker, given, log)
    load = start("--feed", broker.bootstrap, "--rate", str(given.rate), "--bytes", str(given.bytes))
    try:
        took = asyncio.run(answers(broker.bootstrap, given.probes, 25))
        before, began = cpu_s(worker.pid), time.perf_counter()
        time.sleep(given.seconds)
        used, lasted = cpu_s(worker.pid) - before, time.perf_counter() - began
        worker.terminate()
        handed = json.loads(worker.communicate(timeout=20)[0])
        recovery = recovered(broker, given, log) if given.state_mib else None
    finally:
        load.kill()
        worker.kill()
    per_batch = handed["messages"] / handed["batches"]
    return {
        "messages_per_batch": per_batch,
        "cores": used / lasted,
        "us_per_message": used / (lasted * given.rate) * 1e6,
        "us_per_batch": used / (lasted * given.rate / per_batch) * 1e6,
        "event_latency": took,
        "recovery": recovery,
    }


def working(broker: EmbeddedKafka, given: argparse.Namespace, log: Path) -> subprocess.Popen[str]:
    arguments = ("--worker", broker.bootstrap, "--state-mib", str(given.state_mib))
    with log.open("a") as out:
        return start(*arguments, stdout=subprocess.PIPE, stderr=out)


def recovered(broker: EmbeddedKafka, given: argparse.Namespace, log: Path) -> dict[str, Any]:
    """Kill a worker under load and time its successor until every partition is owned again."""
    worker = working(broker, given, log)
    wait_for(lambda: owned(log) >= 2 * PARTITIONS, 60)
    time.sleep(10)
    worker.kill()
    worker.communicate()
    began = time.perf_counter()
    worker = working(broker, given, log)
    try:
        wait_for(lambda: owned(log) >= 3 * PARTITIONS, 60)
        took = time.perf_counter() - began
    finally:
        worker.terminate()
        worker.communicate(timeout=20)
    return {
        "all_owned_s": took,
        "snapshots_on_disk_mib": on_disk(given),
        "take_overs_s": re.findall(r"from a snapshot, ([0-9.]+) s", log.read_text())[-PARTITIONS:],
    }


def owned(log: Path) -> int:
    return len(re.findall(r": epoch \d+ from", log.read_text()))


def wait_for(condition: Callable[[], bool], within_s: float) -> None:
    give_up = time.perf_counter() + within_s
    while not condition():
        if time.perf_counter() > give_up:
            raise TimeoutError
        time.sleep(0.05)


def on_disk(given: argparse.Namespace) -> float:
    files = (path for path in Path(given.folder).rglob("bench.snapshots-*/*.log"))
    return sum(path.stat().st_size for path in files) / (1 << 20)


def idle(broker: EmbeddedKafka, seconds: float) -> dict[str, float]:
    """Cores that all four stages use for nothing."""
    kafka = KafkaSettings(bootstrap=broker.bootstrap)
    asyncio.run(ensure_topics(kafka))
    command = [str(Path(sys.executable).with_name("railsight")), "process", "--bootstrap", broker.bootstrap]
    worker = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        time.sleep(45)  # 30 s of them without an inventory
        before, broker_before = cpu_s(worker.pid), broker_cpu(broker)
        time.sleep(seconds)
        used, broker_used = cpu_s(worker.pid) - before, broker_cpu(broker) - broker_before
    finally:
        worker.terminate()
        worker.wait(20)
    return {"cores": used / seconds, "broker_cores": broker_used / seconds}


def broker_cpu(broker: EmbeddedKafka) -> float:
    nodes = broker._nodes.values()
    return sum(cpu_s(node.process.pid) for node in nodes if node.process and node.process.pid)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=2150)
    parser.add_argument("--bytes", type=int, default=7000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--probes", type=int, default=500)
    parser.add_argument("--only", choices=("idle", "loaded"))
    parser.add_argument("--worker", metavar="BOOTSTRAP")
    parser.add_argument("--feed", metavar="BOOTSTRAP")
    parser.add_argument("--state-mib", type=int, default=0)
    given = parser.parse_args()
    if given.worker:
        work(given.worker, given.state_mib << 20)
        return
    if given.feed:
        feed(given.feed, given.rate, given.bytes)
        return
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, EmbeddedKafka(KafkaParams(data=Path(folder) / "kafka")) as broker:
        given.folder = folder
        if given.only != "idle":
            result["loaded"] = {"rate": given.rate, "bytes": given.bytes} | loaded(broker, given)
        if given.only != "loaded":
            result["idle"] = idle(broker, given.seconds)
    print(json.dumps(result, indent=1))  # noqa: T201 — what the command is for


if __name__ == "__main__":
    main()
