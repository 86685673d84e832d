"""A collector's spool on a disk that is full: nothing accepted is lost, what has no room is refused, and it recovers.

`python -m tests.integration.collectors.test_spool_on_a_full_disk FOLDER` does it in a mount namespace of its own.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from collectors.core import disk_buffer
from collectors.core.buffer import BufferedRecord
from collectors.core.disk_buffer import SpooledBuffer
from collectors.core.metrics import CollectorMetrics
from collectors.core.spool import Spool
from streams.chaos.isolation import empty, enter_namespaces, fill, mount_small_disk
from streams.wire.errors import Misconfigured
from streams.wire.topics import EVENTS, Record

_DISK_MIB, _MEMORY_BYTES = 4, 1 << 20
_VALUE = bytes(4096)
_NO_RIGHTS = 77
"""The exit code of a machine without the rights, as automake has it."""


def test_what_was_accepted_survives_a_full_disk(tmp_path: Path) -> None:
    """Refused and counted while neither memory nor disk has room; then all accepted records are there, in order."""
    command = [sys.executable, "-m", __name__, str(tmp_path / "disk")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode == _NO_RIGHTS:
        pytest.skip(f"a disk of its own needs root on Linux: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["refused"] > 0
    assert found["failed"] > 0
    assert found["read"] == found["accepted"]
    assert found["spooled_after"] > found["spooled_when_full"]


async def run(folder: Path) -> dict[str, object]:
    """Offer records until both bounds are met on a full disk, free the disk, and read everything back."""
    disk_buffer._RETRY_S = 0.1
    metrics = CollectorMetrics()
    buffer = SpooledBuffer(Spool(folder / "own.spool", 64 << 20), _MEMORY_BYTES, 0.0, metrics)
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
    async with asyncio.timeout(60):
        while buffer.stored < len(accepted):  # noqa: ASYNC110 — the buffer sends no event
            await asyncio.sleep(0.01)
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
    disk = Path(sys.argv[1])
    try:
        enter_namespaces()
        mount_small_disk(disk, _DISK_MIB)
    except Misconfigured as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(_NO_RIGHTS)
    sys.stdout.write(json.dumps(asyncio.run(run(disk))) + "\n")
