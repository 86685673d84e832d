"""Delays the metadata refresh of aiokafka's producer after a failure, because it retries without a backoff.

A broker that shuts down cleanly resigns the leadership of its partitions. The producer of aiokafka 0.14
(`_sender_routine` of producer/sender.py) then requests metadata in a loop until its batches expire after 40 s. Without
a listening broker each request fails at once: 90 % of a core and 5,000 log lines per second in every process that has
records to send (tests/bench/outage.py).
"""

import asyncio
from typing import Any

PAUSE_S = 0.5


def throttle_metadata_refresh(producer: Any, pause_s: float = PAUSE_S) -> None:
    """Delay the result of a failed metadata refresh by `pause_s`; a successful refresh is not delayed."""
    client = producer.client
    refresh = client.force_metadata_update

    def throttled_refresh() -> "asyncio.Future[bool]":
        loop = asyncio.get_running_loop()
        result: asyncio.Future[bool] = loop.create_future()

        def on_done(refreshed: "asyncio.Future[bool]") -> None:
            if refreshed.cancelled():
                result.cancel()
            elif (error := refreshed.exception()) is not None:
                loop.call_later(pause_s, _settle, result, error)
            else:
                loop.call_later(0.0 if refreshed.result() else pause_s, _settle, result, refreshed.result())

        asyncio.ensure_future(refresh()).add_done_callback(on_done)
        return result

    client.force_metadata_update = throttled_refresh


def _settle(future: "asyncio.Future[bool]", result: bool | BaseException) -> None:
    if future.done():  # cancelled by the caller
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
