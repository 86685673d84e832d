"""One device sends without end and then stops in mid-message: the collector's memory is bounded, others are read."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator

import pytest

from collectors.core.clock import SystemClock
from collectors.gnmi.params import Params
from lab.constants import params_of
from lab.servers.gnmi_server import GnmiServers
from streams.wire.models import CollectorStatus, Samples
from tests.fuzz.target import MemoryMeter
from tests.integration.collectors.fabric import collecting, world_of

_MIB = 1 << 20
_BOUND_S = 90.0


@pytest.fixture
async def flood() -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Yield a process that floods, and its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.fakes.gnmi_flood", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield process, f"127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.kill()
        await process.wait()


@pytest.mark.timeout(300)
async def test_a_device_that_floods_and_stalls_affects_no_other(flood: tuple[asyncio.subprocess.Process, str]) -> None:
    """The flood is throttled; a stop in mid-message is found by the keep-alive; both leave the others on cadence."""
    process, address = flood
    async with GnmiServers(world_of(), SystemClock()) as face:
        targets = [{"name": name, "address": at} for name, at in face.addresses.items()]
        others = tuple(face.addresses)
        params = params_of(Params, {
            "targets": [*targets, {"name": "flood", "address": address}], "cadence_s": 0.5, "max_updates_per_s": 1000,
            "keepalive_s": 1, "keepalive_timeout_s": 1,
        })  # fmt: skip
        meter = MemoryMeter()
        async with collecting(params) as (published, metrics):

            async def read_on(readings: int) -> None:
                """Wait for further readings of every other device."""
                before = {name: len(published.of(Samples, name)) for name in others}
                await published.until(
                    lambda: all(len(published.of(Samples, name)) >= before[name] + readings for name in others),
                    _BOUND_S,
                )

            await published.until(lambda: metrics.value("throttled", "flood") > 3, _BOUND_S)
            meter.growth_bytes()
            throttled = metrics.value("throttled", "flood")
            await read_on(10)
            assert metrics.value("throttled", "flood") > throttled
            assert published.of(Samples, "flood")
            process.send_signal(signal.SIGSTOP)
            await published.until(lambda: not published.of(CollectorStatus, "flood")[-1].reachable, _BOUND_S)
            await read_on(10)
            assert meter.growth_bytes() < 64 * _MIB
            assert all(published.of(CollectorStatus, name)[-1].reachable for name in others)
