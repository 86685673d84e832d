"""Has aiokafka's producer wait before it asks again who leads a partition, where nobody could tell.

A broker that goes down in good order says of each partition that it leads it no more. The producer of aiokafka 0.14
(`_sender_routine` of producer/sender.py) then asks for metadata again and again until its batches expire after 40 s,
and where nothing listens each question fails at once: 90 % of a core and 5,000 lines of log a second, of every
process that has something to send (tests/bench/outage.py).
"""

import asyncio
from typing import Any

PAUSE_S = 0.5


def throttle_metadata_refresh(producer: Any, pause_s: float = PAUSE_S) -> None:
    """Let a question for metadata that failed be answered `pause_s` later; one that was answered is not held up."""
    client = producer.client
    ask = client.force_metadata_update

    def ask_patiently() -> "asyncio.Future[bool]":
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bool] = loop.create_future()

        def told(asked: "asyncio.Future[bool]") -> None:
            if asked.cancelled():
                answer.cancel()
            elif (error := asked.exception()) is not None:
                loop.call_later(pause_s, _settle, answer, error)
            else:
                loop.call_later(0.0 if asked.result() else pause_s, _settle, answer, asked.result())

        asyncio.ensure_future(ask()).add_done_callback(told)
        return answer

    client.force_metadata_update = ask_patiently


def _settle(answer: "asyncio.Future[bool]", result: bool | BaseException) -> None:
    if answer.done():  # nobody waits any more
        return
    if isinstance(result, BaseException):
        answer.set_exception(result)
    else:
        answer.set_result(result)
