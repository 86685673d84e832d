"""Whether a block is still ours to store, asked again after a while: a sink may be stopped anywhere, for any time."""

import time
from collections.abc import Awaitable, Callable

VERIFY_AFTER_S = 5.0
"""Less than the shortest session: a sink that was away for less than this has lost nothing."""


class BlockLease:
    """One block's. `commit` says its intent again; it raises Lost where the partition is another's."""

    def __init__(self, commit: Callable[[], Awaitable[None]]) -> None:
        self._commit = commit
        self._said = time.monotonic()

    async def verify(self) -> None:
        """Return if the block was ours a moment ago."""
        if time.monotonic() - self._said > VERIFY_AFTER_S:
            await self._commit()
            self._said = time.monotonic()
