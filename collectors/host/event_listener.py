"""Runs the readers of the kernel log and of rtnetlink, if available, and stores their positions."""

import asyncio
import stat
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import orjson
import structlog

from collectors.core.context import CollectorContext, DeviceEvent, Emitter
from collectors.core.publisher import Publisher
from collectors.host.kernel_log import LABEL, KernelLog, LogSource, oldest_record_ns
from collectors.host.lines import Times, system_boot_ns
from collectors.host.links import AdminStates, Links, ports_of
from collectors.host.log_file import LogFile
from collectors.host.log_sources import Place, kmsg_of, place_of
from collectors.host.params import Params
from collectors.host.rate_limit import RateLimitedEmitter
from collectors.kernel.ports import KnownPorts
from collectors.kernel.tree import Tree
from collectors.kernel.values import boot_time_ns
from streams.wire.errors import Reject
from streams.wire.models import EventKind, Source
from streams.wire.topics import EVENTS, Record

_log = structlog.get_logger("railsight.host")

Position = TypeVar("Position")


class LogPositions(Generic[Position]):
    """Stores the position of a process in one file, as JSON; `parse` returns None for an invalid one.

    A position is valid once all events before it are acknowledged: after a kill, a few events repeat and none is lost.
    """

    def __init__(self, path: Path, parse: Callable[[Any], Position | None]) -> None:
        self._path = path
        self._parse = parse
        self._waiting: deque[tuple[int, Position]] = deque()
        self._known: Position | None = None
        self._written: Position | None = None
        self._has_warned = False

    def load(self) -> Position | None:
        """Return the position of an earlier process; None if there is no readable one."""
        try:
            return self._parse(orjson.loads(self._path.read_bytes()))
        except (OSError, ValueError):
            return None

    def note(self, events: int, position: Position) -> None:
        """Record a position, and the number of events that the publisher had received by then."""
        if self._waiting and self._waiting[-1][0] == events:
            self._waiting.pop()
        self._waiting.append((events, position))

    def save(self, settled: int) -> None:
        """Store the last position whose events are all among this process's first `settled` events."""
        while self._waiting and self._waiting[0][0] <= settled:
            self._known = self._waiting.popleft()[1]
        if self._known is None or self._known == self._written:
            return
        fresh = self._path.with_name(self._path.name + ".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_bytes(orjson.dumps(self._known))
            fresh.replace(self._path)
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                _log.warning("a restart will not know what was reported before it", why=str(error))
            return
        self._written = self._known


_SAVE_EVERY_S = 2.0
_REOPEN_S = 10.0
_DEVICE = Path("/dev/kmsg")


class Tally:
    """A Publisher that passes events to another Publisher and counts the accepted ones."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self.events = 0

    def offer(self, record: Record, rows: int = 0) -> bool:
        taken = self._publisher.offer(record, rows)
        self.events += taken and record.topic is EVENTS
        return taken

    async def settled(self) -> None:
        await self._publisher.settled()


class EventListener:
    """Listens for the events of one host. All messages of the host go through `emitter`."""

    def __init__(self, params: Params, tree: Tree, context: CollectorContext, ports: KnownPorts) -> None:
        self._params = params
        self._tree = tree
        self._context = context
        self._ports = ports
        self._tally = Tally(context.publisher)
        self.emitter = Emitter(self._tally, context.collector, context.run, Source.SOURCE_HOST)
        self._device = params.device_name()
        self._boot_id = 0
        self._read = LogPositions(params.state_path(), place_of)
        self._shut = LogPositions(Path(f"{params.state_path()}.shut"), ports_of)
        self.log: KernelLog | None = None
        self.links: Links | None = None
        self._refused = self._warned = ""
        self._saved_s = self._opened_s = 0.0

    @property
    def listens(self) -> bool:
        """True if a kernel log is read, so that no other source of Xids is needed."""
        return self.log is not None and not self.log.problem

    @property
    def problem(self) -> str:
        """The reason why an expected kernel log is not read; empty while it is read, or if none is expected."""
        return self._refused or (self.log.problem if self.log is not None else "")

    def begin(self, boot_id: int) -> None:
        """Open the log if it is readable, and rtnetlink if the tree is this machine's."""
        self._begin_log(boot_id)
        self._warn()
        if self._tree.is_live:
            self.links = Links(
                self._tree, self._ports, AdminStates(self._shut.load() or ()), self._limited("links"), self._context
            )

    def _begin_log(self, boot_id: int) -> None:
        path = self._params.kernel_log or (_DEVICE if self._tree.is_live else None)
        if path is None:
            return
        self._boot_id = boot_id
        place = self._read.load()
        now_ns = self._context.clock.now_ns()
        is_device = is_character_device(path)
        source: LogSource
        try:
            source = kmsg_of(path, boot_id, place) if is_device else LogFile(path, place)
        except Reject as error:
            self._refused = str(error)
            return
        self._refused = ""
        self.log = KernelLog(
            source, _times(self._boot_ns, place if source.has_resumed else None, boot_id), self._ports,
            self._limited(LABEL), self._context.metrics, self.emit, boot_id=boot_id, of_device=is_device,
            not_before_ns=oldest_record_ns(place, now_ns, self._params.backlog_s) if is_device else 0,
        )  # fmt: skip

    def _retry_log(self, now_s: float) -> None:
        """Open a device again that was refused, or that has replaced what was at its path; a file tries by itself."""
        if not self.problem or now_s - self._opened_s < _REOPEN_S:
            return
        self._opened_s = now_s
        if is_character_device(self._params.kernel_log or _DEVICE):
            if self.log is not None:
                self.log.close(self._context.clock.now_ns())
                self.log = None
            self._begin_log(self._boot_id)

    def _warn(self) -> None:
        """Log each change of the problem."""
        if self.problem != self._warned:
            self._warned = self.problem
            if self.problem:
                _log.warning("the kernel log is not read: Xids by NVML only, no other events", why=self.problem)
            else:
                _log.info("the kernel log is read")

    def _limited(self, label: str) -> RateLimitedEmitter:
        params = self._params
        return RateLimitedEmitter(params.events_per_s, params.events_burst, self._context.metrics, label, self.emit)

    def _boot_ns(self) -> int:
        """Return the boot time; for another machine's tree in whole seconds. 0 if unknown."""
        return system_boot_ns() if self._tree.is_live else boot_time_ns(self._tree.read_kernel_text("stat"))

    async def run(self) -> None:
        """Read both until cancelled; return at once if neither is available."""
        loop = asyncio.get_running_loop()
        while self.log is not None or self.links is not None or self.problem:
            now_ns, now_s = self._context.clock.now_ns(), loop.time()
            is_drained = self.log is None or self.log.look(now_ns, now_s)
            if self.links is not None:
                self.links.refresh(now_ns, now_s)
            self.note(now_s)
            self._retry_log(now_s)
            self._warn()
            await asyncio.sleep(self._params.log_poll_s if is_drained else 0)

    def emit_xid(self, pci: str, code: int, now_ns: int) -> None:
        """Emit an Xid of the GPU driver, if no log is read."""
        if not self.listens:
            self.emit(DeviceEvent(EventKind.GPU_XID, pci, now_ns, f"Xid {code}, by NVML", code), now_ns)

    def emit(self, happening: DeviceEvent, received_at_ns: int) -> None:
        """Emit an event of the host."""
        self.emitter.event(self._device, happening, received_at_ns)

    def note(self, now_s: float) -> None:
        """Record the position in the log and the shut ports at intervals, and store them."""
        if now_s - self._saved_s < _SAVE_EVERY_S:
            return
        self._saved_s = now_s
        self._note()
        self.save()

    def _note(self) -> None:
        if self.log is not None and (place := self.log.place()) is not None:
            self._read.note(self._tally.events, place)
        if self.links is not None and (shut := self.links.disabled) is not None:
            self._shut.note(self._tally.events, shut)

    def save(self) -> None:
        """Store the recorded positions whose events are in Kafka or the spool, or were refused.

        Records that an earlier process left in the spool do not count: this process did not offer them.
        """
        settled = self._context.metrics.value("settled", EVENTS.name)
        self._read.save(settled)
        self._shut.save(settled)

    def close(self) -> None:
        """Send delayed events, and close both readers. Events settled later count at the next `save`."""
        now_ns = self._context.clock.now_ns()
        if self.log is not None:
            self.log.close(now_ns)
        if self.links is not None:
            self.links.close(now_ns, asyncio.get_running_loop().time())
        self._note()
        self.log = self.links = None


def is_character_device(path: Path) -> bool:
    """Return True for a device such as /dev/kmsg; False for anything else, and for a missing path."""
    try:
        return stat.S_ISCHR(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def _times(zero: Callable[[], int], place: Place | None, boot_id: int) -> Times:
    """Return the times that an earlier process stored; remaining lines of the previous boot use that boot's time."""
    if place is None:
        return Times(zero)
    is_same_boot = place.boot_id == boot_id
    return Times(zero, place.lag_ns, 0 if is_same_boot else place.zero_ns, place.last_us)
