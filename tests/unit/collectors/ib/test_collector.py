"""Tests the samples that are made of answers of UFM Telemetry: identities, times, silence, and what is left out."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from collectors.core.context import CollectorContext
from collectors.core.params import Core
from collectors.ib.collector import SPEC, collect
from collectors.ib.params import Params
from lab.constants import with_constants
from streams.fabric.catalogue import Metric
from streams.wire.errors import Misconfigured, Retry
from streams.wire.models import ABSENT_COUNTER, CollectorStatus, Samples, Source
from tests.fakes.publisher import RecordingPublisher

AT_MS = 1_772_000_000_000
LEAF, SPINE, HOST = "0xfc6a1c0300aa0001", "fc6a1c0300aa0002", "0x2c90300f172a0"
FORM = "# TYPE x counter\n"


def line(name: str, value: object, guid: str = LEAF, port: int = 1, at_ms: int = AT_MS, desc: str = "") -> str:
    """Return a line of Prometheus text."""
    return f'{name}{{node_guid="{guid}",port_guid="{guid}",port_num="{port}",node_desc="{desc}"}} {value} {at_ms}\n'


LEAF_1 = {"guid": LEAF, "desc": "MF0;leaf01:MQM9700/U1"}
HOST_1 = {"guid": HOST, "desc": "server01 mlx5_0"}


def answer(at_ms: int = AT_MS, packets: int = 10) -> str:
    """Return an answer with a port of a leaf, one of a host, and those of nodes that are no device."""
    return FORM + "".join(
        (
            line("PortXmitPktsExtended", packets, at_ms=at_ms, **LEAF_1),  # type: ignore[arg-type]
            line("PortXmitWaitExtended", 3, at_ms=at_ms, **LEAF_1),  # type: ignore[arg-type]
            line("PortXmitPktsExtended", packets, at_ms=at_ms, **HOST_1),  # type: ignore[arg-type]
            line("PortXmitPktsExtended", 1, SPINE, 0, at_ms, "MF0;spine01:MQM9790/U1"),
            line("PortXmitPktsExtended", 1, "77", 1, at_ms, "Mellanox Technologies Aggregation Node"),
        )
    )


def csv_of(at_us: str, rows: str) -> str:
    """Return a CSV with a time."""
    head = "timestamp,node_guid,port_guid,port_num,node_description,PortXmitPktsExtended,PortXmitWaitExtended\n"
    return head + rows.replace("AT", at_us)


class Telemetry:
    """An HTTP server with one answer, or a refusal."""

    def __init__(self) -> None:
        self.text, self.status, self.url, self.requests = answer(), "200 OK", "", 0
        self.request = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.request = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.requests += 1
        body = self.text.encode()
        writer.write(f"HTTP/1.1 {self.status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()


@pytest.fixture
async def telemetry() -> AsyncIterator[Telemetry]:
    """Serve one answer on loopback."""
    found = Telemetry()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
    async with server:
        yield found


async def once(params: Params) -> list[Samples]:
    """Return one reading of all inputs."""
    assert SPEC.read_once is not None
    publisher = RecordingPublisher()
    async for _ in SPEC.read_once(params, CollectorContext(publisher, "ib@test")):
        pass
    return publisher.of(Samples)


def inventory(folder: Path, *, port: str = "mlx5_0") -> Path:
    """Write an inventory that names the leaf by its GUID and a host's port by an alias."""
    (folder / "devices.csv").write_text(
        f"name,kind,tier,model,id\npod1-leaf,switch,T0,MQM9700,{LEAF}\nserver01,host,host,,\n"
    )
    (folder / "links.csv").write_text(
        f"a_device,a_port,z_device,z_port,role,rail,plane,speed_bps\nserver01,{port},pod1-leaf,1,host-link,0,0,400000000000\n"
    )
    (folder / "ports.csv").write_text(f"device,port,alias,source\nserver01,{port},0x0002c90300f172a0,\n")
    return folder


async def test_an_answer_becomes_samples_of_its_devices(telemetry: Telemetry) -> None:
    """A host's port has the HCA's name, a switch's its number; SHARP's node and a management port are none."""
    leaf, host = await once(Params(inputs=(telemetry.url,)))
    assert (leaf.device, leaf.row, host.device, host.row) == ("leaf01", ("1",), "server01", ("mlx5_0",))
    assert {leaf.source, host.source} == {Source.SOURCE_IB} and leaf.sampled_at_ns == AT_MS * 10**6
    assert dict(zip(leaf.counters.metric, leaf.counters.values[:, 0].tolist(), strict=True)) == {
        Metric.TX_PACKETS: 10, Metric.TX_WAIT_TICKS: 3, Metric.TX_WAIT_BYTES: 24,
    }  # fmt: skip


async def test_the_inventory_names_devices_and_leaves_out_others(telemetry: Telemetry, tmp_path: Path) -> None:
    """A GUID counts in any form: with a prefix and without leading zeros."""
    telemetry.text += line("PortXmitPktsExtended", 1, "99", 1, AT_MS, "MF0;other:MQM9700/U1")
    leaf, host = await once(Params(inputs=(telemetry.url,), inventory=inventory(tmp_path, port="rail0")))
    assert (leaf.device, leaf.row, host.device, host.row) == ("pod1-leaf", ("1",), "server01", ("rail0",))


