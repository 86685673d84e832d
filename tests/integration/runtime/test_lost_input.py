"""Retention overtakes the stages and the sink: the losses are counted exactly, reported, and what is open resolves."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.records_to_delete import RecordsToDelete
from aiokafka.errors import KafkaError

from lab.chaos.load import Fabric, Load, subject_id
from lab.chaos.reader import KafkaReader
from lab.chaos.stack import CONSTANTS, SINK, WORKERS, Stack
from lab.chaos.verdict import newest_revisions
from lab.constants import command_with
from streams.fabric.catalogue import Metric
from streams.runtime.topic_io import read_to_end
from streams.wire.models import NO_INDEX, InputLoss, Samples, Source, Table
from streams.wire.topics import EVENTS, INPUT_LOSSES, STAGES, SYMPTOMS, Topic, decode, encode, partition_of

pytestmark = pytest.mark.timeout(600)

_BOUND_S = 150.0
PCIE = (
    Metric.PCIE_WIDTH_LANES, Metric.PCIE_SPEED_GTPS, Metric.PCIE_WIDTH_MAX_LANES, Metric.PCIE_SPEED_MAX_GTPS,
)  # fmt: skip


@dataclass
class HostFabric(Fabric):
    """A fabric whose hosts read the PCIe links of their NICs as well."""

    narrow: set[str] = field(default_factory=set)
    """Ports, as `device/port`, whose PCIe link has eight lanes of sixteen."""

    def samples(self, device: str, at_ns: int) -> Samples:
        """Return the next reading of a device."""
        read = super().samples(device, at_ns)
        if read.source is not Source.SOURCE_NIC:
            return read
        lanes = [8.0 if f"{device}/{port}" in self.narrow else 16.0 for port in read.row]
        most, speed = [16.0] * len(lanes), [32.0] * len(lanes)
        values = np.vstack([read.gauges.values, lanes, speed, most, speed])
        metrics = (*read.gauges.metric, *PCIE)
        return replace(read, gauges=Table(metrics, (NO_INDEX,) * len(metrics), values))


class StoppableLoad(Load):
    """A load that runs beside the test, and can end and begin again."""

    sending: asyncio.Task[None]

    def begin(self) -> None:
        """Offer from now on; first what was offered while it did not run."""
        self.sending = asyncio.create_task(self.run())

    async def end(self) -> None:
        """Offer nothing more, and return when all is acknowledged."""
        self.stop()
        await self.sending


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[Stack, "StoppableLoad", KafkaReader]]:
    """Run the servers, each stage in a process of its own, the sink and the load."""
    async with Stack.running(folder) as stack:
        for name in WORKERS:
            await asyncio.to_thread(stack.parts.pop(name).kill)
        with (folder / "railsight.toml").open("a", encoding="utf-8") as config:
            config.write("[detect.pcie]\nopen_after_s = 4\n")
        for stage in STAGES:
            stack._add(
                stage,
                command_with(
                    CONSTANTS | {"detect.pcie.full_s": 4}, "process", stage, "--config", str(folder / "railsight.toml")
                ),
            )
        load = StoppableLoad(stack.kafka_settings, HostFabric(run=1), 1)
        await load.publish_inventory()
        reader = KafkaReader(stack.kafka.bootstrap, (group_of(stack, "measure"), group_of(stack, SINK)))
        load.begin()
        try:
            yield stack, load, reader
        finally:
            await load.end()
            await reader.close()


def group_of(stack: Stack, part: str) -> str:
    return stack.settings.persist.group if part == SINK else f"railsight.{stack.kafka_settings.cluster}.{part}"


async def until(condition: Callable[[], Any], what: str) -> Any:
    """Return the first true result of a condition; a request that a busy broker does not answer in time is repeated."""
    deadline_s = time.monotonic() + _BOUND_S
    while time.monotonic() < deadline_s:
        with suppress(KafkaError, OSError, TimeoutError):
            if result := await condition():
                return result
        await asyncio.sleep(0.3)
    raise AssertionError(f"not within {_BOUND_S:g} s: {what}")


async def until_read(reader: KafkaReader) -> None:
    """Wait until `measure` and the sink have acknowledged the events that are there now."""
    ends = await until(reader.ends, "the ends of topics")
    events = {place: end for place, end in ends.items() if place[0] == EVENTS.name}

    async def is_read() -> bool:
        return await reader.lag(events) == 0

    await until(is_read, "that all events are read")


async def stop(stack: Stack, *names: str) -> None:
    """End parts in order, so that all that they have read is acknowledged."""
    for name in names:
        part = stack.parts[name]
        assert part.process is not None
        await asyncio.to_thread(part.process.stop)
        part.process = None


async def delete_before(stack: Stack, offsets: dict[TopicPartition, int]) -> None:
    admin = AIOKafkaAdminClient(**stack.kafka_settings.client_options())
    await admin.start()
    try:
        await admin.delete_records({at: RecordsToDelete(offset) for at, offset in offsets.items()})
    finally:
        await admin.close()


async def committed(stack: Stack, part: str, topic: Topic) -> dict[TopicPartition, int]:
    """Return the acknowledged offset of each partition."""
    partitions = [TopicPartition(topic.name, i) for i in range(stack.kafka_settings.partitions.count(topic))]
    admin = AIOKafkaAdminClient(**stack.kafka_settings.client_options())
    await admin.start()
    try:
        found = await admin.list_consumer_group_offsets(group_of(stack, part), partitions=partitions)
    finally:
        await admin.close()
    return {at: max(0, found[at].offset) for at in partitions}


async def losses(stack: Stack) -> dict[tuple[str, str, int], int]:
    """Return the reported number of lost records by consumer, topic and partition."""
    found: dict[tuple[str, str, int], int] = {}
    async for record in read_to_end(stack.kafka_settings, INPUT_LOSSES):
        loss = decode(INPUT_LOSSES, record.value, record.headers)
        assert isinstance(loss, InputLoss)
        key = loss.consumer, loss.topic, loss.partition
        found[key] = found.get(key, 0) + loss.records
    return found


async def finding(reader: KafkaReader, condition: str, subject: str, *status: str) -> dict[str, Any] | None:
    """Return the newest revision of the finding of a subject if it has one of these states."""
    for one in newest_revisions(await reader.findings()):
        fields = one.fields
        if (fields["condition"], fields["subject"]["id"]) == (condition, subject) and fields["status"] in status:
            return fields
    return None


async def test_seventy_of_150_events_are_lost_and_what_is_open_resolves(tmp_path: Path) -> None:
    """DeleteRecords removes 70 of 150 unread events, then all symptoms that `correlate` has not read."""
    async with running(tmp_path) as (stack, load, reader):
        fabric = load.fabric
        assert isinstance(fabric, HostFabric)
        link = fabric.truth.stays_down
        subject = subject_id(link)
        load.change_link(lambda _: link, down=True)
        narrow = f"{fabric.truth.recovers.a_device}/{fabric.truth.recovers.a_port}"
        fabric.narrow.add(narrow)
        await until(lambda: finding(reader, "LINK_DOWN", subject, "OPEN", "UPDATED"), "an open link/down")
        narrowed = partial(finding, reader, "HOST_PCIE_DEGRADED", f"port:{narrow}")
        await until(lambda: narrowed("OPEN", "UPDATED"), "an open host/pcie-degraded")

        # The events that would close it are among those that are deleted; `measure` has the readings.
        await load.end()
        await until_read(reader)
        await stop(stack, "measure", "correlate", SINK)
        device = link.a_device
        at = TopicPartition(EVENTS.name, partition_of(device, stack.kafka_settings.partitions.count(EVENTS)))
        read = (await committed(stack, "measure", EVENTS))[at]
        load.change_link(lambda _: link, down=False)
        fabric.narrow.clear()
        load.begin()
        async with AIOKafkaProducer(**stack.kafka_settings.client_options()) as producer:
            for _ in range(150):
                record = encode(EVENTS, fabric.log_event(device, time.time_ns()))
                await producer.send_and_wait(at.topic, record.value, key=record.key, partition=at.partition)
        await delete_before(stack, {at: read + 70})
        expected = {(part, at.topic, at.partition): 70 for part in ("measure", SINK)}
        for part in ("measure", SINK):
            stack.parts[part].start()

        async def reported() -> bool:
            return (await losses(stack)).items() >= expected.items()

        await until(reported, f"{expected}")

        # The up that `measure` reports now is deleted too, and that the PCIe link is restored: only the present states
        # have them.
        await until_read(reader)
        ends = {place: end for place, end in (await reader.ends()).items() if place[0] == SYMPTOMS.name}
        before = await committed(stack, "correlate", SYMPTOMS)
        await delete_before(stack, {TopicPartition(*place): end for place, end in ends.items()})
        unread = {
            ("correlate", place.topic, place.partition): ends[tuple(place)] - offset
            for place, offset in before.items()
            if ends[tuple(place)] > offset
        }
        assert unread
        stack.parts["correlate"].start()
        resolved = await until(lambda: finding(reader, "LINK_DOWN", subject, "RESOLVED"), "a resolved link/down")
        assert "resolvedAt" in resolved
        await until(lambda: narrowed("RESOLVED"), "a resolved host/pcie-degraded")
        counts = await losses(stack)
        assert counts.items() >= expected.items()
        # Its last snapshot may cover more than it has committed.
        own_counts = {key: count for key, count in counts.items() if key[0] == "correlate" and key[1] == SYMPTOMS.name}
        assert own_counts and all(0 < count <= unread[key] for key, count in own_counts.items())
        for consumer, topic in (("measure", EVENTS), ("correlate", SYMPTOMS), (SINK, EVENTS)):
            name = f"input:{consumer}/{topic.name}"
            own = await until(partial(finding, reader, "TELEMETRY_STALE", name, "OPEN", "UPDATED"), name)
            lost = sum(count for key, count in counts.items() if key[:2] == (consumer, topic.name))
            assert own["summary"].startswith(f"{consumer} lost {lost} records of {topic.name}")
