"""Reads one device: connects, subscribes, reads, and reconnects when the stream ends.

Combines reading (I/O), parsing (pure) and publishing; handles backoff, narrower subscriptions, and a silent device.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator
from dataclasses import replace

import structlog

from collectors.core.columns import Reading
from collectors.core.context import Emitter
from collectors.core.metrics import CollectorMetrics
from collectors.core.tasks import cancel_and_wait
from collectors.gnmi import subscription_plans
from collectors.gnmi.device_output import DeviceOutput
from collectors.gnmi.feed import Feed, decoded
from collectors.gnmi.params import Params, Target
from collectors.gnmi.parse import Connection
from collectors.gnmi.profile import DeviceHints, Subscription, chosen
from collectors.gnmi.read import Wire
from collectors.gnmi.subscription_plans import SubscriptionPlan, name_of
from collectors.gnmi.v1 import gnmi_pb2
from streams.instrument.clock import Clock
from streams.wire.errors import Reject, Retry

_log = structlog.get_logger("railsight.gnmi")

_FACTS_BOUND_S = 15.0
_PROBE_S = 3.0


class DeviceReader:
    """Reads one device until cancelled. Randomness and time are arguments; a misbehaving device never ends it."""

    def __init__(
        self, target: Target, params: Params, secret: str, emitter: Emitter, metrics: CollectorMetrics, clock: Clock,
        rng: random.Random,
    ) -> None:  # fmt: skip
        self.name = target.name
        self._target = target
        self._params = params
        self._secret = secret
        self._output = DeviceOutput(target.name, params.cadence_s, params.status_every_s, emitter, metrics, clock)
        self._metrics = metrics
        self._clock = clock
        self._rng = rng
        self._failures = 0
        self._cadence_ns = int(params.cadence_s * 1e9)
        self._hints = DeviceHints()
        self._accepted: SubscriptionPlan | None = None
        self._facts: tuple[Subscription, ...] = ()

    async def run(self) -> None:
        """Reconnect for ever, and report the reachability."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._output.report_status(self._rng.random()))
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
            self._output.set_reachable(reachable=False, error=why)
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
                why = why or refusal  # the refusal of the profile's own path
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
        """Return the code and text with which the device refuses a request, empty if it accepts it.

        A missing answer counts as acceptance, because there may be no data yet.
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
            self.name, self._params, self._output.identity, self._metrics, on_change=plan.on_change,
            mapping=plan.mapping,
        )  # fmt: skip
        streams = [wire.stream(request) for request in plan.requests(self._cadence_ns)]
        feed = Feed(
            connection, self._output, self._params, self._metrics, self._clock,
            on_response=lambda: self._on_response(plan), unsynced=len(streams),
        )  # fmt: skip
        watch = asyncio.create_task(feed.watch())
        facts = asyncio.create_task(self._request_facts(wire, plan))
        readings = [asyncio.create_task(_consume(stream, feed)) for stream in streams]
        try:
            done, _ = await asyncio.wait({watch, *readings}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await cancel_and_wait(watch, facts, *readings)

    def _on_response(self, plan: SubscriptionPlan) -> None:
        """Record that the device accepts the plan, at its first message."""
        if self._output.reachable:
            return
        self._accepted, self._failures = plan, 0
        _log.info("subscribed", device=self.name, plan=str(plan))
        self._output.set_reachable(reachable=True)

    async def _request_facts(self, wire: Wire, plan: SubscriptionPlan) -> None:
        """Request the facts of the device at intervals; facts that the device does not send stay unknown."""
        while True:
            connection = Connection(
                self.name, self._params, self._output.identity, self._metrics, on_change=False, mapping=plan.mapping
            )  # fmt: skip
            for subscription in self._facts:
                with contextlib.suppress(Reject, Retry, TimeoutError):
                    async with asyncio.timeout(_FACTS_BOUND_S):
                        request = subscription_plans.once_request(subscription, plan.encoding)
                        async with contextlib.aclosing(wire.stream(request)) as stream:
                            async for message in stream:
                                response = decoded(message, self.name, self._metrics)
                                if response is None or not response.HasField("update"):
                                    continue
                                now_ns = self._clock.now_ns()
                                outputs = connection.process(response.update, now_ns)
                                self._output.emit((o for o in outputs if not isinstance(o, Reading)), now_ns)
            self._output.emit_facts()
            await asyncio.sleep(self._params.facts_every_s)


async def _consume(stream: AsyncGenerator[bytes], feed: Feed) -> None:
    async with contextlib.aclosing(stream):
        async for message in stream:
            await feed.add(message)
