"""Tests the OTLP collector with real clients of gRPC and HTTP: what is read, what is answered, and who is refused."""

import asyncio
import contextlib
import gzip
import io
import itertools
import ssl
import time
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import aiohttp
import grpc
import grpc.aio
import orjson
import pytest

from collectors.dialout.server import most_connections
from collectors.otlp.receiver import BYTES_PER_POINT
from collectors.otlp.server import PATH
from streams.fabric.catalogue import Metric
from streams.wire.models import CollectorStatus, Facts
from streams.wire.v1 import otlp_pb2 as otlp
from tests.fixtures.certificates import CertificateAuthority
from tests.fixtures.otlp_requests import Given, message
from tests.fixtures.running_task import run_beside
from tests.fuzz.target import MemoryMeter
from tests.integration.collectors.otlp_clients import JSON, Listening, listening

SWP1 = {"interface": "swp1"}
OUT = "nvswitch_interface_if_out_octets"


async def test_values_of_cumulus_have_our_units_by_grpc() -> None:
    """`oper_state` 2 is down, 1e-254 is no bit error rate but 0, and the bias is in amperes."""
    channel = {"port": "1", "channel": "1"}
    first_ns = time.time_ns() - 5_000_000_000
    async with listening() as now:
        for state, at_ns in ((2.0, first_ns), (1.0, first_ns + 1_000_000_000)):
            request = message(
                {
                    "nvswitch_interface_oper_state": [Given(state, SWP1, at_ns)],
                    "nvswitch_interface_phy_stats_raw_ber": [Given(1.4999999999999995e-254, SWP1, at_ns)],
                    "nvswitch_platform_transceiver_channel_tx_bias_current": [Given(0.00675, channel, at_ns)],
                }
            )
            assert await now.export(request) == otlp.ExportResponse()
        await now.until(lambda: len(now.values(Metric.OPER_UP)) == 2)
        assert [value for _, value in now.values(Metric.OPER_UP)] == [0.0, 1.0]
        assert set(now.values(Metric.PRE_FEC_BER)) == {("swp1", 0.0)}
        assert [value for _, value in now.values(Metric.BIAS_MA, lane=0)] == pytest.approx([6.75, 6.75])


async def test_a_gauge_that_is_our_counter_is_published_as_it_is_by_http() -> None:
    """The catalogue decides what is a counter; a lower value is a reset, which `measure` detects."""
    async with listening() as now:
        at_ns = time.time_ns() - 10_000_000_000
        for number, value in enumerate((1000.0, 1500.0, 200.0)):
            body = message({OUT: [Given(value, SWP1, at_ns + number * 1_000_000_000)]}).SerializeToString()
            status, headers, answer = await now.post(body)
            assert (status, headers["Content-Type"], answer) == (200, "application/x-protobuf", b"")
        await now.until(lambda: len(now.values(Metric.TX_BYTES)) == 3)
        assert [value for _, value in now.values(Metric.TX_BYTES)] == [1000, 1500, 200]


async def test_a_point_without_a_time_is_rejected_and_the_others_are_stored() -> None:
    points = [Given(number, {"interface": f"swp{number}"}, 0 if number == 50 else None) for number in range(100)]
    async with listening() as now:
        answer = await now.export(message({OUT: points}))
        assert answer.partial_success.rejected == 1
        assert "time" in answer.partial_success.error_message
        await now.until(lambda: len(now.values(Metric.TX_BYTES)) == 99)


async def test_a_small_request_that_decompresses_to_more_than_the_limit_is_refused() -> None:
    bomb = gzip.compress(bytes(70 << 20))
    assert len(bomb) < 100 << 10
    async with listening() as now:
        status, _, answer = await now.post(bomb, encoding="gzip")
        assert status == 413
        assert otlp.Status.FromString(answer).code == 8
        assert (await now.post(message({OUT: [Given(1, SWP1)]}).SerializeToString()))[0] == 200


