"""Tests the dial-out collector with real gRPC clients: what is read, who is refused, and what an end looks like."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from collectors.core.context import CollectorContext
from collectors.core.metrics import CollectorMetrics
from collectors.dialout.collector import collect
from collectors.dialout.params import Params
from collectors.gnmi.v1 import gnmi_lite_pb2
from lab.constants import params_of
from streams.fabric.catalogue import Metric
from streams.wire.models import CollectorStatus, Samples
from tests.fakes.mdt import counters
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.certificates import CertificateAuthority
from tests.fixtures.gnmi_notifications import notification
from tests.fixtures.running_task import run_beside

MDT = "/mdt_dialout.gRPCMdtDialout/MdtDialout"
LEAF1 = {"name": "leaf1", "addresses": ["127.0.0.1"]}
_PATIENCE_S = 60.0
PATH = "/interfaces/interface[name=Ethernet1/1]/state/counters/in-octets"


class Listening:
    """A running collector, and clients of it."""

    def __init__(self, address: str, published: RecordingPublisher, metrics: CollectorMetrics) -> None:
        self.published, self.metrics = published, metrics
        self._address = address

    def channel(self, credentials: grpc.ChannelCredentials | None = None) -> grpc.aio.Channel:
        options = [("grpc.max_send_message_length", -1)]
        if credentials is None:
            return grpc.aio.insecure_channel(self._address, options=options)
        return grpc.aio.secure_channel(self._address, credentials, options=options)

    @asynccontextmanager
    async def stream(self, method: str, credentials: grpc.ChannelCredentials | None = None) -> AsyncIterator[Any]:
        """Yield a stream of a device."""
        async with self.channel(credentials) as channel:
            make: Any = channel.stream_unary if method.startswith("/gnmireverse") else channel.stream_stream
            yield make(method)(wait_for_ready=True)

    async def code(self, message: bytes, credentials: grpc.ChannelCredentials | None = None) -> grpc.StatusCode:
        """Return what a stream with this message ends with."""
        async with self.stream(MDT, credentials) as call, asyncio.timeout(60):
            with suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):
                await call.write(message)
            code: grpc.StatusCode = await call.code()
            return code

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the condition is true, which a busy machine delays."""
        await self.published.until(holds, _PATIENCE_S)

    async def sent(self, device: str, port: str, rx_bytes: int) -> None:
        """Wait until this sample is published."""
        await self.until(lambda: (device, port, rx_bytes) in self.rx_bytes())

    def rx_bytes(self) -> list[tuple[str, str, int]]:
        """Return device, port and value of each sample of received bytes."""
        return [
            (samples.device, port, int(samples.counters.values[samples.counters.metric.index(Metric.RX_BYTES), at]))
            for samples in self.published.of(Samples)
            for at, port in enumerate(samples.row)
        ]


@asynccontextmanager
async def listening(**settings: Any) -> AsyncIterator[Listening]:
    params = params_of(Params, {"listen": "127.0.0.1:0", "targets": [LEAF1], "cadence_s": 0.5} | settings)
    published, metrics = RecordingPublisher(), CollectorMetrics()
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    async with run_beside(collect(params, CollectorContext(published, "test", metrics), port.set_result)):
        yield Listening(f"127.0.0.1:{await port}", published, metrics)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def test_telemetry_of_cisco_is_read_until_the_device_ends() -> None:
    """Its counters are samples; the end of its last stream makes it unreachable, and a new one reachable again."""
    async with listening() as now:
        for attempt in (1, 2):
            async with now.stream(MDT) as first, now.stream(MDT) as second:
                await first.write(counters(now_ms(), "HundredGigE0/0/0/0", 10 * attempt))
                await second.write(counters(now_ms(), "HundredGigE0/0/0/1", 10 * attempt + 1))
                for port in (0, 1):
                    await now.sent("leaf1", f"HundredGigE0/0/0/{port}", 10 * attempt + port)
                await now.until(lambda: now.published.of(CollectorStatus, "leaf1")[-1].reachable)
            await now.until(lambda: not now.published.of(CollectorStatus, "leaf1")[-1].reachable)
        assert "ended its streams" in now.published.of(CollectorStatus, "leaf1")[-1].error


@pytest.mark.parametrize("method", ["/gnmireverse.gNMIReverse/Publish", "/Nokia.SROS.DialoutTelemetry/Publish"])
async def test_gnmi_that_is_sent_is_read_as_gnmi_that_is_asked_for(method: str) -> None:
    """Both services carry SubscribeResponse."""
    async with listening() as now, now.stream(method) as call:
        update = notification(now_ms() * 1_000_000, {PATH: 5})
        await call.write(gnmi_lite_pb2.SubscribeResponse(update=update).SerializeToString())
        await now.until(lambda: now.rx_bytes() == [("leaf1", "Ethernet1/1", 5)])


