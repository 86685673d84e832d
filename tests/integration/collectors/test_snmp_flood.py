"""One device answers with huge tables: the collector's memory is bounded, and another is read on its cadence."""

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from collectors.core.context import CollectorContext
from collectors.core.metrics import CollectorMetrics
from collectors.snmp.collector import collect
from collectors.snmp.params import Params
from lab.constants import params_of
from streams.wire.models import CollectorStatus, Samples
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.running_task import run_beside
from tests.fuzz.target import MemoryMeter

_MIB = 1 << 20
_BOUND_S = 120.0
_CADENCE_S = 2.0


@asynccontextmanager
async def device(rows: int, size: int) -> AsyncIterator[str]:
    """Yield the address of a device in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.fakes.snmp_device", str(rows), str(size), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield f"127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.kill()
        await process.wait()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("rows", "size", "is_read"),
    [
        pytest.param(4_000, 240, True, id="as many ports as allowed"),
        pytest.param(1_000_000, 0, False, id="rows without end"),
        pytest.param(1_000_000, 30_000, False, id="huge values without end"),
    ],
)
async def test_a_device_with_huge_tables_delays_no_other(rows: int, size: int, *, is_read: bool) -> None:
    """It is read more slowly, and reported; the longest gap between readings of the other is below two cadences."""
    async with device(rows, size) as hostile, device(8, 0) as honest:
        params = params_of(Params, {
            "targets": [{"name": "hostile", "address": hostile}, {"name": "honest", "address": honest}],
            "cadence_s": _CADENCE_S, "community": "public", "deadline_s": 60.0, "max_values_per_s": 25_000,
        })  # fmt: skip
        published, metrics = RecordingPublisher(), CollectorMetrics()
        context = CollectorContext(published, "test", metrics, run=7, rng=random.Random(1))
        async with run_beside(collect(params, context)):
            await published.until(lambda: len(published.of(Samples, "honest")) > 1, _BOUND_S)
            meter = MemoryMeter()
            await published.until(
                lambda: (
                    bool(published.of(Samples, "hostile"))
                    if is_read
                    else any("more than" in one.error for one in published.of(CollectorStatus, "hostile"))
                ),
                _BOUND_S,
            )
            assert meter.growth_bytes() < 256 * _MIB
    assert metrics.value("throttled", "hostile") > 0
    times = [one.sampled_at_ns for one in published.of(Samples, "honest")]
    assert max(later - former for former, later in pairwise(times)) < 2 * _CADENCE_S * 1e9
    assert metrics.value("throttled", "honest") == 0
