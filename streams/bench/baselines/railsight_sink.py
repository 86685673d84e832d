"""railsight: its real sink, from Kafka to its own tables, each row once.

Runs as `railsight persist` does; the process ends when every message has been acknowledged.
"""

import asyncio
from pathlib import Path

from pydantic import SecretStr

from streams.bench.baselines.task import Tally, Task, run_baseline
from streams.config.kafka import KafkaSettings
from streams.embedded.passwords import read_password
from streams.store.clickhouse import ClickHouse
from streams.store.migrate import apply, shipped_migrations
from streams.store.params import SinkParams, StoreParams
from streams.store.persist.sink import Sink
from streams.wire.topics import SAMPLES

POLL_S = 0.05


async def store(task: Task) -> Tally:
    """Store until every message is stored."""
    clickhouse = ClickHouse(
        StoreParams(url=task.clickhouse, password=SecretStr(read_password(Path(task.clickhouse_password_file))))
    )
    try:
        await asyncio.to_thread(apply, clickhouse, shipped_migrations())
        sink = Sink(clickhouse, KafkaSettings(bootstrap=task.bootstrap).client_options(), SinkParams())
        stop = asyncio.Event()
        storing = asyncio.create_task(sink.run(stop))
        while sink.stats.records[SAMPLES.name] < task.messages and not storing.done():  # noqa: ASYNC110 — its counts set no event
            await asyncio.sleep(POLL_S)
        stop.set()
        await storing
    finally:
        clickhouse.close()
    return Tally.of_all(task)


def run(task: Task) -> Tally:
    """Run the task."""
    return asyncio.run(store(task))


if __name__ == "__main__":
    run_baseline(run)
