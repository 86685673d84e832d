"""Takes the streams of one device that sends by itself: several at a time make one connection."""

import asyncio
import contextlib
from collections.abc import Iterator

from collectors.core.context import CollectorContext, Emitter
from collectors.core.tasks import cancel_and_wait
from collectors.dialout.params import Params, Target
from collectors.gnmi.device_output import DeviceOutput
from collectors.gnmi.feed import Feed
from collectors.gnmi.parse import Connection
from streams.wire.errors import Retry

_ENDED = "the device ended its streams"


class DialOutDevice:
    """One device; runs until cancelled, with streams or without."""

    def __init__(self, target: Target, params: Params, context: CollectorContext, emitter: Emitter) -> None:
        self.target = target
        self._params = params
        self._context = context
        self._output = DeviceOutput(
            target.name, params.cadence_s, params.status_every_s, emitter, context.metrics, context.clock
        )
        self._streams = 0
        self._feed: Feed | None = None
        self._watch: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Publish the status and the facts until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._output.report_status(self._context.rng.random()))
                tasks.create_task(self._report_facts())
        finally:
            if self._watch is not None:
                await cancel_and_wait(self._watch)
            self._context.metrics.unset("clock_offset_seconds", self.target.name)

    @property
    def is_full(self) -> bool:
        """True if it has as many streams as it may have."""
        return self._streams >= self._params.max_streams

    @contextlib.contextmanager
    def stream(self) -> Iterator[Feed]:
        """Yield the feed that all streams of the device share; the last one that ends makes it unreachable."""
        if self._feed is None:
            # Whether a leaf is sampled or sent on change is unknown here: a state is valid until it changes.
            connection = Connection(
                self.target.name, self._params, self._output.identity, self._context.metrics, on_change=True
            )
            self._feed = Feed(
                connection, self._output, self._params, self._context.metrics, self._context.clock,
                on_response=lambda: self._output.set_reachable(reachable=True),
            )  # fmt: skip
            self._watch = asyncio.create_task(self._until_silent(self._feed))
        self._streams += 1
        try:
            yield self._feed
        finally:
            self._streams -= 1
            if not self._streams:
                self._end()

    def _end(self) -> None:
        self._feed = None
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._context.metrics.add("reconnects", self.target.name)
        self._output.set_reachable(reachable=False, error=_ENDED)

    async def _until_silent(self, feed: Feed) -> None:
        """Emit readings; a device that is connected and silent is unreachable until it sends again."""
        while True:
            try:
                await feed.watch()
            except Retry as error:
                self._output.set_reachable(reachable=False, error=str(error))

    async def _report_facts(self) -> None:
        while True:
            await asyncio.sleep(self._params.cadence_s)
            self._output.emit_facts()
