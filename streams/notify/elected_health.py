"""The health checks of a process of which a consumer group elects one of several: the notifier, the tickets."""

from collections.abc import Mapping
from typing import Any, Protocol

from streams.health.health import Health
from streams.health.input_checks import EndOffsets, ReadingLoop, add_consumer_checks


class ElectedService(ReadingLoop, Protocol):
    """One of several processes; the elected one is active."""

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
    brokers = add_consumer_checks(service, kafka, health)
    health.ready_while("brokers", brokers.problem)
    health.ready_while("election", lambda: "" if service.is_active else "not elected, or taking over")
    health.ready_while("delivery", lambda: "fails and is retried" if service.is_retrying else "")
    health.started()
    return brokers
