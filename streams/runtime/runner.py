"""Runs one stage in this process: its Faust app, and an owner for every partition that the group assigns to it.

Decides the owners in this process. Chunks of a generation of the group are passed to that generation's owner, which is
made at the first sign of the generation, because Faust may deliver chunks before it signals the assignment.
"""

import asyncio
import logging
import os
import time
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streams.config.kafka import KafkaSettings
from streams.config.runtime import RuntimeSettings
from streams.instrument.clock import Attendance, BrokerClock, Clock
from streams.instrument.metrics import Metrics
from streams.runtime.bindings import Binding
from streams.runtime.bulk import BulkReader, CombinedInput, Group
from streams.runtime.faust_app import make_app
from streams.runtime.inventory_versions import Versions
from streams.runtime.ordered_input import Chunk, InputSource
from streams.runtime.partition_owner import OwnerContext, PartitionOwner
from streams.runtime.partition_processor import MakeStage, PartitionProcessor
from streams.runtime.transactions import TransactionFailed, open_transactional_producer
from streams.wire.kafka_clients import ended_task, throttle_metadata_refresh
from streams.wire.standalone_consumer import open_consumer

if TYPE_CHECKING:
    from faust.types import TP

    from streams.wire.identity import MacSigner, MacVerifier

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.25
_CHECK_S = 1.0
"""The interval of checks, and the pause between attempts to join the group, so that a refused user does not loop."""
_RETURN_S = 3.0
"""The wait after a pause, three heartbeats: then this worker knows whether the group has removed it."""
_GIVE_UP_S = 5.0
"""The limit for the last snapshots; in the largest fabric they have 28 MB together."""
_AWAY_S = 2.0
"""Brokers without an acknowledgement for this time count as unavailable, and a stop does not wait for them."""
_LEAVE_S = 2.0
"""The limit for leaving the group; Faust would wait for unavailable brokers without a limit."""


def end_process(what: str, error: BaseException) -> None:
    """End the process at once, so that no unfinished input is acknowledged; the supervisor restarts it.

    A graceful end would commit the offsets that Faust assumes to be processed.
    """
    trace = "".join(traceback.format_exception(error)).strip().replace("\n", " | ")
    log.critical("%s: %s", what, trace)
    logging.shutdown()
    os._exit(1)


