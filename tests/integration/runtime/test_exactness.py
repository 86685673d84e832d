"""A fold over Kafka is exact whatever happens to its workers: what is counted is what the log holds."""

import asyncio
import random
import re
import signal
from pathlib import Path

from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.runtime.admin import ensure_topics
from streams.wire.models import Progress, Symptom
from tests.integration.runtime.rig import (
    START_NS,
    TELEMETRY,
    Feed,
    Rig,
    Worker,
    assert_exact,
    event,
    messages_of,
    producing,
    send,
    symptoms_of,
    until,
    working,
)


async def until_it_speaks(rig: Rig, *workers: Worker) -> None:
    """Until there is one more output than now, so that what follows hits a worker at work."""
    before = len(await symptoms_of(rig, rig.symptoms))

    async def spoken() -> bool:
        return len(await symptoms_of(rig, rig.symptoms)) > before

    await until(spoken, 25, "another output", workers=workers)


async def until_logged(worker: Worker, said: str, within_s: float = 25) -> None:
    await until(lambda: said in worker.log.read_text(), within_s, said, workers=[worker])


async def test_killed_workers_lose_and_repeat_nothing(rig: Rig, tmp_path: Path) -> None:
    """A worker killed at random moments, four times, leaves the counts exact."""
    chance = random.Random(7)
    log, env = tmp_path / "log", {"INSTANCE": "one"}
    async with Feed(rig).running():
        for life in range(4):
            with working(rig, log, "measure", env=env) as worker:
                await until_logged(worker, f"epoch {life + 1} ")
                await asyncio.sleep(chance.uniform(0, 1.5))
    with working(rig, log, "measure", env=env) as worker:
        await until_logged(worker, "epoch 5 from a snapshot")
        await assert_exact(rig, 20, worker)


async def test_partitions_move_and_a_paused_worker_does_no_harm(rig: Rig, tmp_path: Path) -> None:
    """A second worker takes a share, then all while the first is paused; the first wakes up and says nothing wrong."""
    with working(rig, tmp_path / "a", "measure") as first:
        async with Feed(rig, per_s=500).running():
            await until_it_speaks(rig, first)
            with working(rig, tmp_path / "b", "measure") as second:
                await until_logged(second, "epoch 2 ")
                await until_it_speaks(rig, first, second)
                first.signal(signal.SIGSTOP)
                # Its partitions go to the second once its session is over.
                await until(lambda: len(owned(second)) == TELEMETRY, 25, "all partitions", workers=[second])
                await until_it_speaks(rig, second)
                first.signal(signal.SIGCONT)
                await until(lambda: "epoch 4 " in both_logs(first, second), 25, "a rejoin", workers=[first, second])
                await until_it_speaks(rig, first, second)
                second.kill()
        await assert_exact(rig, 25, first)


def owned(worker: Worker) -> set[str]:
    """The partitions that a worker took over at least once."""
    return set(re.findall(r"measure/(\d+): epoch", worker.log.read_text()))


def both_logs(*workers: Worker) -> str:
    return "".join(worker.log.read_text() for worker in workers)


async def test_a_stop_is_quick_and_leaves_nothing_to_repeat(rig: Rig, tmp_path: Path) -> None:
    """SIGTERM ends a worker within 3 s with 0; all that it had read is then acknowledged and in its snapshot."""
    with working(rig, tmp_path / "log", "measure") as worker:
        async with Feed(rig).running():
            await until_it_speaks(rig, worker)
        await assert_exact(rig, 10, worker)
        code, took_s = worker.terminate()
    assert (code, took_s < 3) == (0, True), worker.log.read_text()[-2000:]
    before = await said_of(rig)
    with working(rig, tmp_path / "log", "measure") as worker:
        await until(lambda: progress_names(rig, 2, TELEMETRY), 20, "progress of all", workers=[worker])
    assert await said_of(rig) == before


async def said_of(rig: Rig) -> int:
    """How many symptoms were said, repeats included."""
    return sum(isinstance(message, Symptom) for message in await messages_of(rig, rig.symptoms))


async def progress_names(rig: Rig, epoch: int, partitions: int) -> bool:
    """Whether all partitions have said how far they are, in an epoch."""
    said = [message for message in await messages_of(rig, rig.progress) if isinstance(message, Progress)]
    return len({message.partition for message in said if message.epoch == epoch}) == partitions


async def test_a_broker_that_dies_and_returns_costs_nothing(tmp_path: Path) -> None:
    """The broker is killed under a worker at work and comes back: nothing is missing, and no output contradicts."""
    with EmbeddedKafka(KafkaParams(data=tmp_path / "kafka")) as broker:
        rig = Rig("rig", broker.bootstrap)
        await ensure_topics(rig.kafka, rig.wiring.topics)
        with working(rig, tmp_path / "log", "measure") as worker:
            async with Feed(rig, per_s=500).running():
                await until_it_speaks(rig, worker)
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.restart)
                await until_it_speaks(rig, worker)
            await assert_exact(rig, 25, worker)
            assert worker.process.poll() is None


async def test_a_backlog_of_two_inputs_is_read_in_one_order(rig: Rig, tmp_path: Path) -> None:
    """A busy and a quiet input are folded in the order in which the broker took their records, kill or not."""
    async with producing(rig) as producer:
        for turn in range(40):
            busy = [
                await send(producer, rig, rig.events, event(device, turn * 100 + number, START_NS))
                for number in range(100)
                for device in ("d1", "d2", "d3")
            ]
            await asyncio.gather(*busy)
            await (await send(producer, rig, rig.more, event("d1", 1_000_000, START_NS)))
    env = {"INSTANCE": "one"}
    with working(rig, tmp_path / "log", "measure", env=env) as worker:
        await until_it_speaks(rig, worker)
    with working(rig, tmp_path / "log", "measure", env=env) as worker:
        await assert_exact(rig, 20, worker)
