"""Event time reaches the second of two stages on Kafka, and invalid input stops neither stage."""

import asyncio
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from streams.fabric.inventory import Device, Inventory, digest
from streams.runtime.admin import ensure_topics, list_topics
from streams.wire import topics
from streams.wire.errors import Misconfigured
from streams.wire.inventory_topic import to_chunks
from streams.wire.models import Progress, Rejected, Symptom
from streams.wire.symptoms import GpuXid
from tests.fakes.stages import BLOCK, count_of
from tests.integration.runtime.rig import (
    PODS,
    START_NS,
    TELEMETRY,
    PipelineRig,
    Worker,
    event,
    read_messages,
    read_symptoms,
    running_worker,
    send,
    started_producer,
    wait_until,
)

SECOND = 10**9
BOTH = ("measure", "correlate")
DEVICES = [f"d{number}" for number in range(8)]


async def send_seconds(rig: PipelineRig, producer: AIOKafkaProducer, first: int, last: int) -> None:
    """Send ten evenly spaced events per device and second, which make one symptom of the first stage per second."""
    deliveries = [
        await send(
            producer,
            rig,
            rig.events,
            event(device, second * BLOCK + tenth, START_NS + (second * 10 + tenth) * SECOND // 10),
        )
        for second in range(first, last)
        for tenth in range(BLOCK)
        for device in DEVICES
    ]
    await asyncio.gather(*deliveries)


async def wait_for_windows(rig: PipelineRig, seconds: int, *workers: Worker) -> dict[tuple[str, str], set[Symptom]]:
    """Wait until the second stage has closed this number of windows of each device, and return them."""

    async def closed() -> dict[tuple[str, str], set[Symptom]] | None:
        found = await read_symptoms(rig, rig.windows)
        return found if len(found) >= seconds * len(DEVICES) else None

    found: dict[tuple[str, str], set[Symptom]] = await wait_until(closed, 25, f"{seconds} windows", workers=workers)
    return found


async def test_event_time_reaches_the_second_stage_through_a_kill(rig: PipelineRig, tmp_path: Path) -> None:
    """With and without a kill, each window closes once, by the watermark of all partitions, with all its symptoms."""
    log, env = tmp_path / "log", {"INSTANCE": "one"}
    async with started_producer(rig) as producer:
        with running_worker(rig, log, *BOTH, env=env) as worker:
            await send_seconds(rig, producer, 0, 5)
            await wait_for_windows(rig, 4, worker)
        await send_seconds(rig, producer, 5, 10)
        with running_worker(rig, log, *BOTH, env=env) as worker:
            windows = await wait_for_windows(rig, 9, worker)
    assert {len(symptoms) for symptoms in windows.values()} == {1}, (
        "one window was closed twice, with different results"
    )
    counts = {count_of(symptom) for symptoms in windows.values() for symptom in symptoms}
    assert counts == {1}, "a window was closed before its symptoms had arrived"
    progress = [m for m in await read_messages(rig, rig.progress) if isinstance(m, Progress)]
    assert {(m.stage, m.partition) for m in progress} == {
        *(("measure", partition) for partition in range(TELEMETRY)),
        *(("correlate", partition) for partition in range(PODS)),
    }
    assert {m.epoch for m in progress} == {1, 2}


async def test_an_unreadable_record_is_rejected_and_the_partition_continues(rig: PipelineRig, tmp_path: Path) -> None:
    """It goes to the rejected topic with its partition and offset, and the records after it are counted."""
    async with started_producer(rig) as producer:
        for device in DEVICES:
            partition = topics.partition_of(device, TELEMETRY)
            await producer.send_and_wait(rig.events.name, b"\xffnot a message" * 1000, key=b"k", partition=partition)
        with running_worker(rig, tmp_path / "log", *BOTH) as worker:
            await send_seconds(rig, producer, 0, 3)
            await wait_for_windows(rig, 2, worker)
    rejected = [m for m in await read_messages(rig, topics.REJECTED) if isinstance(m, Rejected)]
    rejected_events = {(m.partition, m.offset): m for m in rejected if m.topic == rig.events.name}
    assert len(rejected_events) == len(DEVICES)
    assert all(
        m.stage == "measure" and m.reason.startswith("not a Event") and len(m.value) == 4096
        for m in rejected_events.values()
    )


async def test_an_inventory_takes_effect_at_its_time_in_every_partition(rig: PipelineRig, tmp_path: Path) -> None:
    """Symptoms before the effective time have the old version, and symptoms after it the new one."""
    old, new = (Inventory(devices=(Device(name=name, kind="switch", tier="T0"),)) for name in ("old", "new"))
    async with started_producer(rig) as producer:
        for inventory, effective_ns in ((old, 0), (new, START_NS + 3 * SECOND)):
            for chunk in to_chunks(inventory, effective_ns):
                await (await send(producer, rig, rig.inventory, chunk))
        with running_worker(rig, tmp_path / "log", "measure", env={"INVENTORY_WAIT_S": "20"}) as worker:
            await send_seconds(rig, producer, 0, 8)

            async def all_received() -> bool:
                return len(await read_symptoms(rig, rig.symptoms)) == 8 * len(DEVICES)

            await wait_until(all_received, 20, "all symptoms", workers=[worker])
    for (_, block), symptoms in (await read_symptoms(rig, rig.symptoms)).items():
        # Block n ends with the last tenth of second n - 1.
        assert {symptom.payload.message for symptom in symptoms if isinstance(symptom.payload, GpuXid)} == {
            digest(old if int(block) <= 3 else new)
        }


async def test_topics_with_another_number_of_partitions_are_rejected(rig: PipelineRig) -> None:
    """The error names the topic, its number of partitions and the configured number."""
    wider = rig.kafka.model_copy(update={"telemetry_partitions": 5})
    with pytest.raises(Misconfigured, match=f"{rig.events.name}: 4 partitions, 5 are configured"):
        await ensure_topics(wider, rig.wiring.topics)
    states = await list_topics(rig.kafka, rig.wiring.topics)
    assert {state.partitions for state in states} == {1, PODS, TELEMETRY}
    assert not any(state.created for state in await ensure_topics(rig.kafka, rig.wiring.topics))


async def test_a_topic_with_the_time_of_producers_is_rejected(rig: PipelineRig) -> None:
    """Silence is judged by the time of arrival, which only the brokers know."""
    admin = AIOKafkaAdminClient(**rig.kafka.client_options())
    await admin.start()
    try:
        setting = {"message.timestamp.type": "CreateTime"}
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, rig.events.name, setting)])
    finally:
        await admin.close()

    async def applied() -> bool:
        return any(state.problem for state in await list_topics(rig.kafka, rig.wiring.topics))

    await wait_until(applied, 20, "the setting in effect")
    with pytest.raises(Misconfigured) as refused:
        await ensure_topics(rig.kafka, rig.wiring.topics)
    assert str(refused.value) == f"{rig.events.name}: message.timestamp.type is CreateTime, it must be LogAppendTime"
