"""Passes the messages of one connection through its parser to the output; a reading is complete when messages pause."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator

import structlog
from google.protobuf.message import DecodeError

from collectors.core.metrics import CollectorMetrics
from collectors.gnmi.device_output import DeviceOutput, silent_after_s
from collectors.gnmi.params import StreamParams
from collectors.gnmi.parse import BYTES_PER_UPDATE, Connection
from collectors.gnmi.v1 import gnmi_lite_pb2
from streams.instrument.clock import Clock
from streams.wire.errors import Retry

_SECOND_NS = 1_000_000_000
_LARGE = 1 << 16
"""Messages of more bytes are charged before they are decoded."""
_LOOP_SHARE = 0.2
"""The most of the event loop's time that one device takes while a large message of it is processed."""

_log = structlog.get_logger("railsight.gnmi")


class UpdateLimiter:
    """Counts the updates of a device in windows of one second."""

    def __init__(self, max_updates_per_s: int, on_throttled: Callable[[], None]) -> None:
        self._max_updates_per_s = max_updates_per_s
        self._on_throttled = on_throttled
        self._window_ns, self._updates = 0, 0

    def delay_s(self, updates: int, now_ns: int) -> float:
        """Add updates; return the rest of the second if the device has exceeded its limit, else 0."""
        elapsed_ns = now_ns - self._window_ns
        if not 0 <= elapsed_ns < _SECOND_NS:
            self._window_ns, self._updates, elapsed_ns = now_ns, 0, 0
        self._updates += updates
        if self._updates <= self._max_updates_per_s:
            return 0.0
        self._on_throttled()
        return (_SECOND_NS - elapsed_ns) / _SECOND_NS


class Feed:
    """One connection, with one stream or several.

    `on_response` is called at each message that had to be decoded, which includes the first.
    """

    def __init__(
        self, connection: Connection, output: DeviceOutput, params: StreamParams, metrics: CollectorMetrics,
        clock: Clock, *, on_response: Callable[[], None], unsynced: int = 1,
    ) -> None:  # fmt: skip
        self._connection = connection
        self._output = output
        self._params = params
        self._metrics = metrics
        self._clock = clock
        self._on_response = on_response
        self._unsynced = unsynced
        self._limiter = UpdateLimiter(params.max_updates_per_s, self._on_throttled)
        self._is_throttled = False
        self._bursting = asyncio.Event()
        self._free = asyncio.Event()
        self._free.set()
        """Cleared while a message is processed in slices: the messages of the other streams wait."""

    async def add(self, message: bytes) -> None:
        """Process an encoded SubscribeResponse; return later if the device exceeds its rate of updates."""
        while not self._free.is_set():
            await self._free.wait()
        received_ns = self._clock.now_ns()
        charged = 0
        outputs = self._connection.process_known(message, received_ns)
        if outputs is None:
            if len(message) > _LARGE:
                charged = len(message) // BYTES_PER_UPDATE
                await self._charge(charged, received_ns)
            if (response := decoded(message, self._output.name, self._metrics)) is None:
                return
            self._on_response()
            if not response.HasField("update"):
                self._unsynced -= 1
                if not self._unsynced:
                    self._connection.synced()
                return
            await self._process(self._connection.slices(response.update, received_ns, message))
            outputs = self._connection.outputs
        if outputs:
            self._output.emit(outputs, received_ns)
        await self._processed(received_ns, charged)

    async def add_notification(self, notification: gnmi_lite_pb2.Notification) -> None:
        """Process a notification that was not a gNMI message on the wire, as `add` does."""
        while not self._free.is_set():
            await self._free.wait()
        received_ns = self._clock.now_ns()
        self._on_response()
        await self._process(self._connection.slices(notification, received_ns))
        self._output.emit(self._connection.outputs, received_ns)
        await self._processed(received_ns)

    async def _process(self, slices: Iterator[None]) -> None:
        try:
            await in_slices(slices, self._on_large)
        finally:
            self._free.set()

    def _on_large(self) -> None:
        if self._free.is_set():
            self._free.clear()
            self._on_throttled()

    async def _processed(self, received_ns: int, charged: int = 0) -> None:
        if self._connection.is_bursting:
            self._bursting.set()
        await self._charge(max(0, self._connection.work - charged), received_ns)

    async def _charge(self, updates: int, received_ns: int) -> None:
        wait_s = self._limiter.delay_s(updates, received_ns)
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    def _on_throttled(self) -> None:
        self._metrics.add("throttled", self._output.name)
        if not self._is_throttled:
            self._is_throttled = True
            _log.warning(
                "device read more slowly", device=self._output.name,
                why=f"it sends more than {self._params.max_updates_per_s} updates a second, or messages as large",
                next="compare railsight_collector_throttled with the device's configuration",
            )  # fmt: skip

    async def watch(self) -> None:
        """Emit each reading once the device is quiet; raise Retry if it has sent no sample for too long."""
        silent_s = silent_after_s(self._params.cadence_s)
        loop = asyncio.get_running_loop()
        identity = self._output.identity
        last_s, before = loop.time(), identity.last_received_ns
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._bursting.wait(), self._params.cadence_s)
            self._bursting.clear()
            if self._connection.is_bursting:
                self._bursting.set()
                await asyncio.sleep(self._params.quiet_s)
            now_ns = self._clock.now_ns()
            if (reading := self._connection.flush(now_ns)) is not None:
                self._output.emit([reading], now_ns)
            if identity.last_received_ns != before:
                last_s, before = loop.time(), identity.last_received_ns
            elif loop.time() - last_s > silent_s:
                raise Retry(f"no samples for {silent_s:.0f} s")


async def in_slices(slices: Iterator[None], on_large: Callable[[], None] = lambda: None) -> None:
    """Process a message; between the slices of a large one, other tasks run for the rest of the time."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for _ in slices:
        on_large()
        await asyncio.sleep((loop.time() - began_s) * (1 / _LOOP_SHARE - 1))
        began_s = loop.time()


def decoded(message: bytes, device: str, metrics: CollectorMetrics) -> gnmi_lite_pb2.SubscribeResponse | None:
    """Return the decoded message; None if it cannot be decoded, which is counted: the next message may be correct."""
    try:
        return gnmi_lite_pb2.SubscribeResponse.FromString(message)
    except DecodeError:
        metrics.add("unreadable", device)
        return None
