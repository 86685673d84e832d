"""Runs the bridge: handles assigned and revoked partitions, converts records, and commits positions."""

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from collectors.bridge.delivery import CommittedState, Delivered, Ledger, MessageIdentity, Place, state_at
from collectors.bridge.devices import Device, Devices
from collectors.bridge.fold import Output, PartitionFold, Position, Refused
from collectors.bridge.params import Format, Params
from collectors.bridge.points import Source as Record
from collectors.bridge.read import Batch, Lost
from collectors.core.context import CollectorContext, draw_run
from collectors.core.poll import StatusSchedule
from streams.wire.errors import Retry
from streams.wire.models import CollectorStatus, Source
from streams.wire.topics import COLLECTOR_STATUS, encode

_log = structlog.get_logger("railsight.bridge")

_POLL_S = 0.05
_RETRY_S = 0.2
_COMMIT_S = 0.5
_STATUS_S = 1.0
_FINAL_COMMIT_S = 2.0
_CADENCE_S = 10.0
"""The cadence of a source is unknown here (`measure` detects it); this schedules the statuses of silent devices."""
_LARGE = 64 * 1024
"""Between records of more bytes, the event loop serves others."""
_MOST_CUTS = 100
"""Limit of declared cuts after the committed offset: each takes 20 of the 4,096 characters of metadata in Kafka."""
_SILENT = "no records of it in the source topics"


class Reader(Protocol):
    """The source of records: read.py, or a fake in tests."""

    def assigned(self) -> set[Place]: ...

    async def begin(self, place: Place) -> tuple[int, CommittedState | None]: ...

    async def poll(self, wait_s: float) -> Batch: ...

    async def commit(self, positions: dict[Place, tuple[int, str]]) -> None: ...


@dataclass(slots=True)
class _Partition:
    """One assigned partition. Its times are by the event loop's clock."""

    fold: PartitionFold
    stamp: MessageIdentity
    cuts: list[int]
    last_s: float
    began_s: float
    number: int = 0
    devices: set[str] = field(default_factory=set)


