"""Cancels tasks reliably."""

import asyncio
from typing import Any

_RETRY_S = 0.2


async def cancel_and_wait(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel tasks until they are done; their exceptions are ignored.

    One cancellation may be lost: a grpc.aio stream that is cancelled before its first answer awaits a task of its own,
    which consumes the cancellation and returns, and the stream continues to read.
    """
    while waiting := [task for task in tasks if not task.done()]:
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting, timeout=_RETRY_S)
    await asyncio.gather(*tasks, return_exceptions=True)
