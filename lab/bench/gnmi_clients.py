"""Runs the measured clients, each in its own process, which is pinned to one CPU.

python -m lab.bench.gnmi_clients CLIENT PORT UPDATES [BOOTSTRAP]

Prints as JSON the number of updates that the client read and their CPU time, without the first tenth, in which it
learns the paths. `ours` is the complete collector, as `collect gnmi` runs it: to Kafka, or to encoded messages without
Kafka. `plain` is the simplest client: it decodes gnmi.proto, walks every path, and stores the last value of each by its
path. `bytes` does not decode.
"""

import asyncio
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import orjson

from collectors.core.context import CollectorContext
from collectors.core.metrics import CollectorMetrics
from collectors.core.once import NullPublisher
from collectors.core.params import Core
from collectors.core.publisher import KafkaPublisher, Publisher
from collectors.core.spec import pin_to_cpu
from collectors.core.tasks import cancel_and_wait
from collectors.gnmi.collector import collect
from collectors.gnmi.params import Params, Target
from collectors.gnmi.v1 import gnmi_pb2
from lab.bench.collector_costs import Cost, cpu_s, running
from lab.bench.gnmi_target import CADENCE_NS, LEAVES, PORTS, UPDATES
from lab.constants import with_constants
from streams.wire.errors import Retry
from streams.wire.event_loop import new_loop

_POLL_S = 0.02


class Meter:
    """Measures from the first tenth of the updates to the last."""

    def __init__(self, updates: int) -> None:
        self._updates = updates
        self._began: tuple[int, float] | None = None
        self.cost: dict[str, float] = {}

    def read(self, taken: int) -> bool:
        """Record the number of updates read; return True if it is enough."""
        if self._began is None:
            if taken >= self._updates // 10:
                self._began = taken, cpu_s()
            return False
        return taken >= self._updates

    def end(self, taken: int) -> None:
        """Finish the measurement: all updates are processed."""
        assert self._began is not None
        self.cost = {"count": taken - self._began[0], "cpu_s": cpu_s() - self._began[1]}


Client = Callable[[int, Meter, str], Coroutine[Any, Any, None]]


@asynccontextmanager
async def _publisher(bootstrap: str, metrics: CollectorMetrics) -> AsyncIterator[Publisher]:
    if not bootstrap:
        yield NullPublisher()
        return
    core = Core(client_options={"bootstrap_servers": bootstrap}, collector="bench")
    async with KafkaPublisher(core, metrics) as publisher:
        yield publisher
        await publisher.flushed()


async def ours(port: int, meter: Meter, bootstrap: str) -> None:
    """Run the collector."""
    metrics = CollectorMetrics()
    params = with_constants(Params, max_updates_per_s=1_000_000_000)(
        targets=(Target(name="bench", address=f"127.0.0.1:{port}"),), cadence_s=CADENCE_NS / 1e9
    )
    async with _publisher(bootstrap, metrics) as publisher:
        work = asyncio.create_task(collect(params, CollectorContext(publisher, "bench", metrics)))
        try:
            while not meter.read(metrics.value("updates", "bench")):
                await asyncio.wait({work}, timeout=_POLL_S)
                if work.done():
                    await work
        finally:
            await cancel_and_wait(work)
    taken = metrics.value("updates")
    if bootstrap and metrics.value("acknowledged", "railsight.samples.v1") < taken // (2 * UPDATES):
        raise RuntimeError("Kafka has not acknowledged the readings")
    meter.end(taken)


def _walk(path: gnmi_pb2.Path) -> str:
    steps = []
    for elem in path.elem:
        keys = "".join(f"[{key}={value}]" for key, value in sorted(elem.key.items()))
        steps.append(elem.name + keys)
    return "/".join(steps)


async def plain(port: int, meter: Meter, _: str) -> None:
    """Decode every message and walk every path."""
    last: dict[str, Any] = {}
    taken = 0
    async for response in _stream(port, gnmi_pb2.SubscribeResponse.FromString):
        prefix = _walk(response.update.prefix)
        for update in response.update.update:
            last[f"{prefix}/{_walk(update.path)}"] = getattr(update.val, update.val.WhichOneof("value") or "uint_val")
        taken += len(response.update.update)
        if meter.read(taken):
            break
    meter.end(taken)


