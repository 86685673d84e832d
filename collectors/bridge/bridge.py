"""The bridge at work: partitions come and go, records become messages, and positions are committed behind them."""

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from collectors.bridge.acknowledged import Delivered, Ledger, Place
from collectors.bridge.devices import Device, Devices
from collectors.bridge.fold import Output, PartitionFold, Position, Refused
from collectors.bridge.message_identity import CommittedState, MessageIdentity, state_at
from collectors.bridge.params import Format, Params
from collectors.bridge.read import Batch, Lost
from collectors.bridge.records import Source as Record
from collectors.core.context import CollectorContext
from collectors.core.emitter import draw_run
from collectors.core.status_schedule import StatusSchedule
from streams.wire.errors import Retry
from streams.wire.models import CollectorStatus, Source
from streams.wire.topics import COLLECTOR_STATUS, encode

_log = structlog.get_logger("railsight.bridge")

_POLL_S = 0.05
_AGAIN_S = 0.2
_COMMIT_S = 0.5
_STATUS_S = 1.0
_AT_END_S = 2.0
_CADENCE_S = 10.0
"""What a peer's cadence is, nobody says: `measure` learns it; this paces what is said of a device in doubt."""
_MOST_CUTS = 100
"""Declared and not behind what is committed: 100 of 20 characters, where Kafka takes 4,096 beside an offset."""
_SILENT = "nothing of it comes in the peers' topics"


class Reader(Protocol):
    """Where the peers' records come from (read.py); a test's stands in its place."""

    def assigned(self) -> set[Place]: ...

    async def begin(self, place: Place) -> tuple[int, CommittedState | None]: ...

    async def poll(self, wait_s: float) -> Batch: ...

    async def commit(self, positions: dict[Place, tuple[int, str]]) -> None: ...


@dataclass(slots=True)
class _Lane:
    """One partition that is ours. Times are those of the event loop."""

    fold: PartitionFold
    stamp: MessageIdentity
    cuts: list[int]
    last_s: float
    began_s: float
    number: int = 0
    devices: set[str] = field(default_factory=set)


