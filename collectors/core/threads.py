"""Does what may not return in a thread that does not keep the process from ending."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def in_thread(work: Callable[[], Result], name: str) -> "asyncio.Future[Result]":
    """Do it in a thread of its own; the answer is a future of this event loop, and what `work` raises is raised there.

    Not an executor's: Python waits for those at its end, and a driver may keep whoever asks it for ever.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type] # there is one where there is no error
        else:
            future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001 — it is raised where the future is awaited
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile: nobody waits
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
