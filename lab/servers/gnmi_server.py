"""Serves the switches of the world over gNMI, each on its own loopback port. I/O only.

While a switch is unreachable its port is closed and its streams are cut. Set changes the configuration of ports.
"""

import asyncio
import contextlib
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import grpc
import grpc.aio

from collectors.gnmi.paths import to_text
from collectors.gnmi.v1 import gnmi_pb2
from lab.servers.gnmi_model import ENCODINGS, GnmiModel, Leaf, notifications
from lab.servers.gnmi_set import changes_of, response_to
from lab.servers.gnmi_subscriptions import (
    MODELS,
    Refusal,
    RefusedRequest,
    Subscriptions,
    check_encoding,
    requested_path,
)
from lab.world.demo_world import DemoWorld
from streams.fabric.ids import Port
from streams.instrument.clock import Clock
from streams.wire.errors import Misconfigured

_VERSION = "0.10.0"
_OPTIONS: tuple[tuple[str, Any], ...] = (
    ("grpc.so_reuseport", 0),
    # Collectors send keepalives every few seconds; gRPC's default would close their connections for that.
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
)
_LONGEST_SLEEP_S = 3600.0


class _Service:
    """The gNMI service of one switch."""

    def __init__(
        self, world: DemoWorld, device: str, clock: Clock, on_configured: Callable[[Iterable[str], int], None]
    ) -> None:
        self._world = world
        self._model = GnmiModel(world, device)
        self._on_configured = on_configured
        self._streams: set[asyncio.Queue[int]] = set()
        self._changes = self._planned_changes()
        self._clock = clock

    def _planned_changes(self) -> list[int]:
        """Return the times at which ports change; a rebooting switch does not report its own ports down first."""
        world, device = self._world, self._model.device
        return [moment for moment in world.changes(device) if world.device(device, moment).is_up]

    def handler(self) -> grpc.GenericRpcHandler:
        """Return the handlers of the calls."""
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Capabilities": grpc.unary_unary_rpc_method_handler(
                self._capabilities, gnmi_pb2.CapabilityRequest.FromString, gnmi_pb2.CapabilityResponse.SerializeToString
            ),
            "Get": grpc.unary_unary_rpc_method_handler(
                self._get, gnmi_pb2.GetRequest.FromString, gnmi_pb2.GetResponse.SerializeToString
            ),
            "Set": grpc.unary_unary_rpc_method_handler(
                self._set, gnmi_pb2.SetRequest.FromString, gnmi_pb2.SetResponse.SerializeToString
            ),
            "Subscribe": grpc.stream_stream_rpc_method_handler(
                self._subscribe, gnmi_pb2.SubscribeRequest.FromString, gnmi_pb2.SubscribeResponse.SerializeToString
            ),
        }
        return grpc.method_handlers_generic_handler("gnmi.gNMI", handlers)

    async def _capabilities(
        self, request: gnmi_pb2.CapabilityRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> gnmi_pb2.CapabilityResponse:
        models = [
            gnmi_pb2.ModelData(name=name, organization="OpenConfig working group", version=version)
            for name, version in MODELS
        ]
        return gnmi_pb2.CapabilityResponse(
            supported_models=models, supported_encodings=ENCODINGS, gNMI_version=_VERSION
        )

    async def _get(
        self, request: gnmi_pb2.GetRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> gnmi_pb2.GetResponse:
        response = gnmi_pb2.GetResponse()
        try:
            check_encoding(request.encoding, request.use_models)
            at_ns = self._clock.now_ns()
            for path in request.path or [gnmi_pb2.Path()]:
                elems = requested_path(request.prefix, path)
                leaves = self._model.matching_leaves(elems)
                if not leaves:
                    raise RefusedRequest(Refusal.NOT_FOUND, f"no such path: {to_text(elems)}")
                depth = len(elems) if request.encoding != gnmi_pb2.PROTO else None
                values = self._model.values(_of_type(leaves, request.type), at_ns)
                response.notification.extend(
                    notifications(
                        values, self._model.clock_ns(at_ns), request.encoding, request.prefix, blob_depth=depth
                    )
                )
        except RefusedRequest as error:
            await context.abort(grpc.StatusCode[error.code.name], str(error))
        return response

    async def _set(
        self, request: gnmi_pb2.SetRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> gnmi_pb2.SetResponse:
        at_ns = self._clock.now_ns()
        try:
            changes = changes_of(self._model, request, at_ns)
        except RefusedRequest as error:
            await context.abort(grpc.StatusCode[error.code.name], str(error))
        changed: set[str] = set()
        for (port, setting), value in changes.items():
            changed.update(self._world.configure(Port(self._model.device, port), setting, value, at_ns))
        self._on_configured(changed, at_ns)
        return response_to(request, at_ns)

    def configured(self, at_ns: int) -> None:
        """Wake the streams, because a port of this switch, and thus its future state, changed."""
        self._changes = self._planned_changes()
        for stream in self._streams:
            stream.put_nowait(at_ns)

    async def _subscribe(
        self,
        requests: AsyncIterator[gnmi_pb2.SubscribeRequest],
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[gnmi_pb2.SubscribeResponse]:
        first = await anext(aiter(requests), None)
        if first is None or not first.HasField("subscribe"):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message must be a subscription")
        wanted = first.subscribe
        try:
            subscriptions = Subscriptions(self._model, wanted)
        except RefusedRequest as error:
            await context.abort(grpc.StatusCode[error.code.name], str(error))
        match wanted.mode:
            case gnmi_pb2.SubscriptionList.POLL:
                # OpenConfig's own server sends the first answer without a poll, and its client waits for it.
                for response in self._snapshot(subscriptions):
                    yield response
                async for request in requests:
                    if not request.HasField("poll"):
                        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "only Poll may follow")
                    for response in self._snapshot(subscriptions):
                        yield response
            case gnmi_pb2.SubscriptionList.ONCE:
                for response in self._snapshot(subscriptions):
                    yield response
            case _:
                async for response in self._stream(subscriptions):
                    yield response

    def _snapshot(self, subscriptions: Subscriptions) -> Iterable[gnmi_pb2.SubscribeResponse]:
        for notification in subscriptions.initial(self._clock.now_ns()):
            yield gnmi_pb2.SubscribeResponse(update=notification)
        yield gnmi_pb2.SubscribeResponse(sync_response=True)

    async def _stream(self, subscriptions: Subscriptions) -> AsyncIterator[gnmi_pb2.SubscribeResponse]:
        sent_ns = self._clock.now_ns()
        configured: asyncio.Queue[int] = asyncio.Queue()
        self._streams.add(configured)
        try:
            for response in self._snapshot(subscriptions):
                yield response
            while True:
                due_ns, change_ns = subscriptions.due_ns(), self._next_change(sent_ns)
                changed_ns = await self._until(
                    min((m for m in (due_ns, change_ns) if m is not None), default=None), configured
                )
                now_ns = self._clock.now_ns()
                moments = set() if changed_ns is None else {changed_ns}
                # Each change is sent with its own time, even if one iteration handles two.
                moments.update(self._changes_between(sent_ns, now_ns))
                sent_ns = max(sent_ns, now_ns)
                for moment in sorted(moments):
                    for notification in subscriptions.changed(moment):
                        yield gnmi_pb2.SubscribeResponse(update=notification)
                if due_ns is not None and due_ns <= now_ns:
                    for notification in subscriptions.due(now_ns):
                        yield gnmi_pb2.SubscribeResponse(update=notification)
        finally:
            self._streams.discard(configured)

    def _next_change(self, after_ns: int) -> int | None:
        place = bisect_right(self._changes, after_ns)
        return self._changes[place] if place < len(self._changes) else None

    def _changes_between(self, after_ns: int, until_ns: int) -> list[int]:
        return self._changes[bisect_right(self._changes, after_ns) : bisect_right(self._changes, until_ns)]

    async def _until(self, moment_ns: int | None, configured: asyncio.Queue[int]) -> int | None:
        """Wait until a moment, or until a port is configured; in that case return the time of the configuration."""
        left_s = _LONGEST_SLEEP_S if moment_ns is None else (moment_ns - self._clock.now_ns()) / 1e9
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(max(left_s, 0.0), _LONGEST_SLEEP_S)):
                return await configured.get()
        return None


def _of_type(leaves: list[Leaf], kind: int) -> list[Leaf]:
    """Return the leaves of a data type of Get; an operational leaf is a state that cannot be configured."""
    match kind:
        case gnmi_pb2.GetRequest.ALL:
            return leaves
        case gnmi_pb2.GetRequest.CONFIG:
            return [leaf for leaf in leaves if leaf.setting is not None]
        case _:
            return [leaf for leaf in leaves if leaf.setting is None]


class GnmiServers:
    """The servers of all switches, with TLS if credentials are given; `addresses` is set once entered."""

    def __init__(
        self, world: DemoWorld, clock: Clock, host: str = "127.0.0.1", tls: grpc.ServerCredentials | None = None
    ) -> None:
        self._world = world
        self._clock = clock
        self._host = host
        self._tls = tls
        self._servers: dict[str, grpc.aio.Server] = {}
        self._services: dict[str, _Service] = {}
        self._reboots: list[asyncio.Task[None]] = []
        self.addresses: dict[str, str] = {}

    async def __aenter__(self) -> "GnmiServers":
        for device in self._world.switches:
            await self.open(device)
        self._reboots = [
            asyncio.create_task(self._follow(device))
            for device in self._world.switches
            if self._world.unreachable(device)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._reboots:
            task.cancel()
        await asyncio.gather(*self._reboots, return_exceptions=True)
        await asyncio.gather(*(self.close(device) for device in list(self._servers)))

    async def open(self, device: str) -> None:
        """Start a switch's server, on its previous port if it had one."""
        server = grpc.aio.server(options=_OPTIONS)
        service = self._services[device] = _Service(self._world, device, self._clock, self.wake)
        server.add_generic_rpc_handlers((service.handler(),))
        wanted = self.addresses.get(device, f"{self._host}:0")
        try:
            port = server.add_secure_port(wanted, self._tls) if self._tls else server.add_insecure_port(wanted)
        except RuntimeError as error:
            raise Misconfigured(f"{device}: cannot listen on {wanted}: {error}") from error
        self.addresses[device] = f"{self._host}:{port}"
        await server.start()
        self._servers[device] = server

    async def close(self, device: str) -> None:
        """Stop a switch's server at once and cut its streams."""
        server = self._servers.pop(device, None)
        if server is not None:
            await server.stop(None)

    def wake(self, devices: Iterable[str], at_ns: int) -> None:
        """Wake the streams of switches on which a port changed."""
        for device in devices:
            if device in self._services:
                self._services[device].configured(at_ns)

    async def _follow(self, device: str) -> None:
        """Close and open a switch's server when the world makes it unreachable."""
        for interval in self._world.unreachable(device):
            if interval.end_ns <= self._clock.now_ns():
                continue
            await self._sleep_until(interval.start_ns)
            await self.close(device)
            await self._sleep_until(interval.end_ns)
            with contextlib.suppress(Misconfigured):  # the port may be in use by then: the switch stays unreachable
                await self.open(device)

    async def _sleep_until(self, at_ns: int) -> None:
        await asyncio.sleep(max(0.0, (at_ns - self._clock.now_ns()) / 1e9))
