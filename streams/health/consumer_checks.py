"""Adds the checks of liveness of a process that reads Kafka in one loop: the loop turns, and its inputs are read."""

from collections.abc import Mapping
from typing import Any, Protocol

from streams.health.backlog import Backlog
from streams.health.end_offsets import EndOffsets, Place
from streams.health.health import Health


class ReadingLoop(Protocol):
    """The loop, as its health checks see it."""

    steps: int
    """Counts the steps of the loop; 0 until the first."""

    @property
    def positions(self) -> Mapping[Place, int]:
        """The next offset of each partition that it is to read now; none while it waits for something else."""
        ...


def add_consumer_checks(loop: ReadingLoop, kafka: Mapping[str, Any], health: Health) -> EndOffsets:
    """Add the checks, and return what asks the brokers: its `run` is to run beside the loop.

    Clients of Kafka wait for brokers without a limit, and a consumer that fetches nothing looks like one without
    records.
    """
    ends = EndOffsets(kafka, health, lambda: loop.positions)
    turns = Backlog(health.params.stuck_s, health.now_s)
    inputs = Backlog(health.params.stuck_s, health.now_s)

    def stuck_loop() -> str:
        return turns.problem("the loop", loop.steps, is_waiting=bool(loop.steps) and not ends.problem())

    def stuck_input() -> str:
        positions = {
            f"{topic}/{partition}": (at, topic, partition) for (topic, partition), at in loop.positions.items()
        }
        inputs.retain(positions.keys())
        problems = [
            inputs.problem(name, at, is_waiting=(ends.end_of((topic, partition)) or 0) > at)
            for name, (at, topic, partition) in positions.items()
        ]
        return next(filter(None, problems), "")

    health.live_while("loop", stuck_loop)
    health.live_while("input", stuck_input)
    return ends
