"""The counts of a stage match the records in Kafka exactly, through kills, pauses and restarts of its workers."""

import asyncio
import random
import re
import signal
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient

from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.runtime.admin import ensure_topics
from streams.wire import topics
from streams.wire.models import Progress, SnapshotChunk, Symptom
from tests.fakes.stages import BLOCK
from tests.integration.runtime.rig import (
    START_NS,
    TELEMETRY,
    EventSender,
    PipelineRig,
    Worker,
    assert_exact,
    event,
    read_messages,
    read_records,
    read_symptoms,
    running_worker,
    send,
    started_producer,
    wait_until,
)


async def wait_for_output(rig: PipelineRig, *workers: Worker) -> None:
    """Wait for another output, so that the next step of the test meets a busy worker."""
    before = len(await read_symptoms(rig, rig.symptoms))

    async def has_new_output() -> bool:
        return len(await read_symptoms(rig, rig.symptoms)) > before

    await wait_until(has_new_output, 25, "another output", workers=workers)


async def wait_for_log(worker: Worker, text: str, within_s: float = 25) -> None:
    await wait_until(lambda: text in worker.log.read_text(), within_s, text, workers=[worker])


async def test_killed_workers_lose_and_repeat_no_record(rig: PipelineRig, tmp_path: Path) -> None:
    """A worker killed at random moments, four times, leaves the counts exact; the last one had a snapshot."""
    generator = random.Random(7)
    log, env = tmp_path / "log", {"INSTANCE": "one"}

    async def has_snapshot() -> bool:
        topic = rig.wiring.bindings["measure"].snapshots
        records = [record for record in await read_records(rig, topic) if record.value]
        chunks = [topics.decode(topic, record.value, record.headers) for record in records]
        return any(isinstance(chunk, SnapshotChunk) and chunk.data for chunk in chunks)

    async with EventSender(rig).running():
        for run in range(4):
            with running_worker(rig, log, "measure", env=env) as worker:
                await wait_for_log(worker, f"epoch {run + 1} ")
                if run == 3:
                    await wait_until(has_snapshot, 25, "a snapshot", workers=[worker])
                await asyncio.sleep(generator.uniform(0, 1.5))
    with running_worker(rig, log, "measure", env=env) as worker:
        await wait_for_log(worker, "epoch 5 from a snapshot")
        await assert_exact(rig, 20, worker)


async def test_a_rebalance_and_a_paused_worker_leave_the_counts_exact(rig: PipelineRig, tmp_path: Path) -> None:
    """A second worker owns some, then all partitions while the first is paused; the first then emits nothing wrong."""
    with running_worker(rig, tmp_path / "a", "measure") as first:
        async with EventSender(rig, per_s=500).running():
            await wait_for_output(rig, first)
            with running_worker(rig, tmp_path / "b", "measure") as second:
                await wait_for_log(second, "epoch 2 ")
                await wait_for_output(rig, first, second)
                first.send_signal(signal.SIGSTOP)
                # The second worker takes over its partitions after the session timeout.
                await wait_until(
                    lambda: len(taken_over_partitions(second)) == TELEMETRY, 25, "all partitions", workers=[second]
                )
                await wait_for_output(rig, second)
                first.send_signal(signal.SIGCONT)
                await wait_until(
                    lambda: "epoch 4 " in joined_logs(first, second), 25, "a rejoin", workers=[first, second]
                )
                await wait_for_output(rig, first, second)
                second.kill()
        await assert_exact(rig, 25, first)
    for partition, epochs in (await epochs_in_order(rig)).items():
        assert epochs == sorted(epochs), f"an owner of partition {partition} sent behind its successor"


async def test_a_worker_joins_its_group_again_after_an_unexpected_error(rig: PipelineRig, tmp_path: Path) -> None:
    """The client of Kafka would wait for ever for someone to take the error."""
    with running_worker(rig, tmp_path / "a", "measure", env={"REFUSED_SYNCS": "2"}) as worker:
        async with EventSender(rig, per_s=500).running():
            await wait_for_output(rig, worker)
        await assert_exact(rig, 25, worker)
    assert f"joining the group railsight.{rig.prefix}.measure again after: " in worker.log.read_text()


async def test_the_only_worker_continues_after_a_pause(rig: PipelineRig, tmp_path: Path) -> None:
    """No other worker is there, and the brokers may not have noticed: the worker takes over from its own snapshot."""
    with running_worker(rig, tmp_path / "a", "measure") as worker:
        async with EventSender(rig, per_s=500).running():
            await wait_for_output(rig, worker)
            worker.send_signal(signal.SIGSTOP)
            await asyncio.sleep(rig.session_s + 1)
            worker.send_signal(signal.SIGCONT)
            await wait_for_log(worker, "epoch 2 ")
            await wait_for_output(rig, worker)
        await assert_exact(rig, 25, worker)
    assert "stopped for longer than half the session" in worker.log.read_text()


def taken_over_partitions(worker: Worker) -> set[str]:
    """Return the partitions that a worker took over at least once."""
    return set(re.findall(r"measure/(\d+): epoch", worker.log.read_text()))


async def epochs_in_order(rig: PipelineRig) -> dict[tuple[int, int], list[int]]:
    """Return the epochs of Progress in the order of the log, by partition of symptoms and owned partition."""
    found: dict[tuple[int, int], list[int]] = {}
    for record in await read_records(rig, rig.symptoms):
        message = topics.decode(rig.symptoms, record.value, record.headers)
        if isinstance(message, Progress):
            found.setdefault((record.partition, message.partition), []).append(message.epoch)
    return found


