"""What the benchmark hears from Kafka while the pipeline runs: findings with the time of their coming, and Progress.

A plain consumer of the topics, as a user's automation would be one.
"""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from streams.cli.reading import on_and_on
from streams.config.kafka import KafkaSettings
from streams.demo.board import StageView
from streams.wire.errors import Reject, Retry
from streams.wire.models import Finding, Progress
from streams.wire.topics import BY_NAME, FINDINGS, PROGRESS, STAGES, Topic, decode

_AGAIN_S = 0.2
_PAUSE_S = 0.25
"""Stages say their progress some twenty times a second; each fetch of it is the broker's CPU, counted as its own."""
_FETCHED_S = 0.02
"""What was fetched together is taken faster than this."""


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
    """Hear what is said, for ever: findings as they come, Progress a few times a second."""
    await asyncio.gather(_listen(kafka, heard, FINDINGS, 0.0), _listen(kafka, heard, PROGRESS, _PAUSE_S))


async def _listen(kafka: KafkaSettings, heard: Heard, topic: Topic, pause_s: float) -> None:
    positions: dict[tuple[str, int], int] = {}
    paused_s = 0.0
    while True:
        with suppress(Retry):
            async for record in on_and_on(kafka, topic, positions=positions):
                _take(heard, record)
                if pause_s and time.monotonic() - paused_s > _FETCHED_S:
                    await asyncio.sleep(pause_s)
                    paused_s = time.monotonic()
        await asyncio.sleep(_AGAIN_S)


def _take(heard: Heard, record: Any) -> None:
    came_ns = time.time_ns()
    with suppress(Reject):
        message = decode(BY_NAME[record.topic], record.value, record.headers)
        if isinstance(message, Finding):
            heard.revisions.append((came_ns, message))
        elif isinstance(message, Progress) and message.stage in heard.stages:
            heard.stages[message.stage].take(message, time.monotonic())
