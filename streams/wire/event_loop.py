"""Selects the event loop of a process and its threads: uvloop if it is installed, else asyncio's own.

Each message, fetch and response wakes the loop; uvloop saves a tenth of reading gNMI (`railsight bench gnmi`).
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

try:
    import uvloop

    new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
except ImportError:
    new_loop = asyncio.new_event_loop


async def unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Run the work until it ends or a stop is requested; return whether it ended."""
    doing, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    await asyncio.wait((doing, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not doing.done():
        doing.cancel()
        return False
    doing.result()
    return True