class Bridge:
    """One member of the consumer group."""

    def __init__(self, params: Params, context: CollectorContext) -> None:
        self._params = params
        self._context = context
        self._delivered = Delivered(context.metrics)
        self._form: dict[str, Format] = {topic.name: topic.format for topic in params.topics}
        self.devices = Devices(params, context.metrics)
        self._partitions: dict[Place, _Partition] = {}
        self._ledger = Ledger()
        self._schedules: dict[str, StatusSchedule] = {}
        self._committed_s = self._status_checked_s = 0.0
        self._is_unreachable = False
        self.steps = 0
        """Counts the iterations of the read loop, and of the loop that waits for the publisher."""

    @property
    def positions(self) -> dict[Place, int]:
        """The next offset of each partition; empty if too many messages are unacknowledged, so that nothing is read."""
        if self._is_full:
            return {}
        return {place: partition.fold.next_offset for place, partition in self._partitions.items()}

    @property
    def _is_full(self) -> bool:
        return self._delivered.sent() - self._delivered.settled() > self._params.max_waiting

    def revoked(self, revoked: Iterable[Place]) -> None:
        """Remove revoked partitions, and the devices that were only in these."""
        gone: set[str] = set()
        for place in revoked:
            partition = self._partitions.pop(place, None)
            self._ledger.drop(place)
            gone |= set() if partition is None else partition.devices
        remaining = (partition.devices | partition.fold.gathering for partition in self._partitions.values())
        self._forget(gone.difference(*remaining))

    async def run(self, reader: Reader) -> None:
        """Read until cancelled, then commit the positions that are acknowledged."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    await self._process_batch(reader, loop)
                    self._is_unreachable = False
                except Retry as error:
                    self._log_problems(error)
                    await asyncio.sleep(_RETRY_S)
                except Lost as error:
                    _log.info("partitions moved", why=str(error))
                    self.revoked(list(self._partitions))
                    await asyncio.sleep(_RETRY_S)
        finally:
            self._ledger.settle(self._delivered.settled())
            await _final_commit(self._commit(reader))

    async def _process_batch(self, reader: Reader, loop: asyncio.AbstractEventLoop) -> None:
        self.steps += 1
        for place in reader.assigned() - self._partitions.keys():
            await self._begin(reader, place, loop.time())
        if self._is_full:
            await asyncio.sleep(_POLL_S)
        else:
            for place, records in await reader.poll(_POLL_S):
                if (partition := self._partitions.get(place)) is not None:
                    await self._take(place, partition, records, loop.time())
        await self._cut(reader, loop.time())
        self._ledger.settle(self._delivered.settled())
        if loop.time() - self._committed_s >= _COMMIT_S:
            self._committed_s = loop.time()
            await self._commit(reader)
        if loop.time() - self._status_checked_s >= _STATUS_S:
            self._status_checked_s = loop.time()
            self._emit_statuses(loop.time())

    async def _begin(self, reader: Reader, place: Place, now_s: float) -> None:
        """Start a partition; if its committed offset has no metadata, some is committed first."""
        offset, state = await reader.begin(place)
        if state is None:
            state = CommittedState(draw_run(), 1)
            await reader.commit({place: (offset, state.text())})
        position = Position(offset, state.number)
        self._ledger.begin(place, position)
        cuts = [cut for cut in state.cuts if cut > offset]
        fold = PartitionFold(self.devices, self._params, self._form[place[0]], position, cuts)
        stamp = MessageIdentity(self._context.collector, *place, state.run)
        self._partitions[place] = _Partition(fold, stamp, cuts, now_s, now_s)
        _log.info("reading", topic=place[0], partition=place[1], offset=offset, unit=state.number)

    async def _take(self, place: Place, partition: _Partition, records: list[Record], now_s: float) -> None:
        now_ns = self._context.clock.now_ns()
        fold = partition.fold
        for record in records:
            for output in fold.add(record, now_ns):
                await self._publish(partition, output)
            if len(record.value) > _LARGE:
                await asyncio.sleep(0)
        self._sent(place, partition)
        partition.last_s = now_s
        if fold.safe.number != partition.number or not fold.is_gathering:
            partition.number, partition.began_s = fold.safe.number, now_s

    async def _cut(self, reader: Reader, now_s: float) -> None:
        """End units that are quiet or have waited too long; their cuts are committed before the readings are published.

        A commit with an unknown result is repeated before anything else is read.
        """
        due: dict[Place, _Partition] = {}
        commits: dict[Place, tuple[int, str]] = {}
        bases: dict[Place, Position] = {}
        for place, partition in self._partitions.items():
            if not self._is_due(partition, now_s):
                continue
            base = self._ledger.base(place)
            partition.cuts = [cut for cut in partition.cuts if cut > base.offset]
            if len(partition.cuts) >= _MOST_CUTS:
                continue  # no acknowledgements arrive: the units wait for them
            partition.cuts = sorted({*partition.cuts, partition.fold.next_offset})
            due[place], bases[place] = partition, base
            commits[place] = base.offset, state_at(base, partition.stamp.run, partition.cuts)
        if not due:
            return
        while True:
            try:
                await reader.commit(commits)
                break
            except Retry as error:
                self._log_problems(error)
                await asyncio.sleep(_RETRY_S)
        self._ledger.committed({place: base for place, base in bases.items() if place in self._partitions})
        for place, partition in due.items():
            if self._partitions.get(place) is partition:
                for output in partition.fold.cut():
                    await self._publish(partition, output)
                self._sent(place, partition)
                partition.number, partition.began_s = partition.fold.safe.number, now_s

    def _is_due(self, partition: _Partition, now_s: float) -> bool:
        return partition.fold.is_gathering and (
            now_s - partition.last_s >= self._params.quiet_s or now_s - partition.began_s >= self._params.wait_s
        )

    async def _publish(self, partition: _Partition, output: Output) -> None:
        """Publish an output; retry while it is refused, because its record is not read again."""
        if isinstance(output, Refused):
            _log.debug("refused", topic=partition.stamp.topic, offset=output.offset, why=output.reason)
        else:
            partition.devices.add(output.device)
        record, rows = partition.stamp.record(output, self._context.clock.now_ns())
        while not self._context.publisher.offer(record, rows):
            self.steps += 1
            self._context.metrics.add("throttled", partition.stamp.topic)
            await asyncio.sleep(_RETRY_S)
        if not isinstance(output, Refused) and (schedule := self._schedules.get(output.device)) is not None:
            schedule.sampled(asyncio.get_running_loop().time())

    def _sent(self, place: Place, partition: _Partition) -> None:
        if self._partitions.get(place) is partition:
            self._ledger.add(self._delivered.sent(), place, partition.fold.safe)

    async def _commit(self, reader: Reader) -> None:
        ready = {place: position for place, position in self._ledger.ready().items() if place in self._partitions}
        if not ready:
            return
        commits = {}
        for place, position in ready.items():
            partition = self._partitions[place]
            commits[place] = position.offset, state_at(position, partition.stamp.run, partition.cuts)
        await reader.commit(commits)
        self._ledger.committed(ready)

    def _emit_statuses(self, now_s: float) -> None:
        now_ns = self._context.clock.now_ns()
        forgotten: set[str] = set()
        for device in list(self.devices.known.values()):
            silent_ns = now_ns - device.last_received_ns
            if not device.last_sample_at_ns:
                continue
            if silent_ns > self._params.forget_s * 1e9:
                forgotten.add(device.name)
                continue
            error = _SILENT if silent_ns > self._params.silent_s * 1e9 else ""
            schedule = self._schedules.get(device.name)
            if schedule is None:
                schedule = StatusSchedule(device.name, _CADENCE_S, self._params.status_every_s)
                self._schedules[device.name] = schedule
                schedule.sampled(now_s)
            if schedule.is_due(now_s, reachable=not error, error=error):
                self._context.publisher.offer(encode(COLLECTOR_STATUS, self._status(device, error, now_ns)))
        self._forget(forgotten)

    def _status(self, device: Device, error: str, now_ns: int) -> CollectorStatus:
        return CollectorStatus(
            self._context.collector, self._context.run, Source.SOURCE_BRIDGE, device.name, now_ns, not error, error,
            device.last_sample_at_ns, 0, 0,
        )  # fmt: skip

    def _forget(self, names: set[str]) -> None:
        if names:
            self.devices.forget(names)
            for name in names:
                self._schedules.pop(name, None)

    def _log_problems(self, error: Retry) -> None:
        """Log a problem once until it is solved."""
        if not self._is_unreachable:
            self._is_unreachable = True
            _log.warning("Kafka unreachable", why=str(error))


async def _final_commit(commit: Coroutine[Any, Any, None]) -> None:
    try:
        await asyncio.wait_for(commit, _FINAL_COMMIT_S)
    except (Retry, Lost, TimeoutError) as error:
        _log.info("ended without a final commit", why=str(error))
