"""Corrects clients of aiokafka 0.14 where they wait forever, stop, stay open, or retry without a pause.

On an unexpected answer a consumer stops joining its group, its heartbeats and its commits until a poll takes the error.
One example is the answer to a SyncGroup while a broker reads its groups after a full disk. A consumer that is not
polled during a rebalance would wait forever: Faust never takes the error, and the sink polls only while partitions are
assigned. After a failed heartbeat every poll would raise the error again, because only a rejoin starts new heartbeats.
This uses private names of aiokafka; tests/contract/runtime/test_private_names.py checks them.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiokafka.errors import KafkaError, NodeNotReadyError

from streams.wire.errors import Retry
from streams.wire.models import InputLoss
from streams.wire.topics import INPUT_LOSSES, encode

STOP_S = 1.0
"""With brokers a stop takes milliseconds. Records that are not sent by then are sent after the next start."""


async def stop_client(client: Any, within_s: float = STOP_S) -> None:
    """Stop a consumer, a producer or an admin client; what is not stopped after `within_s` is cancelled and closed.

    Without brokers aiokafka waits for them, or its own tasks cancel the stop. Raises nothing.
    """
    stopping = asyncio.ensure_future(client.stop() if hasattr(client, "stop") else client.close())
    try:
        await asyncio.wait({stopping}, timeout=within_s)
    finally:
        if not stopping.cancel() and not stopping.cancelled():
            stopping.exception()  # retrieved, so that asyncio does not log it
        _close(client)


def _close(client: Any) -> None:
    """Cancel the tasks that a stop has left, because they would connect again, and close the connections."""
    connections = getattr(client, "_client", None) or client.client
    fetcher = getattr(client, "_fetcher", None)
    for part in (getattr(client, "_coordinator", None), fetcher, getattr(client, "_sender", None), connections):
        for task in vars(part).values() if part is not None else ():
            if isinstance(task, asyncio.Task):
                task.cancel()
    for task in getattr(fetcher, "_pending_tasks", ()):
        task.cancel()
    for connection in connections._conns.values():  # noqa: SLF001 — see above
        connection.close()


PAUSE_S = 0.5


def throttle_metadata_refresh(producer: Any, pause_s: float = PAUSE_S) -> None:
    """Delay the result of a failed metadata refresh by `pause_s`; a successful refresh is not delayed.

    A broker that shuts down cleanly resigns the leadership of its partitions. The producer (`_sender_routine` of
    producer/sender.py) then requests metadata in a loop until its batches expire after 40 s. Without a listening broker
    each request fails at once, which costs 90 % of a core and 5,000 log lines per second in every process that has
    records to send (tests/integration/collectors/outage.py).
    """
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


@contextmanager
def controller_errors() -> Iterator[None]:
    """Raise NodeNotReadyError while the brokers start and have no controller; aiokafka raises AttributeError."""
    try:
        yield
    except AttributeError as error:
        if error.name != "nodeId":
            raise
        raise NodeNotReadyError("the brokers have no controller yet") from error


def has_group_error(consumer: Any) -> bool:
    """Return whether the coordination of the consumer's group has an untaken error; callable from any thread."""
    return getattr(consumer._coordinator, "_pending_exception", None) is not None  # noqa: SLF001 — see above


def request_rejoin(consumer: Any) -> None:
    """Let the consumer rejoin its group, which revokes its partitions and assigns new ones.

    Call it from the consumer's event loop.
    """
    consumer._coordinator.request_rejoin()  # noqa: SLF001 — see above


def rejoin_after_error(consumer: Any) -> KafkaError | None:
    """Take the error that stopped the coordination, and let it rejoin; return the error, or None.

    Call it from the consumer's event loop.
    """
    if not has_group_error(consumer):
        return None
    request_rejoin(consumer)
    try:
        consumer._coordinator.check_errors()  # noqa: SLF001 — see above
    except KafkaError as error:
        return error
    return None


def ended_task(consumer: Any, producer: Any = None) -> str:
    """Return the background task of these clients that an error ended, with the error; empty if all of them run.

    Nothing restarts such a task. Without its fetches a consumer receives nothing; without its coordination it leaves
    its group. A producer without its deliveries refuses every record. Only a new client helps.
    """
    tasks: dict[str, asyncio.Task[None] | None] = {
        "coordination of the group": getattr(getattr(consumer, "_coordinator", None), "_coordination_task", None),
        "fetches": getattr(getattr(consumer, "_fetcher", None), "error_future", None),
        "deliveries": getattr(getattr(producer, "_sender", None), "sender_task", None),
    }
    for name, task in tasks.items():
        if task is not None and task.done() and not task.cancelled() and (error := task.exception()) is not None:
            return f"the {name} ended by {error!r}"
    return ""


def require_tasks(consumer: Any, producer: Any) -> None:
    """Raise Retry if an error has ended a background task of these clients."""
    if ended := ended_task(consumer, producer):
        raise Retry(f"Kafka client: {ended}")


log = logging.getLogger(__name__)

_SEND_S = 10.0
"""The timeout of publishing a loss, which delays the part's work; the log and the metric have the loss already."""


async def publish_loss(producer: Any, loss: InputLoss) -> None:
    """Send the loss of a part that is not a stage, once; a failure is logged and not retried."""
    record = encode(INPUT_LOSSES, loss)
    try:
        async with asyncio.timeout(_SEND_S):
            await producer.send_and_wait(record.topic.name, record.value, key=record.key, partition=0)
    except (KafkaError, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        log.warning(
            "cannot publish a loss of input: topic=%s: %s; check it with `railsight topics`", record.topic.name, reason
        )
