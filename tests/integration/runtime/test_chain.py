"""Two stages one behind the other on Kafka: event time reaches the second, and bad input stops neither."""

import asyncio
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

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
    Rig,
    Worker,
    event,
    messages_of,
    producing,
    send,
    symptoms_of,
    until,
    working,
)

SECOND = 10**9
BOTH = ("measure", "correlate")
DEVICES = [f"d{number}" for number in range(8)]


async def send_seconds(rig: Rig, producer: AIOKafkaProducer, first: int, last: int) -> None:
    """Ten events a device and second, evenly spaced: one symptom of the first stage a second."""
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


async def until_windows(rig: Rig, seconds: int, *workers: Worker) -> dict[tuple[str, str], set[Symptom]]:
    """Until the second stage has closed so many windows of each device."""

    async def closed() -> dict[tuple[str, str], set[Symptom]] | None:
        found = await symptoms_of(rig, rig.windows)
        return found if len(found) >= seconds * len(DEVICES) else None

    found: dict[tuple[str, str], set[Symptom]] = await until(closed, 25, f"{seconds} windows", workers=workers)
    return found


async def test_event_time_reaches_the_second_stage_through_a_kill(rig: Rig, tmp_path: Path) -> None:
    """Windows close by the watermark of all partitions, with all that belongs in them, and once, kill or not."""
    log, env = tmp_path / "log", {"INSTANCE": "one"}
    async with producing(rig) as producer:
        with working(rig, log, *BOTH, env=env) as worker:
            await send_seconds(rig, producer, 0, 5)
            await until_windows(rig, 4, worker)
        await send_seconds(rig, producer, 5, 10)
        with working(rig, log, *BOTH, env=env) as worker:
            windows = await until_windows(rig, 9, worker)
    assert {len(said) for said in windows.values()} == {1}, "one window was closed twice, differently"
    counts = {count_of(said) for all_said in windows.values() for said in all_said}
    assert counts == {1}, "a window was closed before its symptoms had come"
    said = [m for m in await messages_of(rig, rig.progress) if isinstance(m, Progress)]
    assert {(m.stage, m.partition) for m in said} == {
        *(("measure", partition) for partition in range(TELEMETRY)),
        *(("correlate", partition) for partition in range(PODS)),
    }
    assert {m.epoch for m in said} == {1, 2}


async def test_poison_is_rejected_by_name_and_the_partition_goes_on(rig: Rig, tmp_path: Path) -> None:
    """A record that cannot be read goes to the rejected topic with where it stood, and what follows is counted."""
    async with producing(rig) as producer:
        for device in DEVICES:
            where = topics.partition_of(device, TELEMETRY)
            await producer.send_and_wait(rig.events.name, b"\xffnot a message" * 1000, key=b"k", partition=where)
        with working(rig, tmp_path / "log", *BOTH) as worker:
            await send_seconds(rig, producer, 0, 3)
            await until_windows(rig, 2, worker)
    rejected = [m for m in await messages_of(rig, topics.REJECTED) if isinstance(m, Rejected)]
    ours = {(m.partition, m.offset): m for m in rejected if m.topic == rig.events.name}
    assert len(ours) == len(DEVICES)
    assert all(
        m.stage == "measure" and m.reason.startswith("not a Event") and len(m.value) == 4096 for m in ours.values()
    )


async def test_an_inventory_takes_effect_at_its_time_in_every_partition(rig: Rig, tmp_path: Path) -> None:
    """What was said before the effective time was said under the old version, what came after under the new."""
    old, new = (Inventory(devices=(Device(name=name, kind="switch", tier="T0"),)) for name in ("old", "new"))
    async with producing(rig) as producer:
        for inventory, effective_ns in ((old, 0), (new, START_NS + 3 * SECOND)):
            for chunk in to_chunks(inventory, effective_ns):
                await (await send(producer, rig, rig.inventory, chunk))
        with working(rig, tmp_path / "log", "measure", env={"INVENTORY_WAIT_S": "20"}) as worker:
            await send_seconds(rig, producer, 0, 8)

            async def all_said() -> bool:
                return len(await symptoms_of(rig, rig.symptoms)) == 8 * len(DEVICES)

            await until(all_said, 20, "all symptoms", workers=[worker])
    for (_, block), said in (await symptoms_of(rig, rig.symptoms)).items():
        # Block n ends with the last tenth of second n - 1.
        assert {symptom.payload.message for symptom in said if isinstance(symptom.payload, GpuXid)} == {
            digest(old if int(block) <= 3 else new)
        }


async def test_topics_of_another_width_are_refused_by_name(rig: Rig) -> None:
    """A topic with another number of partitions than configured is named with both numbers."""
    wider = rig.kafka.model_copy(update={"telemetry_partitions": 5})
    with pytest.raises(Misconfigured, match=f"{rig.events.name} has 4 partitions, 5 are configured"):
        await ensure_topics(wider, rig.wiring.topics)
    states = await list_topics(rig.kafka, rig.wiring.topics)
    assert {state.partitions for state in states} == {1, PODS, TELEMETRY}
    assert not any(state.created for state in await ensure_topics(rig.kafka, rig.wiring.topics))
