"""Real senders of OTLP: telemetrygen, and as relays an OpenTelemetry Collector and gnmic.

`make otlp-peers` builds them; they are on PATH.
"""

import asyncio
import contextlib
import shutil
import socket
from asyncio.subprocess import DEVNULL, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from collectors.core.clock import SystemClock
from collectors.otlp.server import PATH
from lab.servers.gnmi_server import GnmiServers
from streams.fabric.catalogue import Metric
from tests.fixtures.ports import free_port
from tests.integration.collectors.fabric import world_of
from tests.integration.collectors.otlp_clients import Listening, listening

OUT = "nvswitch_interface_if_out_octets"
TELEMETRYGEN, OTELCOL = shutil.which("telemetrygen"), shutil.which("otelcol")
GNMIC = shutil.which("gnmic")
needs_gnmic = pytest.mark.skipif(GNMIC is None, reason="gnmic is not on PATH (make otlp-peers)")
needs_telemetrygen = pytest.mark.skipif(TELEMETRYGEN is None, reason="telemetrygen is not on PATH (make otlp-peers)")
needs_otelcol = pytest.mark.skipif(OTELCOL is None, reason="otelcol is not on PATH (make otlp-peers)")

CONFIG = """
receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:IN"}}}}
exporters:
  otlp: {endpoint: "127.0.0.1:GRPC", tls: {insecure: true}}
  otlphttp/protobuf: {metrics_endpoint: "http://127.0.0.1:HTTP/v1/metrics"}
  otlphttp/json: {metrics_endpoint: "http://127.0.0.1:HTTP/v1/metrics", encoding: json}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {metrics: {receivers: [otlp], exporters: [EXPORTER]}}
"""