class Bridge:
    """One process's part of the group."""

    def __init__(self, params: Params, context: CollectorContext, delivered: Delivered, collector: str) -> None:
        self._params = params
        self._context = context
        self._delivered = delivered
        self._collector = collector
        self._form: dict[str, Format] = {topic.name: topic.format for topic in params.topics}
        self.devices = devices_of(params, context)
        self._lanes: dict[Place, _Lane] = {}
        self._ledger = Ledger()
        self._schedules: dict[str, StatusSchedule] = {}
        self._committed_s = self._said_s = 0.0
        self._is_away = False

    def revoked(self, places: Iterable[Place]) -> None:
        """These partitions are not ours any more; of devices that came in no other nothing is said from now on."""
        gone: set[str] = set()
        for place in places:
            lane = self._lanes.pop(place, None)
            self._ledger.drop(place)
            gone |= set() if lane is None else lane.devices
        kept = (lane.devices | lane.fold.gathering for lane in self._lanes.values())
        self._forget(gone.difference(*kept))

    async def run(self, reader: Reader) -> None:
        """Read until cancelled; what is acknowledged by then is committed at the end."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    await self._turn(reader, loop)
                    self._is_away = False
                except Retry as error:
                    self._log_problems(error)
                    await asyncio.sleep(_AGAIN_S)
                except Lost as error:
                    _log.info("partitions moved", why=str(error))
                    self.revoked(list(self._lanes))
                    await asyncio.sleep(_AGAIN_S)
        finally:
            self._ledger.settle(self._delivered.settled())
            await _final_commit(self._commit(reader))

    async def _turn(self, reader: Reader, loop: asyncio.AbstractEventLoop) -> None:
        for place in reader.assigned() - self._lanes.keys():
            await self._begin(reader, place, loop.time())
        if self._delivered.sent() - self._delivered.settled() > self._params.max_waiting:
            await asyncio.sleep(_POLL_S)
        else:
            for place, records in await reader.poll(_POLL_S):
                if (lane := self._lanes.get(place)) is not None:
                    await self._take(place, lane, records, loop.time())
        await self._cut(reader, loop.time())
        self._ledger.settle(self._delivered.settled())
        if loop.time() - self._committed_s >= _COMMIT_S:
            self._committed_s = loop.time()
            await self._commit(reader)
        if loop.time() - self._said_s >= _STATUS_S:
            self._said_s = loop.time()
            self._emit_statuses(loop.time())

    async def _begin(self, reader: Reader, place: Place, now_s: float) -> None:
        """Where nothing of ours stands beside the offset, what stands there from now on is committed first."""
        offset, said = await reader.begin(place)
        if said is None:
            said = CommittedState(draw_run(), 1)
            await reader.commit({place: (offset, said.text())})
        position = Position(offset, said.number)
        self._ledger.begin(place, position)
        cuts = [cut for cut in said.cuts if cut > offset]
        fold = PartitionFold(self.devices, self._params, self._form[place[0]], position, cuts)
        stamp = MessageIdentity(self._collector, *place, said.run)
        self._lanes[place] = _Lane(fold, stamp, cuts, now_s, now_s)
        _log.info("reading", topic=place[0], partition=place[1], offset=offset, unit=said.number)

    async def _take(self, place: Place, lane: _Lane, records: list[Record], now_s: float) -> None:
        now_ns = self._context.clock.now_ns()
        fold = lane.fold
        for record in records:
            for said in fold.add(record, now_ns):
                await self._publish(lane, said)
        self._sent(place, lane)
        lane.last_s = now_s
        if fold.safe.number != lane.number or not fold.is_gathering:
            lane.number, lane.began_s = fold.safe.number, now_s

    async def _cut(self, reader: Reader, now_s: float) -> None:
        """End the units in which nothing comes any more, or that wait for long; that is committed before it is said.

        A commit of which nobody knows whether it was made is made again before anything else is read.
        """
        due: dict[Place, _Lane] = {}
        said: dict[Place, tuple[int, str]] = {}
        bases: dict[Place, Position] = {}
        for place, lane in self._lanes.items():
            if not self._is_due(lane, now_s):
                continue
            base = self._ledger.base(place)
            lane.cuts = [cut for cut in lane.cuts if cut > base.offset]
            if len(lane.cuts) >= _MOST_CUTS:
                continue  # nothing is acknowledged any more: what is gathered waits for that
            lane.cuts = sorted({*lane.cuts, lane.fold.next_offset})
            due[place], bases[place] = lane, base
            said[place] = base.offset, state_at(base, lane.stamp.run, lane.cuts)
        if not due:
            return
        while True:
            try:
                await reader.commit(said)
                break
            except Retry as error:
                self._log_problems(error)
                await asyncio.sleep(_AGAIN_S)
        self._ledger.committed({place: base for place, base in bases.items() if place in self._lanes})
        for place, lane in due.items():
            if self._lanes.get(place) is lane:
                for output in lane.fold.cut():
                    await self._publish(lane, output)
                self._sent(place, lane)
                lane.number, lane.began_s = lane.fold.safe.number, now_s

    def _is_due(self, lane: _Lane, now_s: float) -> bool:
        return lane.fold.is_gathering and (
            now_s - lane.last_s >= self._params.quiet_s or now_s - lane.began_s >= self._params.wait_s
        )

    async def _publish(self, lane: _Lane, said: Output) -> None:
        """Hand it over; nothing is refused for good, for it would not be read again."""
        if isinstance(said, Refused):
            _log.debug("refused", topic=lane.stamp.topic, offset=said.offset, why=said.reason)
        else:
            lane.devices.add(said.device)
        record, rows = lane.stamp.record(said, self._context.clock.now_ns())
        while not self._context.publisher.offer(record, rows):
            self._context.metrics.add("throttled", lane.stamp.topic)
            await asyncio.sleep(_AGAIN_S)
        if not isinstance(said, Refused) and (schedule := self._schedules.get(said.device)) is not None:
            schedule.sampled(asyncio.get_running_loop().time())

    def _sent(self, place: Place, lane: _Lane) -> None:
        if self._lanes.get(place) is lane:
            self._ledger.add(self._delivered.sent(), place, lane.fold.safe)

    async def _commit(self, reader: Reader) -> None:
        ready = {place: position for place, position in self._ledger.ready().items() if place in self._lanes}
        if not ready:
            return
        said = {}
        for place, position in ready.items():
            lane = self._lanes[place]
            said[place] = position.offset, state_at(position, lane.stamp.run, lane.cuts)
        await reader.commit(said)
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
            self._collector, self._context.run, Source.SOURCE_BRIDGE, device.name, now_ns, not error, error,
            device.last_sample_at_ns, 0, 0,
        )  # fmt: skip

    def _forget(self, names: set[str]) -> None:
        if names:
            self.devices.forget(names)
            for name in names:
                self._schedules.pop(name, None)

    def _log_problems(self, error: Retry) -> None:
        """Say it once for each time that it is so."""
        if not self._is_away:
            self._is_away = True
            _log.warning("Kafka is away", why=str(error))


async def _final_commit(commit: Coroutine[Any, Any, None]) -> None:
    try:
        await asyncio.wait_for(commit, _AT_END_S)
    except (Retry, Lost, TimeoutError) as error:
        _log.info("ended without a last commit", why=str(error))


def devices_of(params: Params, context: CollectorContext) -> Devices:
    """What is known of devices, empty."""
    return Devices(
        context.metrics, max_ports=params.max_ports, max_devices=params.max_devices, device_tag=params.device_tag,
        names=params.devices, inputs=params.inputs,
    )  # fmt: skip