async def test_neighbors_by_lldp_are_facts() -> None:
    points = [Given(1.0, {"interface": f"swp{n}", "system_name": f"spine{n}", "port_id": "swp9"}) for n in (1, 2)]
    async with listening() as now:
        await now.export(message({"nvswitch_lldp_neighbor_info": [*points, Given(1.0, {"interface": "swp3"})]}))
        await now.until(lambda: bool(now.published.of(Facts)))
        found = {(one.port, one.remote_device, one.remote_port) for one in now.published.of(Facts)[-1].neighbors}
        assert found == {("swp1", "spine1", "swp9"), ("swp2", "spine2", "swp9")}


EXAMPLE = """{"resourceMetrics": [{"resource": {"attributes": [
  {"key": "net.host.name", "value": {"stringValue": "leaf1"}}], "unknown": 1},
 "scopeMetrics": [{"scope": {"name": "x"}, "metrics": [
 {"name": "nvswitch_interface_if_out_octets", "description": "octets", "metadata": [], "gauge": {"dataPoints": [
  {"attributes": [{"key": "interface", "value": {"stringValue": "swp1"}}], "timeUnixNano": "TIME", "asDouble": 5},
  {"attributes": [{"key": "interface", "value": {"stringValue": "swp2"}}], "timeUnixNano": TIME, "asInt": "6"},
  {"attributes": [{"key": "interface", "value": {"stringValue": "swp3"}}], "timeUnixNano": "TIME",
   "asDouble": "NaN"}]}},
 {"name": "h", "histogram": {"dataPoints": [{"count": "1"}], "aggregationTemporality": 2}}]}]}]}"""
"""The form of Cumulus' documentation."""


async def test_json_is_read_and_answered_as_json() -> None:
    """Numbers are numbers or strings; unknown fields are ignored."""
    async with listening() as now:
        body = EXAMPLE.replace("TIME", str(time.time_ns())).encode()
        for sent, encoding in ((body, ""), (gzip.compress(body), "gzip")):
            status, headers, answer = await now.post(sent, JSON, encoding)
            assert (status, headers["Content-Type"].partition(";")[0]) == (200, JSON)
            assert orjson.loads(answer)["partialSuccess"]["rejectedDataPoints"] == "1"
        await now.until(lambda: len(now.values(Metric.TX_BYTES)) >= 2)
        assert set(now.values(Metric.TX_BYTES)) == {("swp1", 5), ("swp2", 6)}
        assert await now.post(b"{}", JSON) == (200, ANY, b"{}")


_GOOD = message({OUT: [Given(1, SWP1)]}).SerializeToString()


AS_JSON = {"content_type": JSON}
REQUESTS: dict[str, tuple[bytes, dict[str, str], int]] = {
    "no protobuf": (b"\xff\xff", {}, 400),
    "a list": (b"[1]", AS_JSON, 400),
    "resources that are no list": (b'{"resourceMetrics": {}}', AS_JSON, 400),
    "a metric that is a number": (b'{"resourceMetrics": [{"scopeMetrics": [{"metrics": [3]}]}]}', AS_JSON, 400),
    "an attribute without key": (b'{"resourceMetrics": [{"resource": {"attributes": [{"value": 1}]}}]}', AS_JSON, 400),
    "brackets": (b"[" * 100_000, AS_JSON, 400),
    "half a gzip": (gzip.compress(_GOOD)[:-9], {"encoding": "gzip"}, 400),
    "no gzip": (_GOOD, {"encoding": "gzip"}, 400),
    "zstd": (_GOOD, {"encoding": "zstd"}, 400),
    "text": (_GOOD, {"content_type": "text/plain"}, 415),
    "another path": (_GOOD, {"path": "/v1/traces"}, 404),
    "too large": (bytes(17 << 20), AS_JSON, 413),
    "too large when unpacked": (gzip.compress(bytes(17 << 20)), {"content_type": JSON, "encoding": "gzip"}, 413),
    "nothing": (b"", {}, 200),
    "encoding none": (_GOOD, {"encoding": "none"}, 200),
    "two gzip members": (gzip.compress(_GOOD[:20]) + gzip.compress(_GOOD[20:]), {"encoding": "gzip"}, 200),
}  # fmt: skip
"""Named, because a body that has the present time is not the name of a test."""


