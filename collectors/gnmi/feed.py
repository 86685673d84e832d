"""Passes the messages of one connection through its parser to the output; a reading is complete when messages pause."""

import asyncio
import contextlib
from collections.abc import Callable

from google.protobuf.message import DecodeError

from collectors.core.metrics import CollectorMetrics
from collectors.gnmi.device_output import DeviceOutput, silent_after_s
from collectors.gnmi.params import StreamParams
from collectors.gnmi.parse import Connection
from collectors.gnmi.v1 import gnmi_lite_pb2
from streams.instrument.clock import Clock
from streams.wire.errors import Retry

_SECOND_NS = 1_000_000_000


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
        self._limiter = UpdateLimiter(params.max_updates_per_s, lambda: metrics.add("throttled", output.name))
        self._bursting = asyncio.Event()

    async def add(self, message: bytes) -> None:
        """Process an encoded SubscribeResponse; return later if the device exceeds its rate of updates."""
        received_ns = self._clock.now_ns()
        outputs = self._connection.process_known(message, received_ns)
        if outputs is None:
            if (response := decoded(message, self._output.name, self._metrics)) is None:
                return
            self._on_response()
            if not response.HasField("update"):
                self._unsynced -= 1
                if not self._unsynced:
                    self._connection.synced()
                return
            outputs = self._connection.process(response.update, received_ns, message)
        if outputs:
            self._output.emit(outputs, received_ns)
        await self._processed(received_ns)

    async def add_notification(self, notification: gnmi_lite_pb2.Notification) -> None:
        """Process a notification that was not a gNMI message on the wire, as `add` does."""
        received_ns = self._clock.now_ns()
        self._on_response()
        self._output.emit(self._connection.process(notification, received_ns), received_ns)
        await self._processed(received_ns)

    async def _processed(self, received_ns: int) -> None:
        if self._connection.is_bursting:
            self._bursting.set()
        wait_s = self._limiter.delay_s(self._connection.work, received_ns)
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    async def watch(self) -> None:
        """Emit each reading once the device is quiet; raise Retry if it has sent no sample for too long."""
        silent_s = silent_after_s(self._params.cadence_s)
        loop = asyncio.get_running_loop()
        identity = self._output.identity
        last_s, before = loop.time(), identity.last_sample_at_ns
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
            if identity.last_sample_at_ns != before:
                last_s, before = loop.time(), identity.last_sample_at_ns
            elif loop.time() - last_s > silent_s:
                raise Retry(f"no samples for {silent_s:.0f} s")


def decoded(message: bytes, device: str, metrics: CollectorMetrics) -> gnmi_lite_pb2.SubscribeResponse | None:
    """Return the decoded message; None if it cannot be decoded, which is counted: the next message may be correct."""
    try:
        return gnmi_lite_pb2.SubscribeResponse.FromString(message)
    except DecodeError:
        metrics.add("unreadable", device)
        return None
