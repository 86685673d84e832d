"""Verifies that this sink still owns a block, because the process may be suspended at any point for any time."""

import time
from collections.abc import Awaitable, Callable

VERIFY_AFTER_S = 5.0
"""Less than the shortest session: a sink that was suspended for less than this still owns its partitions."""


class BlockLease:
    """The ownership of one block; `commit` repeats its intent, and raises PartitionLost after a takeover."""

    def __init__(self, commit: Callable[[], Awaitable[None]]) -> None:
        self._commit = commit
        self._verified_at = time.monotonic()
        self.verifications = 0
        """Counts the calls of `verify`, one before each attempt to store a part of the block."""

    async def verify(self) -> None:
        """Return if the block was owned within the last VERIFY_AFTER_S."""
        self.verifications += 1
        if time.monotonic() - self._verified_at > VERIFY_AFTER_S:
            await self._commit()
            self._verified_at = time.monotonic()
