"""The buffer with a spool: when it writes, in which order it returns records, and what it guarantees."""

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from collectors.core.buffer import buffer_of
from collectors.core.metrics import CollectorMetrics
from collectors.core.params import PublisherParams
from lab.constants import params_of
from tests.fixtures.spool_records import buffered, files_no_larger_than
from tests.fixtures.waiting import until

AFTER_S = 0.2


class Run:
    """A running buffer, its metrics, and a way to wait for its states."""

    def __init__(self, folder: Path, **settings: int) -> None:
        self.metrics = CollectorMetrics()
        params = params_of(PublisherParams, {"spool": folder, "spool_after_s": AFTER_S} | settings)
        buffer = buffer_of(params, "gnmi@a/b", self.metrics)
        self.buffer = buffer

    async def all(self) -> list[int]:
        """Return the numbers of the waiting records, oldest first; none is released."""
        return [one.rows for one in await self.buffer.first(10**6)]


@asynccontextmanager
async def running(folder: Path, **settings: int) -> AsyncIterator[Run]:
    run = Run(folder, **settings)
    await run.buffer.open()
    work = asyncio.create_task(run.buffer.run())
    try:
        yield run
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def test_nothing_is_written_while_kafka_answers_in_time(tmp_path: Path) -> None:
    async with running(tmp_path) as now:
        for number in range(30):
            assert now.buffer.offer(buffered(number))
            await asyncio.sleep(AFTER_S / 10)
            await now.buffer.release(len(await now.buffer.first(100)))
        assert (now.metrics.value("spooled"), now.metrics.value("settled"), len(now.buffer)) == (0, 30, 0)


async def test_records_that_wait_too_long_are_on_disk_and_stay_in_order(tmp_path: Path) -> None:
    """Records that were returned before the move are released all the same, and later ones follow."""
    async with running(tmp_path) as now:
        for number in range(1, 11):
            now.buffer.offer(buffered(number))
        assert len(await now.buffer.first(4)) == 4
        await until(lambda: now.metrics.value("spooled") == 10)
        assert now.metrics.value("settled") == 10
        now.buffer.offer(buffered(11))
        await now.buffer.release(3)
        assert await now.all() == list(range(4, 11))
        await now.buffer.release(7)
        assert await now.all() == [11]


async def test_a_new_run_returns_the_records_of_the_last_one_first(tmp_path: Path) -> None:
    """Killed during an outage: guaranteed records are sent again, before new ones."""
    async with running(tmp_path) as now:
        for number in range(1, 6):
            now.buffer.offer(buffered(number))
        await until(lambda: now.metrics.value("settled") == 5)
        await now.buffer.close()  # all are on disk: the file is as a killed process leaves it
    async with running(tmp_path) as now:
        now.buffer.offer(buffered(6))
        assert await now.all() == [1, 2, 3, 4, 5]
        await now.buffer.release(5)
        assert await now.all() == [6]
        assert now.metrics.value("settled") == 0  # they are not of this run
        await now.buffer.release(1)
        assert now.metrics.value("settled") == 1


async def test_past_both_bounds_the_newest_is_refused(tmp_path: Path) -> None:
    """Accepted records stay, in order; the full spool is counted."""
    async with running(tmp_path, memory_bytes=1 << 16, spool_bytes=1 << 16) as now:
        taken = []
        for number in range(200):
            if now.buffer.offer(buffered(number, 3000)):
                taken.append(number)
            await asyncio.sleep(0.005)
        await until(lambda: now.metrics.value("spool_full") > 0)
        assert 30 < len(taken) < 200
        found = []
        while waiting := await now.all():
            found += waiting
            await now.buffer.release(len(waiting))
        assert found == taken


async def test_a_disk_that_fails_leaves_memory_as_the_bound(tmp_path: Path) -> None:
    """It is counted; nothing ends, no accepted record is lost, and with space again it is written."""
    async with running(tmp_path) as now:
        for number in range(20):
            now.buffer.offer(buffered(number, 50_000))
        with files_no_larger_than(200_000):
            await until(lambda: now.metrics.value("spool_failed") > 0)
        assert now.metrics.value("settled") == 0
        assert await now.all() == list(range(20))
        await now.buffer.close()
        assert now.metrics.value("settled") == 20
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


async def test_a_damaged_spool_is_reported_and_a_new_one_created(tmp_path: Path) -> None:
    """The file remains for inspection; later records go into a new one."""
    (tmp_path / "gnmi@a%2Fb.spool").write_bytes(b"rubbish" * 1000)
    async with running(tmp_path) as now:
        assert now.metrics.value("spool_damaged") == 1
        now.buffer.offer(buffered(1))
        await until(lambda: now.metrics.value("settled") == 1)
        assert await now.all() == [1]