@pytest.mark.parametrize(("body", "options", "status"), REQUESTS.values(), ids=REQUESTS)
async def test_bad_requests_are_refused_and_the_next_one_is_read(
    body: bytes, options: dict[str, str], status: int
) -> None:
    async with listening() as now:
        assert (await now.post(body, **options))[0] == status
        assert (await now.post(_GOOD))[0] == 200
        await now.until(lambda: ("swp1", 1) in now.values(Metric.TX_BYTES))


@pytest.mark.parametrize(
    ("body", "compression", "code"),
    [
        (b"\xff\xff", grpc.Compression.NoCompression, grpc.StatusCode.INVALID_ARGUMENT),
        (bytes(65 << 20), grpc.Compression.NoCompression, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (bytes(70 << 20), grpc.Compression.Gzip, grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
)
async def test_bad_requests_by_grpc_are_refused_and_the_next_one_is_read(
    body: bytes, compression: grpc.Compression, code: grpc.StatusCode
) -> None:
    async with listening() as now:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await now.export(body, compression=compression)
        assert refused.value.code() is code
        await now.export(_GOOD, compression=grpc.Compression.Gzip)
        await now.until(lambda: ("swp1", 1) in now.values(Metric.TX_BYTES))


async def test_an_unknown_sender_is_refused() -> None:
    async with listening(targets=[{"name": "leaf1", "addresses": ["192.0.2.7"]}]) as now:
        assert (await now.post(_GOOD))[0] == 403
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await now.export(_GOOD)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert now.metrics.value("not_admitted", "unknown senders") == 2


async def test_a_sender_past_its_limit_receives_the_time_of_a_repetition() -> None:
    """The time until its values are within the limit, as RetryInfo and as Retry-After; its status has the reason."""
    many = message({OUT: [Given(1, {"interface": f"swp{number}"}) for number in range(100)]}).SerializeToString()
    async with listening(max_updates_per_s=len(many) // (3 * BYTES_PER_POINT)) as now:
        codes = [(await now.post(many))[:2] for _ in range(2)]
        assert [code for code, _ in codes] == [200, 429] and codes[1][1]["Retry-After"] in ("2", "3")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await asyncio.gather(now.export(many), now.export(many), now.export(many))
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        details = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
        info = otlp.RetryInfo.FromString(otlp.Status.FromString(details).details[0].value)
        assert 0 < info.retry_delay.seconds + info.retry_delay.nanos / 1e9 <= 3
        await now.published.until(
            lambda: any("read more slowly" in one.error for one in now.published.of(CollectorStatus, "leaf1"))
        )


HOSTILE: dict[str, bytes] = {
    "brackets": b"[" * (9 << 20),
    "ones": b'{"resourceMetrics":[' + b"1," * (4 << 20) + b"1]}",
}
_CADENCE_S = 4.0


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
async def test_a_hostile_sender_delays_no_other(body: bytes) -> None:
    """Two connections send huge requests without a pause; the longest gap of the other is below two cadences."""
    targets = [{"name": "leaf1", "addresses": ["127.0.0.1"]}, {"name": "hostile", "addresses": ["127.0.0.2"]}]
    async with listening(targets=targets, cadence_s=_CADENCE_S) as now:
        sent = 0

        async def flood() -> None:
            nonlocal sent
            url = f"http://127.0.0.1:{now.ports['http']}{PATH}"
            connector = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
            async with aiohttp.ClientSession(connector=connector) as session:
                while True:
                    try:
                        async with session.post(url, data=io.BytesIO(body), headers={"Content-Type": JSON}) as answer:
                            await answer.read()
                    except aiohttp.ClientConnectionError:
                        await asyncio.sleep(0.01)  # the collector may close before it has read the body
                    sent += 1

        meter = MemoryMeter()
        async with run_beside(flood()), run_beside(flood()):
            answered = [time.monotonic()]
            for number in range(5):
                await asyncio.sleep(answered[0] + number * _CADENCE_S - time.monotonic())
                assert (await now.post(message({OUT: [Given(number, SWP1)]}).SerializeToString()))[0] == 200
                answered.append(time.monotonic())
        assert sent > 0 and meter.growth_bytes() < 512 << 20
        assert max(later - former for former, later in itertools.pairwise(answered)) < 2 * _CADENCE_S


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("kind", ["grpc", "http"])
async def test_idle_connections_of_strangers_leave_files_for_others(kind: str) -> None:
    """A host that no target has opens more connections than the process may have files; others are served."""
    many = 400
    async with listening() as now, contextlib.AsyncExitStack() as stack:
        await now.export(message({OUT: [Given(1, SWP1)]}))
        before = open_files()
        for _ in range(many):
            _, writer = await asyncio.open_connection("127.0.0.1", now.ports[kind], local_addr=("127.0.0.2", 0))
            stack.callback(writer.close)
        assert (await now.post(message({OUT: [Given(2, SWP1)]}).SerializeToString()))[0] == 200
        await now.export(message({OUT: [Given(3, SWP1)]}))
        # Each has one file of the client, which is in this process as well.
        assert open_files() - before - many < most_connections(1) + 16


async def test_senders_wait_while_nothing_can_be_published() -> None:
    """A full buffer answers with a time, also the request whose reading it refuses."""
    async with listening() as now:
        now.published.is_full = True
        answers = [await now.post(_GOOD) for _ in range(3)]
        assert [(status, headers["Retry-After"]) for status, headers, _ in answers] == [(503, "5")] * 3
        now.published.is_full = False
        for _ in range(1000):  # the sender repeats its request
            if (await now.post(_GOOD))[0] == 200:
                break
            await asyncio.sleep(0.05)
        else:
            raise AssertionError("still refused")


async def test_a_stop_rejects_nothing_and_loses_nothing_that_was_answered() -> None:
    """A sender repeats what has no answer, but no point that is rejected."""
    answers: dict[str, otlp.ExportResponse] = {}

    async def send(now: Listening, protocol: str) -> None:
        for number in itertools.count():
            port = f"{protocol}{number}"
            request = message({OUT: [Given(number, {"interface": port})]})
            try:
                if protocol == "grpc":
                    answers[port] = await now.export(request)
                else:
                    status, _, body = await now.post(request.SerializeToString())
                    if status == 200:
                        answers[port] = otlp.ExportResponse.FromString(body)
            except (grpc.aio.AioRpcError, aiohttp.ClientError):
                await asyncio.sleep(0.01)

    for _ in range(4):
        answers.clear()
        async with listening() as now:
            senders = [asyncio.create_task(send(now, protocol)) for protocol in ("grpc", "http")]
            await now.until(lambda: len(answers) > 8)
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)
        assert not any(answer.HasField("partial_success") for answer in answers.values())
        assert answers.keys() <= {port for port, _ in now.values(Metric.TX_BYTES)}


async def test_with_a_ca_only_the_certificate_of_a_target_is_admitted(tmp_path: Path) -> None:
    """By both protocols; the name in the certificate is the target's."""
    authority = CertificateAuthority(tmp_path / "ca")
    own = authority.signed("collector")
    settings: dict[str, Any] = {
        "cert_file": own[0],
        "key_file": own[1],
        "client_ca_file": authority.file,
        "targets": [{"name": "leaf1"}],
    }

    def of(name: str) -> tuple[grpc.ChannelCredentials, ssl.SSLContext]:
        certificate, key = authority.signed(name)
        context = ssl.create_default_context(cafile=authority.file)
        context.load_cert_chain(certificate, key)
        pair = key.read_bytes(), certificate.read_bytes()
        return grpc.ssl_channel_credentials(authority.file.read_bytes(), *pair), context

    async with listening(**settings) as now:
        for name, status in (("leaf1", 200), ("leaf2", 403)):
            credentials, context = of(name)
            assert (await now.post(_GOOD, ssl=context))[0] == status
            if status == 200:
                await now.export(_GOOD, credentials)
                continue
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await now.export(_GOOD, credentials)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        await now.until(lambda: ("swp1", 1) in now.values(Metric.TX_BYTES))
