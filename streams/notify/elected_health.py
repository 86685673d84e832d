"""The health checks of a process of which a consumer group elects one of several: the notifier, the tickets."""

from collections.abc import Mapping
from typing import Any, Protocol

from streams.health.backlog import Backlog
from streams.health.end_offsets import EndOffsets
from streams.health.health import Health


class ElectedService(Protocol):
    """One of several processes; the elected one is active."""

    steps: int
    """Counts the steps of its loop, and the records that it processed."""

    async def run(self) -> None:
        """Run until cancelled; raises Retry at the start while Kafka or a topic is missing."""
        ...

    @property
    def is_active(self) -> bool:
        """True if it is elected and has restored its state."""
        ...

    @property
    def is_retrying(self) -> bool:
        """True while a delivery fails and is repeated."""
        ...


def add_checks(service: ElectedService, kafka: Mapping[str, Any], health: Health) -> EndOffsets:
    """Add the checks of a service, and return what asks the brokers: its `run` is to run beside the service."""
    brokers = EndOffsets(kafka, health, lambda: ())
    backlog = Backlog(health.params.stuck_s, health.now_s)

    def stuck_loop() -> str:
        # Clients of Kafka wait for brokers without a limit.
        return backlog.problem("the loop", service.steps, is_waiting=bool(service.steps) and not brokers.problem())

    health.live_while("loop", stuck_loop)
    health.ready_while("brokers", brokers.problem)
    health.ready_while("election", lambda: "" if service.is_active else "not elected, or taking over")
    health.ready_while("delivery", lambda: "fails and is retried" if service.is_retrying else "")
    health.started()
    return brokers