class Runner:
    """One stage's app and its owners."""

    def __init__(
        self,
        binding: Binding,
        make_stage: MakeStage,
        kafka: KafkaSettings,
        runtime: RuntimeSettings,
        versions: Versions,
        *,
        clock: Clock,
        metrics: Metrics,
        data: Path,
        verifier: "MacVerifier | None" = None,
        signer: "MacSigner | None" = None,
    ) -> None:
        self.binding = binding
        self._make_stage = make_stage
        self._kafka = kafka
        self._versions = versions
        group = binding.group(kafka.cluster)
        inputs = [topic.name for topic in binding.inputs]
        bulk = frozenset(topic.name for topic in binding.bulk)
        self.app = make_app(group, inputs, self._take, kafka, runtime, data, bulk)
        membership = Group(lambda: self.app.consumer_generation_id, self._assignment)
        self._bulk = BulkReader(kafka, runtime.bulk_s, bulk, membership, self._take) if bulk else None
        self._input_source = CombinedInput(lambda: self.app.consumer, self._bulk) if self._bulk else None
        self._reading: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._patient: Any = None
        brokers = BrokerClock(clock, time.monotonic_ns)
        self._context = OwnerContext(
            kafka.partitions, runtime, brokers, metrics, self._input, self._producer,
            lambda: open_consumer(kafka.client_options()), partial(open_transactional_producer, kafka),
            lambda: versions.positions, verifier=verifier, signer=signer,
        )  # fmt: skip
        self._owners: dict[int, tuple[int, PartitionOwner, asyncio.Task[None]]] = {}
        self._looked_at: int | None = None
        """The last generation in which every assigned partition got its owner."""
        self._stopping = False
        self._attendance = Attendance(runtime.session_s, time.monotonic, time.process_time)
        self._returns_at = 0.0
        """Before this time, this process makes no owners."""

    @property
    def owners(self) -> dict[int, PartitionOwner]:
        """The present owners by partition."""
        return {partition: owner for partition, (_, owner, _) in self._owners.items()}

    @property
    def owns_its_assignment(self) -> bool:
        """True if partitions are assigned and each has its owner; False during a rebalance."""
        return (
            self._looked_at is not None
            and self._looked_at == self.app.consumer_generation_id
            and not self.app.rebalancing
        )

    @property
    def is_joining(self) -> bool:
        """True from the begin of a rebalance until this worker has its assignment, which may be empty."""
        return bool(self.app.rebalancing) or not self.app.consumer_generation_id

    @property
    def generation(self) -> int:
        """The generation of the consumer group; 0 before the first assignment."""
        return int(self.app.consumer_generation_id)

    async def run(self) -> None:
        """Run until `stop`; a crash of the app ends the process."""
        # Runs concurrently with the start, which ends with the first assignment.
        self._checking = asyncio.create_task(self._check_clients(), name=f"{self.binding.stage}/clients")
        self._checking.add_done_callback(self._ended)
        await self.app.start()
        if self._bulk is not None:
            self._reading = asyncio.create_task(self._bulk.run(), name=f"{self.binding.stage}/bulk")
            self._reading.add_done_callback(self._ended)
        while not self._stopping:
            if self.app.crashed:
                reason = self.app.crash_reason or RuntimeError("no reason given")
                end_process(f"{self.binding.stage}: Faust crashed", reason)
            self._look()
            await asyncio.sleep(_LOOK_EVERY_S)

    async def stop(self) -> None:
        """Release every partition with a snapshot, then leave the group; raises TimeoutError without brokers."""
        self._stopping = True
        for _, owner, _ in self._owners.values():
            owner.release()
        tasks = [task for _, _, task in self._owners.values()]
        give_up_s = time.monotonic() + _GIVE_UP_S
        while waiting := [(owner, task) for _, owner, task in self._owners.values() if not task.done()]:
            if time.monotonic() > give_up_s or any(owner.sending_s > _AWAY_S for owner, _ in waiting):
                break
            await asyncio.wait([task for _, task in waiting], timeout=_LOOK_EVERY_S)
        for task in (*tasks, *filter(None, [self._reading, self._checking])):
            task.cancel()
        self._owners.clear()
        leaving = asyncio.ensure_future(self.app.stop())
        if not (await asyncio.wait([leaving], timeout=_LEAVE_S))[0]:
            raise TimeoutError(f"{self.binding.stage}: the brokers do not answer")
        await leaving

    async def _take(self, chunk: Chunk, generation: int) -> None:
        """Pass a chunk to its owner; drop a chunk of an older generation, which has no owner here."""
        if self._stopping or self._is_returning() or generation != self.app.consumer_generation_id:
            return
        owner = self._owner(chunk.partition, generation)
        if self._bulk is not None and chunk.topic not in self._bulk.topics:
            try:
                await owner.preview(chunk)
            except Exception as error:  # noqa: BLE001 — a bug, as in the turn of an owner; Faust would skip the chunk
                end_process(f"{self.binding.stage}/{chunk.partition}: preview", error)
        while not self._stopping and self._owns(chunk.partition, generation, owner):
            try:
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await owner.input.put(chunk)
            except TimeoutError:
                continue
            else:
                return

    async def _check_clients(self) -> None:
        """Make the consumer rejoin its group after an error, and end the process if only a new client helps."""
        while True:
            await asyncio.sleep(_CHECK_S)
            consumer = self.app.consumer
            if ended := consumer.ended_task() or ended_task(None, self._producer()):
                end_process(f"{self.binding.stage}: Kafka client", RuntimeError(ended))
            consumer.rejoin_after_error()

    def _look(self) -> None:
        """Make owners for assigned partitions, even without input; end owners of older generations."""
        if self._is_returning():
            return
        generation = self.app.consumer_generation_id
        if self._looked_at == generation and not self.app.rebalancing:
            return
        assigned = self._assigned()
        for partition, (owned_in, _, task) in list(self._owners.items()):
            if owned_in != generation or partition not in assigned:
                task.cancel()
                del self._owners[partition]
        if self.app.rebalancing or not self.app.consumer.flow_active:
            return
        for partition in assigned:
            self._owner(partition, generation)
        self._looked_at = generation if assigned else None

    def _is_returning(self) -> bool:
        """Return whether this process still waits after a pause in which others may have got its partitions.

        After such a pause its owners end before they send anything. The group decides the next owners.
        """
        now = time.monotonic()
        if self._attendance.was_away():
            log.warning("%s: stopped for longer than half the session, taking over again", self.binding.stage)
            for _, _, task in self._owners.values():
                task.cancel()
            self._owners.clear()
            self._looked_at = None
            self._returns_at = now + _RETURN_S
            self._attendance.resume()
        return now < self._returns_at

    def _assignment(self) -> set["TP"]:
        assignment: set[TP] = self.app.consumer.assignment()
        return assignment

    def _assigned(self) -> set[int]:
        """Return the assigned partitions; raises AssertionError if the inputs have different partitions."""
        try:
            assignment: set[TP] = self.app.consumer.assignment()
        except Exception as error:  # noqa: BLE001 — before its thread has started, Faust raises its own error
            log.debug("no assignment yet: %s", error)
            return set()
        by_topic = {
            topic.name: {tp.partition for tp in assignment if tp.topic == topic.name} for topic in self.binding.inputs
        }
        parts = list(by_topic.values())
        if any(part != parts[0] for part in parts):
            end_process("not co-partitioned", AssertionError(f"{self.binding.stage}: {by_topic}"))
        return parts[0]

    def _owns(self, partition: int, generation: int, owner: PartitionOwner | None = None) -> bool:
        """Return whether this process owns a partition, by any or by this owner."""
        current = self._owners.get(partition)
        is_current = current is not None and current[0] == generation == self.app.consumer_generation_id
        if current is not None and owner not in (None, current[1]):
            return False
        return is_current and not self._attendance.was_away()

    def _owner(self, partition: int, generation: int) -> PartitionOwner:
        current = self._owners.get(partition)
        if current is not None and current[0] == generation:
            return current[1]
        if current is not None:
            current[2].cancel()
        processor = PartitionProcessor(
            self.binding,
            partition,
            self._make_stage,
            self._kafka.partitions,
            self._versions,
            clock=self._context.clock,
            metrics=self._context.metrics,
            cluster=self._kafka.cluster,
            is_live=self._context.runtime.wall_clock_ticks,
            verifier=self._context.verifier,
            signer=self._context.signer,
        )
        owner = PartitionOwner(processor, self._context, lambda: self._owns(partition, generation))
        task = asyncio.create_task(owner.run(), name=f"{self.binding.stage}/{partition}")
        task.add_done_callback(self._ended)
        self._owners[partition] = generation, owner, task
        return owner

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, TransactionFailed):
            end_process(task.get_name(), error)
        log.warning("%s: taking over again from the committed state: %s", task.get_name(), error)
        self._owners = {partition: own for partition, own in self._owners.items() if own[2] is not task}
        self._looked_at = None

    def _input(self) -> InputSource:
        consumer: InputSource = self._input_source or self.app.consumer
        return consumer

    def _producer(self) -> Any:
        producer = self.app.producer._producer  # noqa: SLF001 — Faust's own send hides failed deliveries
        if producer is not None and producer is not self._patient:
            throttle_metadata_refresh(producer)
            self._patient = producer
        return producer
