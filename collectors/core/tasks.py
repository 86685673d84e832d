"""Cancels tasks reliably, and runs calls that may never return in daemon threads."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

_RETRY_S = 0.2


async def cancel_and_wait(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel tasks until they are done; their exceptions are ignored.

    One cancellation may be lost: a grpc.aio stream that is cancelled before its first answer awaits a task of its own.
    That task consumes the cancellation and returns, and the stream continues to read.
    """
    while waiting := [task for task in tasks if not task.done()]:
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting, timeout=_RETRY_S)
    await asyncio.gather(*tasks, return_exceptions=True)


Result = TypeVar("Result")


def in_thread(work: Callable[[], Result], name: str) -> "asyncio.Future[Result]":
    """Run `work` in a new thread; return a future of this event loop, which also raises what `work` raises.

    It uses no executor: Python waits for an executor's threads at exit, and a driver may block a caller for ever.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type] # set if there is no error
        else:
            future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001 — it is raised to the awaiting caller
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop has ended: no caller waits
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