def joined_logs(*workers: Worker) -> str:
    return "".join(worker.log.read_text() for worker in workers)


async def test_a_stop_ends_and_a_restart_repeats_nothing(rig: PipelineRig, tmp_path: Path) -> None:
    """SIGTERM ends a worker with 0; the input that it read is acknowledged and in its snapshot."""
    with running_worker(rig, tmp_path / "log", "measure") as worker:
        async with EventSender(rig).running():
            await wait_for_output(rig, worker)
        await assert_exact(rig, 10, worker)
        assert worker.terminate() == 0, worker.log.read_text()[-2000:]
    before = await count_symptoms(rig)
    with running_worker(rig, tmp_path / "log", "measure") as worker:
        await wait_until(lambda: all_have_progress(rig, 2, TELEMETRY), 20, "progress of all", workers=[worker])
    assert await count_symptoms(rig) == before


async def count_symptoms(rig: PipelineRig) -> int:
    """Return the number of emitted symptoms, repeats included."""
    return sum(isinstance(message, Symptom) for message in await read_messages(rig, rig.symptoms))


async def all_have_progress(rig: PipelineRig, epoch: int, partitions: int) -> bool:
    """Return whether all partitions have sent a Progress in this epoch."""
    progress = [message for message in await read_messages(rig, rig.progress) if isinstance(message, Progress)]
    return len({message.partition for message in progress if message.epoch == epoch}) == partitions


async def test_a_broker_restart_loses_no_output(tmp_path: Path) -> None:
    """The broker is killed and restarted while a worker is busy: no output is missing, and none contradicts."""
    with EmbeddedKafka(KafkaParams(data=tmp_path / "kafka")) as broker:
        rig = PipelineRig("rig", broker.bootstrap)
        await ensure_topics(rig.kafka, rig.wiring.topics)
        with running_worker(rig, tmp_path / "log", "measure") as worker:
            async with EventSender(rig, per_s=500).running():
                await wait_for_output(rig, worker)
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.restart)
                await wait_for_output(rig, worker)
            await assert_exact(rig, 25, worker)
            assert worker.process.poll() is None


async def test_a_backlog_of_two_inputs_is_read_in_a_single_order(rig: PipelineRig, tmp_path: Path) -> None:
    """A busy and a quiet input are processed in the order in which the broker stored their records, despite a kill."""
    async with started_producer(rig) as producer:
        for turn in range(40):
            busy = [
                await send(producer, rig, rig.events, event(device, turn * 100 + number, START_NS))
                for number in range(100)
                for device in ("d1", "d2", "d3")
            ]
            await asyncio.gather(*busy)
            await (await send(producer, rig, rig.extra_events, event("d1", 1_000_000, START_NS)))
    env = {"INSTANCE": "one"}
    with running_worker(rig, tmp_path / "log", "measure", env=env) as worker:
        await wait_for_output(rig, worker)
    with running_worker(rig, tmp_path / "log", "measure", env=env) as worker:
        await assert_exact(rig, 20, worker)


async def test_a_stop_ends_while_the_brokers_are_away(tmp_path: Path) -> None:
    """SIGTERM ends a worker also if nothing that it has in hand can be sent; it reports that."""
    with EmbeddedKafka(KafkaParams(data=tmp_path / "kafka")) as broker:
        rig = PipelineRig("rig", broker.bootstrap)
        await ensure_topics(rig.kafka, rig.wiring.topics)
        with running_worker(rig, tmp_path / "log", "measure") as worker:
            async with EventSender(rig, per_s=500).running():
                await wait_for_output(rig, worker)
            await asyncio.to_thread(broker.kill)
            worker.process.terminate()
            assert await asyncio.to_thread(worker.process.wait, 60) == 0, worker.log.read_text()[-3000:]


async def test_a_topic_that_is_created_again_is_read_from_its_beginning(rig: PipelineRig, tmp_path: Path) -> None:
    """Its offsets begin below those of the state: a running worker ends, and the next one passes nothing over."""

    async def send_of(device: str, count: int = 2 * BLOCK) -> None:
        async with started_producer(rig) as producer:
            for number in range(count):
                await (await send(producer, rig, rig.events, event(device, number, START_NS + number)))

    async def has_symptom(device: str) -> bool:
        return (device, "2") in await read_symptoms(rig, rig.symptoms)

    with running_worker(rig, tmp_path / "a", "measure") as worker:
        for device in ("old-1", "old-2", "old-3", "old-4", "old-5", "old-6"):
            await send_of(device)
        await wait_until(lambda: has_symptom("old-6"), 30, "the first symptoms", workers=[worker])
        # Its last act is a snapshot of all that it read, which a topic deleted right after a symptom may precede.
        worker.terminate()
    with running_worker(rig, tmp_path / "b", "measure") as worker:
        await wait_until(
            lambda: worker.log.read_text().count(": epoch ") >= TELEMETRY, 30, "all partitions", workers=[worker]
        )
        admin = AIOKafkaAdminClient(**rig.kafka.client_options())
        await admin.start()
        try:
            await admin.delete_topics([rig.events.name])
        finally:
            await admin.close()
        await ensure_topics(rig.kafka, rig.wiring.topics)
        await send_of("old-6", 1)
        await wait_until(lambda: worker.process.poll() is not None, 60, "an end", workers=[worker])
    with running_worker(rig, tmp_path / "c", "measure") as worker:
        await wait_for_log(worker, "a topic was created again, reading from its start")
        await send_of("new")
        await wait_until(lambda: has_symptom("new"), 30, "symptoms of the new topic", workers=[worker])
