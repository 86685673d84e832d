"""One device sends without end and then stops in mid-message: the collector's memory is bounded, others are read."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from itertools import dropwhile, pairwise

import pytest

from collectors.core.clock import SystemClock
from collectors.gnmi.params import Params
from lab.constants import params_of
from lab.servers.gnmi_server import GnmiServers
from streams.wire.models import CollectorStatus, Samples
from tests.fakes.gnmi_flood import HUGE
from tests.fuzz.target import MemoryMeter
from tests.integration.collectors.fabric import collecting, world_of

_MIB = 1 << 20
_BOUND_S = 90.0
_CADENCE_S = 4.0
_REPORTS = {
    "interfaces": "bytes is above the limit of 4194304", "ones": "bytes is above the limit of 4194304",
    "lists": "read more slowly", "members": "read more slowly",
}  # fmt: skip
"""The text in the status of the device that sends it."""


@pytest.fixture
async def flood(request: pytest.FixtureRequest) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Yield a process that floods, with the huge response of this name if the test has one, and its address."""
    kind = getattr(request, "param", None)
    arguments = ["-m", "tests.fakes.gnmi_flood", *([kind] if kind else [])]
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
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


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("flood", "report"), [(kind, _REPORTS.get(kind, "")) for kind in HUGE], indirect=["flood"])
async def test_huge_messages_delay_no_other_device(flood: tuple[asyncio.subprocess.Process, str], report: str) -> None:
    """The longest gap of the others is below two cadences, memory is bounded, and the status names the reason."""
    async with GnmiServers(world_of(), SystemClock()) as face:
        targets = [{"name": name, "address": at} for name, at in face.addresses.items()]
        params = params_of(
            Params, {"targets": [*targets, {"name": "flood", "address": flood[1]}], "cadence_s": _CADENCE_S}
        )
        async with collecting(params) as (published, _):
            await published.until(lambda: all(published.of(Samples, name) for name in face.addresses), _BOUND_S)
            meter = MemoryMeter()
            await published.until(
                lambda: all(len(published.of(Samples, name)) > 3 for name in face.addresses), _BOUND_S
            )
            await published.until(
                lambda: any(report in status.error for status in published.of(CollectorStatus, "flood")), _BOUND_S
            )
            for name in face.addresses:
                reached = dropwhile(lambda one: not one.reachable, published.of(CollectorStatus, name))
                assert {(one.reachable, one.error) for one in reached} == {(True, "")}
            assert meter.growth_bytes() < 512 * _MIB
            for name in face.addresses:
                times = [one.sampled_at_ns for one in published.of(Samples, name)]
                assert max(later - former for former, later in pairwise(times)) < 2 * _CADENCE_S * 1e9
