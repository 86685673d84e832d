"""Passes the messages of one connection through its parser to the output; a reading is complete when messages pause."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from google.protobuf.message import DecodeError

from collectors.core.device_share import in_slices, json_elements
from collectors.core.metrics import CollectorMetrics
from collectors.gnmi.device_output import DeviceOutput, silent_after_s
from collectors.gnmi.params import StreamParams
from collectors.gnmi.parse import Connection
from collectors.gnmi.v1 import gnmi_lite_pb2
from streams.instrument.clock import Clock
from streams.wire.errors import Retry

_LARGE = 1 << 16
"""Messages of more bytes are charged before they are decoded."""
_BYTES_PER_UPDATE = 64
"""A typical update's size, by which the bytes of a large message are charged."""


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
        self._share = output.share
        self._now_s = asyncio.get_running_loop().time
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
            charged = await self.charge(message)
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
        if (wait_s := self._processed(charged)) > 0:
            await asyncio.sleep(wait_s)

    async def charge(self, message: bytes) -> int:
        """Charge a large message before it is processed; return the values, later if the device is above its share."""
        if len(message) <= _LARGE:
            return 0
        charged = cost(message)
        await self._share.charge(charged)
        return charged

    async def add_notification(self, notification: gnmi_lite_pb2.Notification) -> None:
        """Process a notification that was not a gNMI message on the wire, as `add` does."""
        while not self._free.is_set():
            await self._free.wait()
        received_ns = self._clock.now_ns()
        self._on_response()
        await self._process(self._connection.slices(notification, received_ns))
        self._output.emit(self._connection.outputs, received_ns)
        if (wait_s := self._processed()) > 0:
            await asyncio.sleep(wait_s)

    async def _process(self, slices: Iterator[None]) -> None:
        try:
            await in_slices(slices, self._on_large)
        finally:
            self._free.set()

    def _on_large(self) -> None:
        if self._free.is_set():
            self._free.clear()
            self._share.throttled(self._now_s())

    def _processed(self, charged: int = 0) -> float:
        """Charge the rest of a message's cost; return the time until the device is within its share again."""
        if self._connection.is_bursting:
            self._bursting.set()
        return self._share.delay_s(max(0, self._connection.work - charged), self._now_s())

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


def cost(message: bytes) -> int:
    """Return the values that a message is charged for: by its bytes, or by the elements of JSON that may be in it."""
    return max(len(message) // _BYTES_PER_UPDATE, json_elements(message))


def decoded(message: bytes, device: str, metrics: CollectorMetrics) -> gnmi_lite_pb2.SubscribeResponse | None:
    """Return the decoded message; None if it cannot be decoded, which is counted: the next message may be correct."""
    try:
        return gnmi_lite_pb2.SubscribeResponse.FromString(message)
    except DecodeError:
        metrics.add("unreadable", device)
        return None
