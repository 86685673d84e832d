"""Reads one device: connect, subscribe, read, and reconnect when the stream ends.

Combines reading (I/O) and parsing (pure); decides on backoff, on narrower subscriptions, and on a silent device.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Iterable
from dataclasses import replace

import structlog
from google.protobuf.message import DecodeError

from collectors.core.columns import Reading
from collectors.core.emitter import Emitter
from collectors.core.metrics import CollectorMetrics
from collectors.core.status_schedule import StatusSchedule, log_reachability
from collectors.core.tasks import cancel_and_wait
from collectors.gnmi import subscription_plans
from collectors.gnmi.device_identity import DeviceIdentity
from collectors.gnmi.facts import facts_fields
from collectors.gnmi.params import Params, Target
from collectors.gnmi.parse import Connection, Output
from collectors.gnmi.profile import DeviceHints, Subscription, chosen
from collectors.gnmi.read import Wire
from collectors.gnmi.subscription_plans import SubscriptionPlan, name_of
from collectors.gnmi.update_limit import UpdateLimiter
from collectors.gnmi.v1 import gnmi_lite_pb2, gnmi_pb2
from streams.instrument.clock import Clock
from streams.wire.errors import Reject, Retry
from streams.wire.models import CollectorStatus, Facts, Neighbor

_log = structlog.get_logger("railsight.gnmi")

_SILENT_CADENCES = 3
_SILENT_AT_LEAST_S = 15.0
_FACTS_BOUND_S = 15.0
_PROBE_S = 3.0


class DeviceReader:
    """Reads one device until cancelled. Randomness and time are arguments; a misbehaving device never ends it."""

    def __init__(
        self, target: Target, params: Params, secret: str, emitter: Emitter, metrics: CollectorMetrics, clock: Clock,
        rng: random.Random,
    ) -> None:  # fmt: skip
        self.name = target.name
        self.reachable = False
        self._target = target
        self._params = params
        self._secret = secret
        self._emitter = emitter
        self._metrics = metrics
        self._clock = clock
        self._rng = rng
        self._identity = DeviceIdentity()
        self._statuses = StatusSchedule(target.name, params.cadence_s, params.status_every_s)
        self._error = "not connected yet"
        self._failures = 0
        self._cadence_ns = int(params.cadence_s * 1e9)
        self._hints = DeviceHints()
        self._accepted: SubscriptionPlan | None = None
        self._facts: tuple[Subscription, ...] = ()
        self._unsynced = 0
        self._limiter = UpdateLimiter(params.max_updates_per_s, lambda: metrics.add("throttled", target.name))
        self._bursting = asyncio.Event()

    async def run(self) -> None:
        """Reconnect for ever, and report the reachability."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._report_status())
            tasks.create_task(self._stay_connected())

    async def _stay_connected(self) -> None:
        while True:
            try:
                async with Wire(self._target, self._params, self._secret) as wire:
                    await wire.connect()
                    await self._read(wire)
                why = "the device ended the stream"
            except (Retry, Reject) as error:
                why = str(error)
            self._metrics.add("reconnects", self.name)
            self._set_reachable(reachable=False, error=why)
            await asyncio.sleep(self._backoff_s())

    def _backoff_s(self) -> float:
        """Return the next delay, with full jitter: devices that failed together do not reconnect together."""
        self._failures = min(self._failures + 1, 30)
        bound = min(self._params.backoff_max_s, self._params.backoff_s * 2 ** (self._failures - 1))
        return float(bound * (0.5 + 0.5 * self._rng.random()))

    async def _read(self, wire: Wire) -> None:
        """Try each subscription plan until the device accepts one, then read until the stream ends."""
        hints = await wire.capabilities()
        profiles = chosen(self._target.profiles, hints)
        self._facts = tuple(subscription for profile in profiles for subscription in profile.facts)
        refused = Reject("the device supports none of the encodings that are configured")
        if hints != self._hints:  # another release, or another device at this address
            self._hints, self._accepted = hints, None
        if self._accepted is not None:
            try:
                return await self._subscribe(wire, self._accepted)
            except Reject:
                self._accepted = None
        for plan in subscription_plans.subscription_plans(self._params.encoding, profiles, hints):
            try:
                return await self._subscribe(wire, plan)
            except Reject as error:
                refused = error
            narrowed = replace(plan, subscriptions=await self._narrow(wire, plan))
            if narrowed.subscriptions and narrowed.subscriptions != plan.subscriptions:
                with contextlib.suppress(Reject):
                    return await self._subscribe(wire, narrowed)
        raise refused

    async def _narrow(self, wire: Wire, plan: SubscriptionPlan) -> tuple[Subscription, ...]:
        """Return the subscriptions that the device accepts one by one, in the other mode, or by their fallbacks."""
        accepted: list[Subscription] = []
        for subscription in plan.subscriptions:
            why = ""
            for narrowed in subscription.fallbacks():
                refusal = await self._refusal(
                    wire, subscription_plans.stream_request([narrowed], plan.encoding, self._cadence_ns)
                )
                why = why or refusal  # of the path as the profile has it
                if not refusal:
                    accepted.append(narrowed)
                    break
            else:
                _log.warning(
                    "path refused", device=self.name, path=subscription.path, encoding=name_of(plan.encoding), why=why,
                    effect="what only this path has is not read",
                )  # fmt: skip
        return tuple(dict.fromkeys(accepted))

    async def _refusal(self, wire: Wire, request: gnmi_pb2.SubscribeRequest) -> str:
        """Return the device's code and text if it refuses a request, empty if it accepts it.

        No answer is acceptance, because there may be no data yet.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PROBE_S), contextlib.aclosing(wire.stream(request)) as stream:
                try:
                    async for _ in stream:
                        break
                except Reject as error:
                    return str(error)
        return ""

    async def _subscribe(self, wire: Wire, plan: SubscriptionPlan) -> None:
        connection = Connection(
            self.name, self._params, self._identity, self._metrics, on_change=plan.on_change, mapping=plan.mapping
        )
        streams = [wire.stream(request) for request in plan.requests(self._cadence_ns)]
        self._unsynced = len(streams)
        watch = asyncio.create_task(self._watch(connection))
        facts = asyncio.create_task(self._request_facts(wire, plan))
        readings = [asyncio.create_task(self._consume(stream, connection, plan)) for stream in streams]
        try:
            done, _ = await asyncio.wait({watch, *readings}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await cancel_and_wait(watch, facts, *readings)

    async def _consume(
        self,
        stream: AsyncGenerator[bytes],
        connection: Connection,
        plan: SubscriptionPlan,
    ) -> None:
        async with contextlib.aclosing(stream):
            async for message in stream:
                received_ns = self._clock.now_ns()
                outputs = connection.process_known(message, received_ns)
                if outputs is None:
                    if (response := self._read_message(message)) is None:
                        continue
                    if not self.reachable:
                        self._on_accepted(plan)
                    if response.HasField("update"):
                        outputs = connection.process(response.update, received_ns, message)
                    else:
                        self._synced(connection)
                        continue
                if outputs:
                    self._emit_outputs(outputs, received_ns)
                if connection.is_bursting:
                    self._bursting.set()
                wait_s = self._limiter.delay_s(connection.work, received_ns)
                if wait_s > 0:
                    await asyncio.sleep(wait_s)

    def _on_accepted(self, plan: SubscriptionPlan) -> None:
        """Record that the device accepts the plan."""
        self._accepted, self._failures = plan, 0
        _log.info("subscribed", device=self.name, plan=str(plan))
        self._set_reachable(reachable=True)

    def _synced(self, connection: Connection) -> None:
        """Count a stream that has sent all its initial values."""
        self._unsynced -= 1
        if not self._unsynced:
            connection.synced()

    def _read_message(self, message: bytes) -> gnmi_lite_pb2.SubscribeResponse | None:
        """Return the decoded message; None, and counted, if it cannot be decoded: the next may be correct."""
        try:
            return gnmi_lite_pb2.SubscribeResponse.FromString(message)
        except DecodeError:
            self._metrics.add("unreadable", self.name)
            return None

    def _emit_outputs(self, outputs: Iterable[Output], received_ns: int) -> None:
        for output in outputs:
            if isinstance(output, Reading):
                self._emitter.samples(self.name, output)
                self._statuses.sampled(asyncio.get_running_loop().time())
            else:
                self._emitter.event(self.name, output, received_ns)

    async def _watch(self, connection: Connection) -> None:
        """Emit each reading once the device is quiet; raise Retry if it has sent no sample for too long."""
        silent_s = max(_SILENT_CADENCES * self._params.cadence_s, _SILENT_AT_LEAST_S)
        loop = asyncio.get_running_loop()
        last_s, before = loop.time(), self._identity.last_sample_at_ns
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._bursting.wait(), self._params.cadence_s)
            self._bursting.clear()
            if connection.is_bursting:
                self._bursting.set()
                await asyncio.sleep(self._params.quiet_s)
            now_ns = self._clock.now_ns()
            if (reading := connection.flush(now_ns)) is not None:
                self._emit_outputs([reading], now_ns)
            if self._identity.last_sample_at_ns != before:
                last_s, before = loop.time(), self._identity.last_sample_at_ns
            elif loop.time() - last_s > silent_s:
                raise Retry(f"no samples for {silent_s:.0f} s")

    async def _request_facts(self, wire: Wire, plan: SubscriptionPlan) -> None:
        """Request the facts of the device at intervals; facts that it does not send stay unknown."""
        while True:
            connection = Connection(
                self.name, self._params, self._identity, self._metrics, on_change=False, mapping=plan.mapping
            )  # fmt: skip
            for subscription in self._facts:
                with contextlib.suppress(Reject, Retry, TimeoutError):
                    async with asyncio.timeout(_FACTS_BOUND_S):
                        request = subscription_plans.once_request(subscription, plan.encoding)
                        async with contextlib.aclosing(wire.stream(request)) as stream:
                            async for message in stream:
                                response = self._read_message(message)
                                if response is None or not response.HasField("update"):
                                    continue
                                now_ns = self._clock.now_ns()
                                outputs = connection.process(response.update, now_ns)
                                self._emit_outputs((o for o in outputs if not isinstance(o, Reading)), now_ns)
            self._emit_facts()
            await asyncio.sleep(self._params.facts_every_s)

    def _emit_facts(self) -> None:
        if not self._identity.facts_changed:
            return
        self._identity.facts_changed = False
        fields = facts_fields(self._identity)
        fields["neighbors"] = tuple(Neighbor(*neighbor) for neighbor in fields["neighbors"])
        self._emitter.facts(Facts(self.name, self._clock.now_ns(), self._emitter.source, **fields))

    def _set_reachable(self, *, reachable: bool, error: str = "") -> None:
        if reachable == self.reachable and error == self._error:
            return
        log_reachability(_log, self.name, self.reachable, reachable=reachable, error=error)
        self.reachable, self._error = reachable, error
        self._publish_status()

    async def _report_status(self) -> None:
        cadence_s = self._params.cadence_s
        await asyncio.sleep(cadence_s * self._rng.random())
        while True:
            self._publish_status()
            await asyncio.sleep(cadence_s)

    def _publish_status(self) -> None:
        if not self._statuses.is_due(
            asyncio.get_running_loop().time(), reachable=self.reachable, error="" if self.reachable else self._error
        ):
            return
        offset_ns = self._identity.skew.offset_ns
        if self.reachable:
            self._metrics.set("clock_offset_seconds", offset_ns / 1e9, self.name)
        self._emitter.status(
            CollectorStatus(
                self._emitter.collector, self._emitter.run, self._emitter.source, self.name, self._clock.now_ns(),
                self.reachable, "" if self.reachable else self._error, self._identity.last_sample_at_ns,
                offset_ns if self.reachable else 0, int(self._params.cadence_s * 1e9),
            )
        )  # fmt: skip
