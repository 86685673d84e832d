"""railsight: its real `measure` stage in its real runner, with snapshots, progress and acknowledgements.

Runs as `railsight process measure` does; an added consumer reads the stage's Progress, so that the process ends when
all messages are read. It does more than the step: gauges, restarts, late and silent devices, and state that survives
a kill; at its end it writes a snapshot of everything, as it does every 30 s.
"""

import asyncio
import time
from pathlib import Path

from aiokafka import AIOKafkaConsumer

from streams.bench.baselines.task import Tally, Task, run_baseline
from streams.config.kafka import KafkaSettings
from streams.config.runtime import RuntimeSettings
from streams.config.settings import Settings
from streams.config.stages import stage_factory
from streams.health.health import Health
from streams.health.params import HealthParams
from streams.runtime.log_throttle import install
from streams.runtime.serve import StageSet, serve
from streams.runtime.wall_clock import WallClock
from streams.wire.models import Progress
from streams.wire.topics import PROGRESS, decode

NO_SILENCE_S = 3600.0
"""The log is read long after it was written; no device counts as silent because of that."""


async def until_read(task: Task) -> None:
    """Return once the stage reports that it has read every message."""
    read: dict[int, int] = {}
    async with AIOKafkaConsumer(
        PROGRESS.name, bootstrap_servers=task.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        async for record in consumer:
            progress = decode(PROGRESS, record.value, record.headers)
            if isinstance(progress, Progress):
                read[progress.partition] = progress.records
            if sum(read.values()) >= task.messages:
                return


async def measure(task: Task) -> Tally:
    """Run the stage until every message is read."""
    stop = asyncio.Event()
    kafka = KafkaSettings(bootstrap=task.bootstrap)
    runtime = RuntimeSettings(inventory_wait_s=0, settle_s=NO_SILENCE_S, data=Path(task.folder))
    stages = {"measure": stage_factory("measure", Settings(kafka=kafka, runtime=runtime))}
    health = Health(HealthParams(), time.monotonic)
    serving = asyncio.create_task(
        serve(stages, kafka, runtime, stop, wiring=StageSet(), clock=WallClock(), health=health)
    )
    watching = asyncio.create_task(until_read(task))
    await asyncio.wait((serving, watching), return_when=asyncio.FIRST_COMPLETED)
    stop.set()
    await serving
    watching.result()
    return Tally.of_all(task)


def run(task: Task) -> Tally:
    """Run the task."""
    import uvloop

    install()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(measure(task))


if __name__ == "__main__":
    run_baseline(run)