async def test_csv_is_as_prometheus_text(telemetry: Telemetry) -> None:
    """Times in µs; a row that was cut off, or has no port, is left out; two nodes never share a port."""
    telemetry.text = csv_of(
        str(AT_MS * 1000),
        f'AT,{LEAF},{LEAF},2,"MF0;leaf01:MQM9700/U1",5,4294967295\n'
        f'AT,{LEAF},{LEAF},1,"MF0;leaf01:MQM9700/U1",10,N/A\n'
        f'AT,{SPINE},{SPINE},1,"MF0;leaf01:MQM9700/U1",99,1\n'
        "AT,,,1,nothing,1,1\n"
        f"AT,{LEAF},{LEAF},3",
    )
    (leaf,) = await once(Params(inputs=(telemetry.url,)))
    assert (leaf.row, leaf.sampled_at_ns) == (("1", "2"), AT_MS * 10**6)
    columns = dict(zip(leaf.counters.metric, leaf.counters.values, strict=True))
    assert columns[Metric.TX_PACKETS].tolist() == [10, 5]
    assert columns[Metric.TX_WAIT_BYTES].tolist() == [ABSENT_COUNTER, 4294967295 * 8], "full only as 32 bits"


async def test_an_old_sample_is_published_once_and_its_silence_is_reported(telemetry: Telemetry) -> None:
    """UFM Telemetry repeats its last sample; a device without a newer one for long is unreachable, with the reason."""
    publisher = RecordingPublisher()
    params = with_constants(Params, cadence_s=0.05)(inputs=(telemetry.url,))
    work = asyncio.create_task(collect(params, CollectorContext(publisher, "ib@test")))
    try:
        await publisher.until(lambda: any("no newer values" in one.error for one in publisher.of(CollectorStatus)))
        assert len(publisher.of(Samples)) == 2
        telemetry.text = answer(AT_MS + 30_000, 12)
        await publisher.until(lambda: len(publisher.of(Samples)) == 4)
        telemetry.status = "503 Service Unavailable"
        await publisher.until(lambda: any("503" in one.error for one in publisher.of(CollectorStatus, "leaf01")))
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
    last = publisher.of(Samples, "leaf01")[-1]
    assert last.sampled_at_ns == (AT_MS + 30_000) * 10**6 and np.all(last.counters.values[:1] == 12)


async def test_an_answer_without_times_is_new_when_it_differs(telemetry: Telemetry) -> None:
    """Equal values twice would look like a port without traffic."""
    publisher = RecordingPublisher()
    params = with_constants(Params, cadence_s=0.05)(inputs=(telemetry.url,))
    telemetry.text = FORM + f'PortXmitPktsExtended{{node_guid="{LEAF}",port_num="1"}} 1\n'
    work = asyncio.create_task(collect(params, CollectorContext(publisher, "ib@test")))
    try:
        await publisher.until(lambda: any("no newer values" in one.error for one in publisher.of(CollectorStatus)))
        assert len(publisher.of(Samples)) == 1 and publisher.of(Samples)[0].device == LEAF
        telemetry.text = telemetry.text.replace(" 1\n", " 2\n")
        await publisher.until(lambda: len(publisher.of(Samples)) == 2)
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("", "200 OK", "the answer is empty"),
        ("<html>", "200 OK", "neither Prometheus text nor CSV"),
        ("a,b\n1,2\n", "200 OK", "no port in the answer"),
        ("denied", "403 Forbidden", "403 Forbidden"),
    ],
)
async def test_an_answer_that_is_none_is_one_error(telemetry: Telemetry, text: str, status: str, message: str) -> None:
    """It names the input and what it is."""
    telemetry.text, telemetry.status = text, status
    with pytest.raises(Retry, match=message):
        await once(Params(inputs=(telemetry.url,)))


@pytest.mark.parametrize("wrong", ["ftp://h/x", "http://user:secret@h/x", "file:", "udp://h:1", "http://h:x/"])
def test_an_invalid_input_is_refused(wrong: str) -> None:
    """Also a login in a URL, which would be logged."""
    with pytest.raises(ValueError, match="is no input"):
        Params(inputs=(wrong,))


@pytest.mark.parametrize("url", ["http://ufm:9001/metrics#login=/x", "https://ufm/x#/x", "https://ufm/x#login="])
def test_a_login_without_tls_or_without_a_file_is_refused(url: str) -> None:
    """On loopback it needs no TLS."""
    with pytest.raises(ValueError, match="login"):
        Params(inputs=(url,))


@pytest.mark.parametrize(
    ("content", "header"),
    [("ufm:se:cret\n", "Basic dWZtOnNlOmNyZXQ="), ("Basic abc", "Basic abc"), ("Bearer t0k.en\n", "Bearer t0k.en")],
)
async def test_the_login_of_a_file_is_sent(telemetry: Telemetry, tmp_path: Path, content: str, header: str) -> None:
    """The path of the file is not part of the request or of the input's name."""
    (tmp_path / "login").write_text(content)
    params = Params(inputs=(f"{telemetry.url}#login={tmp_path}/login",))
    assert [one.place for one in params.parsed()] == [telemetry.url]
    assert await once(params)
    assert f"Authorization: {header}\r\n" in telemetry.request and "login" not in telemetry.request


@pytest.mark.parametrize(
    ("content", "message"), [(None, "No such file"), ("secret", "needs one line"), ("a:\nb", "line")]
)
async def test_a_login_file_that_is_none_is_an_error_without_its_content(
    telemetry: Telemetry, tmp_path: Path, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "login").write_text(content)
    with pytest.raises(Retry, match=message) as raised:
        await once(Params(inputs=(f"{telemetry.url}#login={tmp_path}/login",)))
    assert "secret" not in str(raised.value) and telemetry.requests == 0


async def test_it_needs_an_input() -> None:
    """The error names the setting."""
    with pytest.raises(Misconfigured, match="set inputs"):
        assert not [one async for one in SPEC.once(Params(), Core())]