async def generate(address: str, *options: str, name: str = OUT, device: str = "leaf1") -> None:
    """Send five points of one series, as telemetrygen does; raises AssertionError if it cannot."""
    assert TELEMETRYGEN is not None
    process = await asyncio.create_subprocess_exec(
        TELEMETRYGEN, "metrics", "--otlp-insecure", "--otlp-endpoint", address, "--metrics", "5", "--rate", "50",
        "--otlp-metric-name", name, "--telemetry-attributes", 'interface="swp1"', "--otlp-attributes",
        f'host.name="{device}"', *options, stdout=DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()


async def received(now: Listening) -> None:
    """Wait for a value of the series, without a rejected point."""
    await now.until(lambda: bool(now.values(Metric.TX_BYTES)))
    assert {port for port, _ in now.values(Metric.TX_BYTES)} == {"swp1"}
    assert now.metrics.value("unreadable", "leaf1") == 0


@needs_telemetrygen
@pytest.mark.parametrize("kind", ["Gauge", "Sum"])
@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_telemetrygen_is_read(kind: str, protocol: str) -> None:
    """Its histograms are accepted too."""
    options = ["--otlp-http"] if protocol == "http" else []
    async with listening() as now:
        address = f"127.0.0.1:{now.ports[protocol]}"
        await generate(address, "--metric-type", "Histogram", *options)
        await generate(address, "--metric-type", kind, *options)
        await received(now)


@needs_telemetrygen
@needs_otelcol
@pytest.mark.parametrize("exporter", ["otlp", "otlphttp/protobuf", "otlphttp/json"])
async def test_a_collector_is_a_relay(exporter: str, tmp_path: Path) -> None:
    """Its exporters send with gzip by default; an unknown device is rejected and nothing else."""
    relay = {"name": "otelcol", "addresses": ["127.0.0.1"], "relay": True}
    async with listening(targets=[relay, {"name": "leaf1"}]) as now, collector(now, exporter, tmp_path) as address:
        await generate(address, device="leaf9")
        await generate(address)
        await now.until(lambda: bool(now.values(Metric.TX_BYTES)))
        assert {port for port, _ in now.values(Metric.TX_BYTES)} == {"swp1"}
        assert now.metrics.value("unreadable", "otelcol") == 5


@needs_telemetrygen
@needs_otelcol
async def test_points_that_a_collector_queues_while_we_are_stopped_arrive_once(tmp_path: Path) -> None:
    """The Collector repeats what had no answer; nothing is lost or doubled."""
    relay = {"name": "otelcol", "addresses": ["127.0.0.1"], "relay": True}
    settings = {"listen": f"127.0.0.1:{port_pair()}", "targets": [relay, {"name": "leaf1"}]}
    async with AsyncExitStack() as stack:
        async with listening(**settings) as now:
            address = await stack.enter_async_context(collector(now, "otlp", tmp_path))
            await generate(address)
            await now.until(lambda: now.metrics.value("updates", "leaf1") >= 5)
        await generate(address)  # no receiver
        await generate(address)
        async with listening(**settings) as again:
            await again.until(lambda: again.metrics.value("updates", "leaf1") >= 10)
            await generate(address)
            await again.until(lambda: again.metrics.value("updates", "leaf1") >= 15)
            assert again.metrics.value("updates", "leaf1") == 15
        assert now.metrics.value("updates", "leaf1") == 5


SUBSCRIBE = """
{username: u, password: p, insecure: true, encoding: ENCODING, targets: {"TARGET": {}},
 subscriptions: {s: {paths: [/interfaces/interface/state], stream-mode: sample, sample-interval: 1s}},
 outputs: {o: {type: otlp, protocol: PROTOCOL, endpoint: "ENDPOINT", interval: 500ms OPTIONS}}}
"""


@needs_gnmic
@pytest.mark.parametrize(
    ("protocol", "encoding", "options", "metrics"),
    [
        ("grpc", "json", "", (Metric.RX_BYTES,)),
        ("http", "proto", "", (Metric.RX_BYTES,)),
        ("grpc", "json_ietf", ", strings-as-attributes: true", (Metric.RX_BYTES, Metric.OPER_UP)),
    ],
)
async def test_gnmic_with_its_defaults_is_a_relay(
    protocol: str, encoding: str, options: str, metrics: tuple[Metric, ...], tmp_path: Path
) -> None:
    """Its points name the device by its address; all ports are read, and no counter falls."""
    assert GNMIC is not None
    async with GnmiServers(world_of(), SystemClock()) as face:
        name, address = next(iter(face.addresses.items()))
        relay = {"name": "gnmic", "addresses": ["127.0.0.1"], "relay": True}
        async with listening(targets=[relay, {"name": name, "node": address}]) as now:
            ports = {"grpc": f"127.0.0.1:{now.ports['grpc']}", "http": f"http://127.0.0.1:{now.ports['http']}{PATH}"}
            config = tmp_path / "gnmic.yaml"
            config.write_text(
                SUBSCRIBE.replace("ENCODING", encoding).replace("TARGET", address).replace("PROTOCOL", protocol)
                .replace("ENDPOINT", ports[protocol]).replace("OPTIONS", options)
            )  # fmt: skip
            process = await asyncio.create_subprocess_exec(
                GNMIC, "--config", str(config), "subscribe", stdout=DEVNULL, stderr=DEVNULL
            )
            try:
                await now.until(lambda: all(_is_read_twice(now.values(metric, name)) for metric in metrics))
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()
            assert now.metrics.value("unreadable", "gnmic") == 0
            for metric in metrics:
                of_port: dict[str, list[float]] = {}
                for port, value in now.values(metric, name):
                    of_port.setdefault(port, []).append(value)
                assert all(values == sorted(values) for values in of_port.values())


def _is_read_twice(values: list[tuple[str, float]]) -> bool:
    counts = Counter(port for port, _ in values)
    return len(counts) > 1 and min(counts.values()) > 1


def port_pair() -> int:
    """Return a free port whose next one is free too."""
    while True:
        port = free_port()
        with contextlib.suppress(OSError, OverflowError), socket.create_server(("127.0.0.1", port + 1)):
            return port


@asynccontextmanager
async def collector(now: Listening, exporter: str, folder: Path) -> AsyncIterator[str]:
    """Run a Collector that relays to us; yield its address once it listens."""
    assert OTELCOL is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = CONFIG.replace("IN", str(port), 1).replace("EXPORTER", exporter)
    for name, value in now.ports.items():
        text = text.replace(name.upper(), str(value))
    config = folder / "otelcol.yaml"
    config.write_text(text)
    process = await asyncio.create_subprocess_exec(
        OTELCOL, "--config", f"file:{config}", stdout=DEVNULL, stderr=DEVNULL
    )
    try:
        await _listens(process, port)
        yield f"127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _listens(process: Process, port: int) -> None:
    while process.returncode is None:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await writer.wait_closed()
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"the collector ended: {process.returncode}")
