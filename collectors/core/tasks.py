"""Ends tasks for certain."""

import asyncio
from typing import Any

_AGAIN_S = 0.2


async def cancel_and_wait(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel tasks until they are done; what they raise is theirs.

    One cancellation may get lost: a stream of grpc.aio that is cancelled before its first answer awaits a task of its
    own, which takes the cancellation for itself and returns, and the stream reads on.
    """
    while waiting := [task for task in tasks if not task.done()]:
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting, timeout=_AGAIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)