async def undecoded(port: int, meter: Meter, _: str) -> None:
    """Count the undecoded bytes: the cost of Python's transport."""
    taken = 0
    async for _response in _stream(port, None):
        taken += len(LEAVES)
        if meter.read(taken):
            break
    meter.end(taken)


async def _stream(port: int, decode: Callable[[bytes], Any] | None) -> AsyncIterator[Any]:
    wanted = gnmi_pb2.SubscribeRequest()
    wanted.subscribe.encoding = gnmi_pb2.PROTO
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream(
            "/gnmi.gNMI/Subscribe",
            request_serializer=gnmi_pb2.SubscribeRequest.SerializeToString,
            response_deserializer=decode,
        )()
        await call.write(wanted)
        async for response in call:
            yield response
        call.cancel()


CLIENTS: dict[str, Client] = {"ours": ours, "plain": plain, "bytes": undecoded}


def main(client: str, port: int, updates: int, bootstrap: str = "") -> None:
    """Read the updates, and print the cost."""
    pin_to_cpu("one", "bench")
    meter = Meter(updates)
    with asyncio.Runner(loop_factory=new_loop if client == "ours" else None) as runner:
        runner.run(CLIENTS[client](port, meter, bootstrap))
    print(orjson.dumps(meter.cost).decode())  # noqa: T201 — the result


LOAD = f"{PORTS} ports, {len(LEAVES)} counters, PROTO"
_OURS, _ENCODED = "railsight, to Kafka", "railsight, to encoded messages"
_PLAIN, _BYTES = "plain, walking paths", "plain, bytes not decoded"
_TIMEOUT_S = 300.0


@contextlib.contextmanager
def target(updates: int) -> Iterator[int]:
    """Run a switch that sends at least this many updates, and yield its port. Raises Retry."""
    # One more round, because a reading is emitted when the next one starts.
    command = [sys.executable, "-m", "lab.bench.gnmi_target", str(-(-updates // UPDATES) + 2)]
    with running(command) as line:
        yield int(line)


@contextlib.contextmanager
def kafka(bootstrap: str) -> Iterator[str]:
    """Yield the address of Kafka; without one, run a broker in a temporary folder. Raises Retry."""
    if bootstrap:
        yield bootstrap
        return
    with tempfile.TemporaryDirectory(prefix="railsight-bench-") as folder:
        command = [*_railsight("broker"), "--data", str(Path(folder) / "kafka"), "--security", "none"]
        with running(command) as line:
            subprocess.run([*_railsight("topics"), "--bootstrap", line], check=True, capture_output=True, timeout=60)
            yield line


def _railsight(command: str) -> list[str]:
    return [sys.executable, "-m", "streams.cli.main", command]


def compare(updates: int, times: int, bootstrap: str = "") -> list[Cost]:
    """Return the cost of each client for this many updates, the collector to Kafka first. Raises Retry."""
    found: dict[str, list[Cost]] = {}
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(target(updates))
        skipped, address = "", ""
        try:
            address = stack.enter_context(kafka(bootstrap))
        except (Retry, subprocess.SubprocessError) as error:
            skipped = f"no Kafka: {error}"
        for _ in range(times):
            if address:
                found.setdefault(_OURS, []).append(_measured(_OURS, "ours", port, updates, address))
            for name, client in ((_ENCODED, "ours"), (_PLAIN, "plain"), (_BYTES, "bytes")):
                found.setdefault(name, []).append(_measured(name, client, port, updates))
    best = [min(costs, key=lambda cost: cost.cpu_s / cost.count) for costs in found.values()]
    return best if not skipped else [Cost(LOAD, _OURS, skipped=skipped), *best]


def _measured(name: str, client: str, port: int, updates: int, bootstrap: str = "") -> Cost:
    command = [sys.executable, "-m", "lab.bench.gnmi_clients", client, str(port), str(updates)]
    ran = subprocess.run([*command, bootstrap], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if ran.returncode:
        raise Retry(f"{name}: {ran.stderr.strip().splitlines()[-1:]}")
    cost = orjson.loads(ran.stdout.splitlines()[-1])
    return Cost(LOAD, name, cost["count"], cost["cpu_s"])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
