"""A running OTLP collector, and clients of it."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import grpc
import grpc.aio

from collectors.core.context import CollectorContext
from collectors.core.metrics import CollectorMetrics
from collectors.otlp.collector import collect
from collectors.otlp.params import Params
from collectors.otlp.server import METHOD, PATH
from lab.constants import params_of
from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX, Samples
from streams.wire.v1 import otlp_pb2 as otlp
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.running_task import run_beside

LEAF1 = {"name": "leaf1", "addresses": ["127.0.0.1"]}
PROTOBUF, JSON = "application/x-protobuf", "application/json"
_PATIENCE_S = 60.0


class Listening:
    """A running collector."""

    def __init__(self, ports: dict[str, int], published: RecordingPublisher, metrics: CollectorMetrics) -> None:
        self.ports, self.published, self.metrics = ports, published, metrics

    async def export(
        self, request: otlp.ExportMetricsServiceRequest | bytes, credentials: grpc.ChannelCredentials | None = None,
        compression: grpc.Compression = grpc.Compression.NoCompression,
    ) -> otlp.ExportResponse:  # fmt: skip
        """Send a request by gRPC; raises AioRpcError."""
        body = request if isinstance(request, bytes) else request.SerializeToString()
        address = f"127.0.0.1:{self.ports['grpc']}"
        options = [("grpc.max_send_message_length", -1)]
        async with (
            grpc.aio.insecure_channel(address, options) if credentials is None
            else grpc.aio.secure_channel(address, credentials, options)
        ) as channel:  # fmt: skip
            call: Any = channel.unary_unary(METHOD)
            answer = await call(body, wait_for_ready=credentials is None, timeout=_PATIENCE_S, compression=compression)
            return otlp.ExportResponse.FromString(answer)

    async def post(
        self, body: bytes, content_type: str = PROTOBUF, encoding: str = "", path: str = PATH, ssl: Any = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a body by HTTP; return status, headers and body of the answer."""
        headers = {"Content-Type": content_type} | ({"Content-Encoding": encoding} if encoding else {})
        url = f"{'http' if ssl is None else 'https'}://127.0.0.1:{self.ports['http']}{path}"
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.post(url, data=io.BytesIO(body), headers=headers, ssl=ssl or True) as answer,
        ):
            return answer.status, dict(answer.headers), await answer.read()

    def values(self, metric: Metric, device: str = "leaf1", lane: int = NO_INDEX) -> list[tuple[str, float]]:
        """Return port and value of each published value of a metric, in the order of their readings."""
        found: list[tuple[str, float]] = []
        for samples in self.published.of(Samples, device):
            table = samples.counters if metric.counter else samples.gauges
            for column, index, values in zip(table.metric, table.index, table.values, strict=True):
                if (column, index) == (metric, lane):
                    found += [(row, float(value)) for row, value in zip(samples.row, values, strict=True)]
        return found

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the condition is true, which a busy machine delays."""
        await self.published.until(holds, _PATIENCE_S)


@asynccontextmanager
async def listening(**settings: Any) -> AsyncIterator[Listening]:
    """Run a collector on free ports."""
    given = {"listen": "127.0.0.1:0", "targets": [LEAF1], "cadence_s": 0.5} | settings
    published, metrics = RecordingPublisher(), CollectorMetrics()
    ports: asyncio.Future[dict[str, int]] = asyncio.get_running_loop().create_future()
    context = CollectorContext(published, "test", metrics)
    async with run_beside(collect(params_of(Params, given), context, ports.set_result)):
        async with asyncio.timeout(_PATIENCE_S):
            yield Listening(await ports, published, metrics)
