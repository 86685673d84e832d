"""Stops a client of Kafka in bounded time: without brokers aiokafka waits for them, or its own tasks cancel it."""

import asyncio
from typing import Any

STOP_S = 1.0
"""With brokers a stop takes milliseconds. What is not sent by then, the next start sends."""


async def stop_client(client: Any, within_s: float = STOP_S) -> None:
    """Stop a consumer, a producer or an admin client; after `within_s` leave it to the end of the process.

    Raises nothing: the work of the client is over.
    """
    stopping = asyncio.ensure_future(client.stop() if hasattr(client, "stop") else client.close())
    try:
        await asyncio.wait({stopping}, timeout=within_s)
    finally:
        if not stopping.cancel() and not stopping.cancelled():
            stopping.exception()  # retrieved, so that asyncio does not log it
