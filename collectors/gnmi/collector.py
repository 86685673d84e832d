"""The gNMI collector: many devices in one process. Wiring only."""

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from collectors.core.clock import SystemClock
from collectors.core.columns import json_lines
from collectors.core.counts import Counts
from collectors.core.emitter import Emitter, draw_run
from collectors.core.publisher import KafkaPublisher, Publisher
from collectors.core.spec import Core, Spec
from collectors.gnmi.device import DeviceReader
from collectors.gnmi.params import Params
from collectors.gnmi.read import credentials
from streams.wire.errors import Misconfigured, Retry
from streams.wire.models import Samples, Source
from streams.wire.topics import SAMPLES, Record, decode

_ONCE_BOUND_S = 20.0


def readers(params: Params, emitter: Emitter, counts: Counts, chance: random.Random) -> list[DeviceReader]:
    """One reader a target; raises Misconfigured before anything is connected."""
    secret = params.secret() if params.username else ""
    if params.tls:
        credentials(params)
    return [
        DeviceReader(target, params, secret, emitter, counts, SystemClock(), random.Random(chance.random()))  # noqa: S311 — jitter
        for target in params.all_targets()
    ]


async def collect(
    params: Params, publisher: Publisher, counts: Counts, *, collector: str, run: int, chance: random.Random
) -> None:
    """Read every target until cancelled."""
    emitter = Emitter(publisher, collector, run, Source.SOURCE_GNMI)
    async with asyncio.TaskGroup() as tasks:
        for reader in readers(params, emitter, counts, chance):
            tasks.create_task(reader.run())


async def run(params: Params, core: Core) -> None:
    """Collect to Kafka until cancelled; raises Misconfigured."""
    if core.client_options is None:
        raise Misconfigured("collect gnmi: where is Kafka?")
    params.all_targets()
    counts = Counts()
    with contextlib.ExitStack() as stack:
        if core.metrics_port is not None:
            stack.callback(_serve_metrics(counts, core.metrics_port))
        async with KafkaPublisher(core, counts) as publisher:
            name = core.collector or f"gnmi@{socket.gethostname()}"
            collecting = collect(
                params, publisher, counts, collector=name, run=draw_run(), chance=random.Random()  # noqa: S311 — jitter
            )  # fmt: skip
            work = asyncio.create_task(collecting)
            failure = asyncio.create_task(publisher.failed())
            try:
                await asyncio.wait({work, failure}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                work.cancel()
                failure.cancel()
                ended = await asyncio.gather(work, failure, return_exceptions=True)
            _raise_first(ended)


def _raise_first(ended: Iterable[BaseException | None]) -> None:
    for outcome in ended:
        match outcome:
            case BaseExceptionGroup(exceptions=[first, *_]):
                raise first
            case BaseException() if not isinstance(outcome, asyncio.CancelledError):
                raise outcome


def _serve_metrics(counts: Counts, port: int) -> Callable[[], None]:
    registry = CollectorRegistry()
    registry.register(_AsCollector(counts))
    try:
        server, thread = start_http_server(port, "127.0.0.1", registry)
    except OSError as error:
        raise Misconfigured(f"self-metrics: port {port}: {error.strerror}") from error

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join(5)

    return stop


class _AsCollector(Collector):
    """What Prometheus registers; it asks a Counts."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        return self._counts.collect()


class _FirstReadings:
    """A Publisher that keeps the first samples of each device and drops all else."""

    def __init__(self, devices: int) -> None:
        self._waiting = devices
        self._seen: set[str] = set()
        self.ready: asyncio.Queue[Samples] = asyncio.Queue()

    def offer(self, record: Record, rows: int = 0) -> bool:
        if record.topic is SAMPLES:
            samples = decode(SAMPLES, record.value, record.headers)
            assert isinstance(samples, Samples)
            if samples.device not in self._seen:
                self._seen.add(samples.device)
                self.ready.put_nowait(samples)
        return True


async def once(params: Params, core: Core) -> AsyncIterator[str]:
    """One reading of every target as lines of JSON; raises Retry naming those that gave none in time."""
    wanted = {target.name for target in params.all_targets()}
    first = _FirstReadings(len(wanted))
    name = core.collector or "once"
    work = asyncio.create_task(
        collect(params, first, Counts(), collector=name, run=draw_run(), chance=random.Random())  # noqa: S311 — jitter
    )
    try:
        async with asyncio.timeout(max(_ONCE_BOUND_S, 2 * params.cadence_s)):
            while wanted:
                samples = await first.ready.get()
                wanted.discard(samples.device)
                for line in json_lines(samples):
                    yield line
    except TimeoutError as error:
        raise Retry(f"no reading of {', '.join(sorted(wanted))}") from error
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


SPEC = Spec("gnmi", Params, run, once)