async def test_a_connected_device_that_is_silent_is_unreachable_until_it_sends() -> None:
    """After three cadences, at least 15 s; the stream stays."""
    async with listening() as now, now.stream(MDT) as call:
        await call.write(counters(now_ms(), "a", 1))
        await now.until(lambda: "no samples for 15 s" in [s.error for s in now.published.of(CollectorStatus, "leaf1")])
        await call.write(counters(now_ms(), "a", 2))
        await now.until(lambda: now.published.of(CollectorStatus, "leaf1")[-1].reachable)


async def test_a_connection_that_is_no_target_is_refused() -> None:
    """It is counted and gets the reason; nothing of it is published."""
    async with listening(targets=[{"name": "leaf1", "addresses": ["192.0.2.1"]}]) as now:
        assert await now.code(counters(now_ms(), "a", 1)) is grpc.StatusCode.PERMISSION_DENIED
        assert now.metrics.value("not_admitted") == 1
        assert not now.published.of(Samples)


async def test_a_device_cannot_send_as_another() -> None:
    """Behind one address a device is selected by its name; a name that no target has there is refused."""
    targets = [LEAF1, {"name": "leaf2", "addresses": ["127.0.0.1"]}, {"name": "leaf3", "addresses": ["192.0.2.3"]}]
    async with listening(targets=targets) as now:
        async with now.stream(MDT) as call:  # a relay of two devices
            await call.write(counters(now_ms(), "a", 1, node="leaf1"))
            await call.write(counters(now_ms(), "a", 2, node="leaf2"))
            await now.until(lambda: set(now.rx_bytes()) == {("leaf1", "a", 1), ("leaf2", "a", 2)})
        assert await now.code(counters(now_ms(), "a", 3, node="leaf3")) is grpc.StatusCode.PERMISSION_DENIED
        assert await now.code(counters(now_ms(), "a", 3, node="")) is grpc.StatusCode.PERMISSION_DENIED
        assert {device for device, _, _ in now.rx_bytes()} == {"leaf1", "leaf2"}


async def test_with_a_ca_only_the_certificate_of_a_device_is_admitted(tmp_path: Path) -> None:
    """Without one there is no connection; with another device's, a refusal; the right one is read."""
    authority, foreign = CertificateAuthority(tmp_path / "ca"), CertificateAuthority(tmp_path / "foreign")
    cert, key = authority.signed("collector")
    settings = {"cert_file": cert, "key_file": key, "client_ca_file": authority.file, "targets": [{"name": "leaf1"}]}

    def credentials(own: tuple[Path, Path] | None) -> grpc.ChannelCredentials:
        pair = (None, None) if own is None else (own[1].read_bytes(), own[0].read_bytes())
        return grpc.ssl_channel_credentials(authority.file.read_bytes(), *pair)

    async with listening(**settings) as now:
        async with now.stream(MDT, credentials(authority.signed("leaf1"))) as call:
            await call.write(counters(now_ms(), "a", 1))
            await now.until(lambda: now.rx_bytes() == [("leaf1", "a", 1)])
        message = counters(now_ms(), "a", 2)
        assert await now.code(message, credentials(authority.signed("leaf2"))) is grpc.StatusCode.PERMISSION_DENIED
        for refused in (None, foreign.signed("leaf1")):
            with pytest.raises(TimeoutError):
                await _within(2, now.code(message, credentials(refused)))
        with pytest.raises(TimeoutError):
            await _within(2, now.code(message))  # clear text
        assert now.rx_bytes() == [("leaf1", "a", 1)]


async def _within(bound_s: float, work: Any) -> None:
    async with asyncio.timeout(bound_s):
        await work


async def test_a_message_past_the_limit_ends_its_stream_alone() -> None:
    """Compressed or not: the decompressed size counts. A stream past the limit of streams is refused, others go on."""
    async with listening(max_message_bytes=1 << 16, max_streams=1) as now, now.stream(MDT) as call:
        await call.write(counters(now_ms(), "a", 1))
        await now.until(lambda: bool(now.rx_bytes()))
        assert await now.code(bytes(1 << 17)) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await now.code(counters(now_ms(), "b", 1)) is grpc.StatusCode.RESOURCE_EXHAUSTED
        async with now.channel() as channel:
            packed: Any = channel.stream_stream(MDT)(compression=grpc.Compression.Gzip, wait_for_ready=True)
            await packed.write(bytes(32 << 20))
            assert await packed.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await call.write(counters(now_ms(), "a", 2))
        await now.sent("leaf1", "a", 2)


async def test_what_cannot_be_read_is_counted_and_the_stream_goes_on() -> None:
    """One message is lost, no more."""
    async with listening() as now, now.stream(MDT) as call:
        await call.write(b"\xff")
        await call.write(counters(now_ms(), "a", 1))
        await now.until(lambda: now.rx_bytes() == [("leaf1", "a", 1)])
        assert now.metrics.value("unreadable") == 1
