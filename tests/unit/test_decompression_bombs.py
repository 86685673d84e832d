"""Few bytes of others do not become gigabytes: each reader refuses what decompresses to more than its limit."""

import base64
import gzip
from collections.abc import AsyncIterator, Callable
from typing import Any

import cramjam
import grpc
import grpc.aio
import pytest
from aiohttp import web
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from collectors.gnmi.params import Params, Target
from collectors.gnmi.read import Refused, Wire
from collectors.gnmi.v1 import gnmi_pb2
from streams.decide.link_states import LinkStates
from streams.decide.port_states_snapshot import MAX_STATES_BYTES
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.inventory import MAX_VALUES, unpack
from streams.notify import alertmanager
from streams.notify.alertmanager import Alertmanager
from streams.notify.params import NotifyParams
from streams.notify.tickets.http_client import MAX_RESPONSE, HttpClient
from streams.notify.tickets.params import TicketParams
from streams.wire import bounded_batches
from streams.wire.bounded_batches import BoundedRecords, bound_batches
from streams.wire.errors import Reject, Retry
from tests.fuzz.target import MemoryMeter

MIB = 1 << 20


@pytest.fixture
def growth_mib() -> Callable[[], int]:
    """Return a function of the growth of this process's memory since the begin of the test, in MiB."""
    meter = MemoryMeter()
    meter.growth_bytes()
    return lambda: meter.growth_bytes() // MIB


def zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data))


def _measure(data: bytes) -> None:
    stage = Measure(DetectParams())
    stage.start_epoch(1)
    stage.restore(data)


def _link_states(part: bytes) -> None:
    state = base64.b64encode(part).decode()
    LinkStates().load(
        {"now_ns": 1, "heartbeats": [], "runs": [], "sources": [[state, state]] * 3, "newer": [state, state]}
    )


LISTS = zstd(b'{"devices":{"name":[' + b"[]," * (MAX_VALUES + 1) + b"[]]}}")
"""Below the limit of bytes, these lists would take 2.9 GB as Python objects, by calculation."""
PART = zstd(b"[" + b" " * (MAX_STATES_BYTES // 2) + b"]")
"""A part of the states of ports is below their limit, all are not."""


@pytest.mark.parametrize(
    ("load", "data", "reason", "most_mib"),
    [
        (unpack, LISTS, "values", 200),
        (unpack, b"", "not a packed inventory", 16),
        (unpack, zstd(bytes(1000))[:-3], "not a packed inventory", 16),
        (_measure, b"", "not a snapshot", 64),
        (_link_states, PART, "not a state of links", 400),
    ],
    ids=["lists of an inventory", "no inventory", "a part of an inventory", "no snapshot", "states of links"],
)
def test_data_that_would_take_the_memory_are_refused(
    load: Callable[[bytes], object], data: bytes, reason: str, most_mib: int, growth_mib: Callable[[], int]
) -> None:
    """Bytes that are no frame took the whole limit, 320 MiB for an inventory and 1.5 GiB for a snapshot."""
    assert len(data) < 64_000
    with pytest.raises((ValueError, Reject), match=reason):
        load(data)
    assert growth_mib() < most_mib


@pytest.mark.parametrize("codec", [1, 2, 3])
async def test_a_message_set_of_an_old_client_is_bounded(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients from before Kafka 0.11 compress a set of messages into one."""
    monkeypatch.setattr(bounded_batches, "MAX_BATCH_BYTES", MIB)
    bound_batches()
    builder = LegacyRecordBatchBuilder(1, codec, 16 * MIB)
    for offset in range(2):
        builder.append(offset, 1_000, b"key", bytes(4 * MIB))
    data = bytes(builder.build())
    assert len(data) < MIB
    (only,) = PartitionRecords(TopicPartition("in", 0), BoundedRecords(data), [], 0, None, None, True, 0)
    assert only.value == b""


class _Gnmi(grpc.GenericRpcHandler):
    """A device whose first message is a compressed bomb."""

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        async def subscribe(requests: AsyncIterator[object], context: Any) -> AsyncIterator[bytes]:
            # Where a call ends while its request is still sent, gRPC names no other reason than "Internal error".
            await anext(requests)
            context.set_compression(grpc.Compression.Gzip)
            yield bytes(32 * MIB)

        return grpc.stream_stream_rpc_method_handler(subscribe)


async def test_a_compressed_message_of_a_device_is_bounded() -> None:
    """GRPC checks the decompressed size against `max_message_bytes`; the stream ends like one that a limit refuses."""
    server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers((_Gnmi(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    target = Target(name="leaf1", address=f"127.0.0.1:{port}")
    try:
        async with Wire(target, Params(targets=(target,), tls=False), "") as wire:
            with pytest.raises(Refused, match="RESOURCE_EXHAUSTED"):
                await anext(wire.stream(gnmi_pb2.SubscribeRequest()))
    finally:
        await server.stop(None)


@pytest.fixture
async def bomb_server() -> AsyncIterator[str]:
    """Answers every request with 80 MiB in some 100 kB."""
    bomb = gzip.compress(bytes(80 * MIB))

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    yield f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
    await runner.cleanup()


async def test_an_answer_of_alertmanager_is_bounded(bomb_server: str) -> None:
    """It is retried: another server may be there for a while."""
    async with Alertmanager(NotifyParams(alertmanagers=(bomb_server,))) as client:
        with pytest.raises(Retry, match=f"more than {alertmanager._MAX_RESPONSE} bytes"):
            await client.active_alerts()


async def test_an_answer_of_a_ticket_system_is_bounded(bomb_server: str) -> None:
    """It is cut, and then no JSON any more."""
    params = TicketParams.model_validate({"kind": "webhook", "url": bomb_server})
    async with HttpClient(params) as client:
        assert len(await client.request("GET", "/")) == MAX_RESPONSE
