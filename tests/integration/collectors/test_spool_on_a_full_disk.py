"""A collector's spool on a disk that is full: nothing accepted is lost, what has no room is refused, and it recovers.

`python -m tests.integration.collectors.test_spool_on_a_full_disk FOLDER` does it in a mount namespace of its own.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from collectors.core import buffer as core_buffer
from collectors.core.buffer import Buffer
from collectors.core.metrics import CollectorMetrics
from collectors.core.spool import BufferedRecord, Spool
from lab.chaos.isolation import empty, fill
from streams.wire.topics import EVENTS, Record
from tests.fixtures.small_disk import run_on_small_disk, scenario
from tests.fixtures.waiting import until

_DISK_MIB, _MEMORY_BYTES = 4, 1 << 20
_VALUE = bytes(4096)


def test_what_was_accepted_survives_a_full_disk(tmp_path: Path) -> None:
    """Refused and counted while neither memory nor disk has room; then all accepted records are there, in order."""
    found = run_on_small_disk(__name__, tmp_path / "disk", 120)
    assert found["refused"] > 0
    assert found["failed"] > 0
    assert found["read"] == found["accepted"]
    assert found["spooled_after"] > found["spooled_when_full"]


async def run(folder: Path) -> dict[str, object]:
    """Offer records until both bounds are met on a full disk, free the disk, and read everything back."""
    core_buffer._RETRY_S = 0.1
    metrics = CollectorMetrics()
    buffer = Buffer(Spool(folder / "own.spool", 64 << 20), _MEMORY_BYTES, 0.0, metrics)
    await buffer.open()
    work = asyncio.create_task(buffer.run())
    accepted: list[int] = []
    refused: list[int] = []

    async def offer_until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                number = len(accepted) + len(refused)
                is_accepted = buffer.offer(BufferedRecord(Record(EVENTS, str(number).encode(), _VALUE)))
                (accepted if is_accepted else refused).append(number)
                await asyncio.sleep(0.001)

    await offer_until(lambda: buffer.stored > 20)
    fill(folder)
    await offer_until(lambda: bool(refused and metrics.value("spool_failed")))
    when_full = buffer.stored
    empty(folder)
    await until(lambda: buffer.stored >= len(accepted), 60)
    after = buffer.stored
    read: list[int] = []
    while len(buffer):
        window = await buffer.first(500)
        read += [int(one.record.key) for one in window]
        await buffer.release(len(window))
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    await buffer.close()
    return {
        "accepted": accepted, "read": read, "refused": len(refused), "failed": metrics.value("spool_failed"),
        "spooled_when_full": when_full, "spooled_after": after,
    }  # fmt: skip


if __name__ == "__main__":
    scenario(lambda disk: asyncio.run(run(disk)), _DISK_MIB)
