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
from collectors.core.device_share import in_slices
from collectors.core.metrics import CollectorMetrics
from collectors.core.tasks import cancel_and_wait
from collectors.gnmi import subscription_plans
from collectors.gnmi.device_output import DeviceOutput
from collectors.gnmi.feed import Feed, cost, decoded
from collectors.gnmi.params import Params, Target
from collectors.gnmi.parse import Connection
from collectors.gnmi.profile import DeviceHints, Subscription, chosen
from collectors.gnmi.read import Refused, Wire
from collectors.gnmi.subscription_plans import SubscriptionPlan, name_of
from collectors.gnmi.v1 import gnmi_pb2
from streams.instrument.clock import Clock
from streams.wire.errors import Reject, Retry

_log = structlog.get_logger("railsight.gnmi")

_FACTS_BOUND_S = 15.0
_PROBE_S = 3.0
_RELEASE_S = 0.5
"""A device counts a cancelled subscription until it has processed the cancellation."""
_LIMITED_PATHS = 2
"""If a device refuses this many paths as out of range and has accepted none, it refuses the RPC, not the path."""


class _Responses:
    """Records which streams of a plan have sent a message."""

    def __init__(self, streams: int) -> None:
        self._silent = set(range(streams))
        self.any, self.every = asyncio.Event(), asyncio.Event()

    def add(self, stream: int) -> None:
        """Record a message of a stream."""
        if stream in self._silent:
            self._silent.discard(stream)
            self.any.set()
            if not self._silent:
                self.every.set()


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
        self._output = DeviceOutput(target.name, params, emitter, metrics, clock)
        self._metrics = metrics
        self._clock = clock
        self._rng = rng
        self._failures = 0
        self._cadence_ns = int(params.cadence_s * 1e9)
        self._hints = DeviceHints()
        self._accepted: SubscriptionPlan | None = None
        self._facts: tuple[Subscription, ...] = ()
        self._has_facts_first = False
        """True if the device allows no further Subscribe RPC beside the streams: facts are read between streams."""

    async def run(self) -> None:
        """Reconnect for ever, and report the reachability."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._output.report_status(self._rng.random()))
            tasks.create_task(self._stay_connected())

    async def _stay_connected(self) -> None:
        identity = self._output.identity
        while True:
            before_ns = identity.last_received_ns
            try:
                async with Wire(self._target, self._params, self._secret) as wire:
                    await wire.connect()
                    await self._read(wire)
                why = "the device ended the stream"
            except (Retry, Reject) as error:
                why = str(error)
            if identity.last_received_ns != before_ns:
                self._failures = 0  # only data shows that a connection works: a device may accept and refuse at once
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
            with contextlib.suppress(Reject):
                if isinstance(refused, Refused) and refused.may_be_limit and await self._is_limited(wire, plan):
                    return await self._subscribe_part(wire, plan, refused)
            narrowed = replace(plan, subscriptions=await self._narrow(wire, plan))
            if narrowed.subscriptions and narrowed.subscriptions != plan.subscriptions:
                with contextlib.suppress(Reject):
                    return await self._subscribe(wire, narrowed)
        raise refused

    async def _is_limited(self, wire: Wire, plan: SubscriptionPlan) -> bool:
        """Return True if the device accepts each of several streams alone, so that it refuses only their number."""
        requests = plan.requests(self._cadence_ns)
        for request in requests:
            await asyncio.sleep(_RELEASE_S)
            if await self._refusal(wire, request) is not None:
                return False
        return len(requests) > 1

    async def _subscribe_part(self, wire: Wire, plan: SubscriptionPlan, refused: Refused) -> None:
        """Subscribe to as many schemas as the device allows streams. Raises Reject if it allows none."""
        for part in plan.parts():
            await asyncio.sleep(_RELEASE_S)
            try:
                return await self._subscribe(wire, part)
            except Refused as error:
                refused = error
        raise refused

    async def _narrow(self, wire: Wire, plan: SubscriptionPlan) -> tuple[Subscription, ...]:
        """Return the subscriptions that the device accepts one by one, in the other mode, or by their fallbacks.

        Raises Retry if the device refuses several in a row because it has too many subscriptions of others.
        """
        accepted: list[Subscription] = []
        limited = 0
        for subscription in plan.subscriptions:
            why: Refused | None = None
            is_limit = True
            for narrowed in subscription.fallbacks():
                refusal = await self._refusal(
                    wire, subscription_plans.stream_request([narrowed], plan.encoding, self._cadence_ns)
                )
                if refusal is None:
                    accepted.append(narrowed)
                    limited = 0
                    break
                why = why or refusal  # the refusal of the profile's own path
                is_limit = is_limit and refusal.may_be_limit
            else:
                limited = limited + 1 if is_limit else 0
                if limited >= _LIMITED_PATHS and not accepted:
                    raise Retry(f"{why}; the device may have as many subscriptions as it allows")
                _log.warning(
                    "path refused", device=self.name, path=subscription.path, encoding=name_of(plan.encoding),
                    why=str(why), effect="what only this path has is not read",
                )  # fmt: skip
        return tuple(dict.fromkeys(accepted))

    async def _refusal(self, wire: Wire, request: gnmi_pb2.SubscribeRequest) -> Refused | None:
        """Return the refusal of a request; None if the device accepts it.

        A missing answer counts as acceptance, because there may be no data yet.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PROBE_S), contextlib.aclosing(wire.stream(request)) as stream:
                try:
                    async for _ in stream:
                        break
                except Refused as error:
                    return error
        return None

    async def _subscribe(self, wire: Wire, plan: SubscriptionPlan) -> None:
        """Read streams until the device ends one; if it allows no further RPC, facts are read between streams."""
        while True:
            if self._has_facts_first:
                await self._read_facts(wire, plan)
                await asyncio.sleep(_RELEASE_S)
            if not await self._stream(wire, plan):
                return

    async def _stream(self, wire: Wire, plan: SubscriptionPlan) -> bool:
        """Read the streams of a plan until one ends; return True if only the facts are due."""
        connection = Connection(
            self.name, self._params, self._output.identity, self._metrics, on_change=plan.on_change,
            mapping=plan.mapping,
        )  # fmt: skip
        streams = [wire.stream(request) for request in plan.requests(self._cadence_ns)]
        feed = Feed(
            connection, self._output, self._params, self._metrics, self._clock,
            on_response=lambda: None, unsynced=len(streams),
        )  # fmt: skip
        responses = _Responses(len(streams))
        watch = asyncio.create_task(feed.watch())
        facts = asyncio.create_task(self._request_facts(wire, plan, responses))
        readings = [asyncio.create_task(_consume(stream, feed, responses, n)) for n, stream in enumerate(streams)]
        try:
            done, _ = await asyncio.wait({watch, facts, *readings}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            return done == {facts}
        finally:
            await cancel_and_wait(watch, facts, *readings)

    async def _accept(self, plan: SubscriptionPlan, responses: _Responses) -> None:
        """Record that the device accepts the plan, after a message of each stream; some may have no data for a while.

        A device with a limit of RPCs refuses one of several streams: with the first response alone, the plan would be
        tried at each connection.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PROBE_S):
                await responses.every.wait()
        await responses.any.wait()
        if self._output.reachable and plan is self._accepted:
            return
        self._accepted = plan
        _log.info("subscribed", device=self.name, plan=str(plan))
        if plan.left_out:
            _log.warning(
                "device limits its subscriptions", device=self.name, not_read=[one.path for one in plan.left_out],
                next="raise the device's limit of Subscribe RPCs, or end its other gNMI clients",
            )  # fmt: skip
        self._output.set_reachable(reachable=True)

    async def _request_facts(self, wire: Wire, plan: SubscriptionPlan, responses: _Responses) -> None:
        """Request the facts of the device at intervals; end if the streams must end before.

        The streams are first: a device may allow as many RPCs as there are streams.
        """
        await self._accept(plan, responses)
        if self._has_facts_first:
            await asyncio.sleep(self._params.facts_every_s)
            return
        while True:
            if await self._read_facts(wire, plan):
                self._has_facts_first = True
                _log.warning(
                    "facts refused beside streams", device=self.name,
                    effect="streams end while facts are read, at the start and at collect.gnmi.facts_every_s",
                )  # fmt: skip
                return
            await asyncio.sleep(self._params.facts_every_s)

    async def _read_facts(self, wire: Wire, plan: SubscriptionPlan) -> bool:
        """Request the facts once; return True if a limit of RPCs refused each. Facts that are not sent stay unknown."""
        connection = Connection(
            self.name, self._params, self._output.identity, self._metrics, on_change=False, mapping=plan.mapping
        )  # fmt: skip
        limited = 0
        for subscription in self._facts:
            if self._has_facts_first:
                await asyncio.sleep(_RELEASE_S)
            try:
                async with asyncio.timeout(_FACTS_BOUND_S):
                    request = subscription_plans.once_request(subscription, plan.encoding)
                    async with contextlib.aclosing(wire.stream(request)) as stream:
                        async for message in stream:
                            await self._output.share.charge(cost(message))
                            response = decoded(message, self.name, self._metrics)
                            if response is None or not response.HasField("update"):
                                continue
                            now_ns = self._clock.now_ns()
                            await in_slices(connection.slices(response.update, now_ns, message))
                            self._output.emit((o for o in connection.outputs if not isinstance(o, Reading)), now_ns)
            except Refused as refusal:
                limited += refusal.may_be_limit
            except (Reject, Retry, TimeoutError) as error:
                _log.info("facts not read", device=self.name, path=subscription.path, why=str(error) or "timeout")
        self._output.emit_facts()
        return limited == len(self._facts) > 0


async def _consume(stream: AsyncGenerator[bytes], feed: Feed, responses: _Responses, number: int) -> None:
    async with contextlib.aclosing(stream):
        if (first := await anext(stream, None)) is not None:
            responses.add(number)
            await feed.add(first)
        async for message in stream:
            await feed.add(message)
