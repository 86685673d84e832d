"""Lets a consumer join its group again after an error at which aiokafka's coordination of the group stops.

aiokafka 0.14 stops joining, heartbeats and commits at each answer that it does not expect, for example to a SyncGroup
while a broker reads its groups after a full disk, until a poll takes the error. A consumer that is not polled during a
rebalance would wait for ever: Faust never takes the error, and the sink polls only while partitions are assigned.
After a heartbeat that failed every poll would raise the error again, because only joining again starts new heartbeats.
This uses private names of aiokafka; tests/contract/runtime/test_private_names.py checks them.
"""

from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError

from streams.wire.errors import Retry

if TYPE_CHECKING:
    import asyncio


def has_group_error(consumer: Any) -> bool:
    """Return whether the coordination of the consumer's group waits for its error to be taken; for any thread."""
    return getattr(consumer._coordinator, "_pending_exception", None) is not None  # noqa: SLF001 — see above


def request_rejoin(consumer: Any) -> None:
    """Let the consumer join its group again, which revokes its partitions and assigns those that it is given.

    To be called from the consumer's event loop.
    """
    consumer._coordinator.request_rejoin()  # noqa: SLF001 — see above


def rejoin_after_error(consumer: Any) -> KafkaError | None:
    """Take the error at which the coordination stopped, and let it join again; return the error, None without one.

    To be called from the consumer's event loop.
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
    """Return which background task of these clients an error has ended, with the error; empty if all of them run.

    Nothing restarts such a task. Without its fetches a consumer receives nothing, without its coordination it leaves
    its group, and a producer without its deliveries refuses every record. Only a new client helps.
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
