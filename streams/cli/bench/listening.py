"""What the benchmark hears from Kafka while the pipeline runs: findings with the time of their coming, and Progress.

A plain consumer of the topics, as a user's automation would be one.
"""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field

from streams.cli.demo.board import StageView
from streams.cli.reading import on_and_on
from streams.config.kafka import KafkaSettings
from streams.wire.errors import Reject, Retry
from streams.wire.models import Finding, Progress
from streams.wire.topics import BY_NAME, FINDINGS, PROGRESS, STAGES, decode

_AGAIN_S = 0.2


@dataclass(slots=True)
class Heard:
    """Every revision with the time at which it came, and how far each stage is."""

    revisions: list[tuple[int, Finding]] = field(default_factory=list)
    stages: dict[str, StageView] = field(default_factory=lambda: {stage: StageView() for stage in STAGES})

    @property
    def lag(self) -> dict[str, int]:
        """Records that each stage has not read."""
        return {stage: view.lag for stage, view in self.stages.items()}

    @property
    def epochs(self) -> dict[int, int]:
        """Who owns each partition of measure."""
        return dict(self.stages["measure"].epochs)


async def listen(kafka: KafkaSettings, heard: Heard) -> None:
    """Hear what is said, for ever."""
    positions: dict[tuple[str, int], int] = {}
    while True:
        with suppress(Retry):
            async for record in on_and_on(kafka, FINDINGS, PROGRESS, positions=positions):
                came_ns = time.time_ns()
                try:
                    message = decode(BY_NAME[record.topic], record.value, record.headers)
                except Reject:
                    continue
                if isinstance(message, Finding):
                    heard.revisions.append((came_ns, message))
                elif isinstance(message, Progress) and message.stage in heard.stages:
                    heard.stages[message.stage].take(message, time.monotonic())
        await asyncio.sleep(_AGAIN_S)
