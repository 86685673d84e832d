"""Serves the dial-out services of gRPC: Arista's gNMIReverse, Nokia's DialoutTelemetry, Cisco's gRPCMdtDialout. I/O.

The first two carry gNMI's SubscribeResponse. A device past its rate is read more slowly, which gRPC's flow control
passes on to it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NoReturn

import grpc
import grpc.aio
import structlog
from google.protobuf.message import DecodeError

from collectors.core.context import CollectorContext, Emitter
from collectors.core.metrics import CollectorMetrics
from collectors.core.tasks import cancel_and_wait
from collectors.dialout.mdt import Assembly, notifications
from collectors.dialout.params import Params, Pem, Target, candidates, named, peer_of
from collectors.gnmi.device_output import DeviceOutput
from collectors.gnmi.feed import Feed
from collectors.gnmi.parse import Connection
from collectors.gnmi.path_mapping import path_mapping
from collectors.gnmi.v1 import gnmi_pb2
from streams.wire.errors import Misconfigured, Reject, Retry

_log = structlog.get_logger("railsight.dialout")

_LOG_INTERVAL_S = 60.0
_MOST_LOGGED = 1000
"""Limit of subjects whose last log line is remembered; past it, all are removed."""
_OPTIONS: tuple[tuple[str, Any], ...] = (
    ("grpc.so_reuseport", 0),
    # Devices send keepalives every few seconds; gRPC's default would close their connections for that.
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.server_handshake_timeout_ms", 5_000),
    # Without these, connections of strangers that send nothing take all files of the process.
    ("grpc.max_connection_idle_ms", 30_000),
)
_OF_A_TARGET, _OF_STRANGERS = 4, 256
_STOP_S = 0.2
_ENDED = "the device ended its streams"

Messages = AsyncIterator[bytes]
Context = grpc.aio.ServicerContext[bytes, bytes]


class DialOutDevice:
    """One device; it runs until cancelled, with or without streams."""

    def __init__(self, target: Target, params: Params, context: CollectorContext, emitter: Emitter) -> None:
        self.target = target
        self._params = params
        self._context = context
        self._output = DeviceOutput(target.name, params, emitter, context.metrics, context.clock)
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
        """True if the device has reached its limit of streams."""
        return self._streams >= self._params.max_streams

    @contextlib.contextmanager
    def stream(self) -> Iterator[Feed]:
        """Yield the feed that all streams of the device share; the device is unreachable after the last one ends."""
        if self._feed is None:
            # It is unknown here if a leaf is sampled or sent on change: a state is valid until it changes.
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
        """Emit readings; a connected device that is silent is unreachable until it sends again."""
        while True:
            try:
                await feed.watch()
            except Retry as error:
                self._output.set_reachable(reachable=False, error=str(error))

    async def _report_facts(self) -> None:
        while True:
            await asyncio.sleep(self._params.cadence_s)
            self._output.emit_facts()


class DialOutServer(grpc.GenericRpcHandler):
    """Admits streams of the current `devices`, by name, and passes their messages to them."""

    def __init__(self, params: Params, metrics: CollectorMetrics) -> None:
        self.devices: dict[str, DialOutDevice] = {}
        self._params = params
        self._metrics = metrics
        self._keys_of = path_mapping().keys_of
        self._logged_s: dict[tuple[str, str], float] = {}
        self._methods: dict[str, Any] = {
            "/gnmireverse.gNMIReverse/Publish": grpc.stream_unary_rpc_method_handler(self._receive_gnmi),
            "/Nokia.SROS.DialoutTelemetry/Publish": grpc.stream_stream_rpc_method_handler(self._receive_gnmi),
            "/mdt_dialout.gRPCMdtDialout/MdtDialout": grpc.stream_stream_rpc_method_handler(self._receive_mdt),
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._methods.get(handler_call_details.method)

    async def serve(self, on_listening: Callable[[int], None]) -> None:
        """Listen until cancelled; `on_listening` receives the port. Raises Misconfigured."""
        params = self._params
        secure, most = credentials(lambda: params.pem("dialout")), most_connections(len(params.all_targets()))
        server, port = await started(self, params.address(), params.max_message_bytes, secure, "dialout", most)
        on_listening(port)
        try:
            await server.wait_for_termination()
        finally:
            await server.stop(_STOP_S)

    async def _receive_gnmi(self, messages: Messages, context: Context) -> bytes:
        possible = await self._admitted(context)
        with contextlib.ExitStack() as stack:
            feed = None
            async for message in messages:
                if feed is None:
                    feed = stack.enter_context((await self._device(possible, _target_of(message), context)).stream())
                await feed.add(message)
        return b""

    async def _receive_mdt(self, messages: Messages, context: Context) -> None:
        possible = await self._admitted(context)
        assembly = Assembly(self._params.max_message_bytes)
        feeds: dict[str, Feed] = {}
        with contextlib.ExitStack() as stack:
            async for message in messages:
                try:
                    telemetry = assembly.add(message)
                    if telemetry is None:
                        continue
                    node = telemetry.node_id_str
                    if node not in feeds:
                        device = await self._device(possible, node, context)
                        feeds[node] = stack.enter_context(device.stream())
                    await feeds[node].charge(message)
                    for notification in notifications(telemetry, self._keys_of):
                        await feeds[node].add_notification(notification)
                except Reject as error:
                    names = ", ".join(device.target.name for device in possible)
                    self._metrics.add("unreadable", names)
                    self._warn("message left out", names, why=str(error))

    async def _admitted(self, context: Context) -> tuple[DialOutDevice, ...]:
        """Return the devices that match a connection; end its stream if there are none."""
        peer = peer_of(context.peer(), context.auth_context())
        by_certificate = self._params.client_ca_file is not None
        targets = [device.target for device in self.devices.values()]
        possible = candidates(targets, peer, by_certificate=by_certificate)
        if not possible:
            names = f" with a certificate of {', '.join(sorted(peer.names))[:200]}" if by_certificate else ""
            await self._refuse(
                context, grpc.StatusCode.PERMISSION_DENIED, f"{peer.address}{names} is none of the targets"
            )
        return tuple(self.devices[target.name] for target in possible)

    async def _device(self, possible: tuple[DialOutDevice, ...], node: str, context: Context) -> DialOutDevice:
        target = named([device.target for device in possible], node)
        device = next((device for device in possible if device.target is target), None)
        if device is None:
            names = ", ".join(device.target.node_name for device in possible)
            why = f"it names itself {node[:200]!r}; expected: {names[:200]}"
            return await self._refuse(context, grpc.StatusCode.PERMISSION_DENIED, why)
        if device.is_full:
            why = f"{device.target.name} has {self._params.max_streams} streams, the most (max_streams)"
            return await self._refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, why)
        return device

    async def _refuse(self, context: Context, code: grpc.StatusCode, why: str) -> NoReturn:
        """Count and log the refusal, and end the stream; raises gRPC's exception that ends a handler."""
        self._metrics.add("not_admitted")
        self._warn("stream refused", context.peer().rpartition(":")[0], why=why, next="see collect.dialout targets")
        await context.abort(code, why)
        raise AssertionError("abort returned")

    def _warn(self, event: str, subject: str, **fields: str) -> None:
        """Log once a minute for each event and subject."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._logged_s.get((event, subject), -_LOG_INTERVAL_S) < _LOG_INTERVAL_S:
            return
        if len(self._logged_s) >= _MOST_LOGGED:
            self._logged_s.clear()
        self._logged_s[event, subject] = now_s
        _log.warning(event, subject=subject, **fields)


def _target_of(message: bytes) -> str:
    """Return the target that a gNMI message names, empty if none."""
    try:
        return gnmi_pb2.SubscribeResponse.FromString(message).update.prefix.target
    except DecodeError:
        return ""


def credentials(read: Callable[[], Pem | None]) -> grpc.ServerCredentials | None:
    """Return the TLS credentials, whose files are read again at each handshake; None without TLS."""
    pem = read()
    if pem is None:
        return None

    def configuration() -> Any:
        nonlocal pem
        try:
            pem = read()
        except Misconfigured as error:
            _log.error("certificate not read again, the old one stays in force", why=str(error))
        assert pem is not None
        key, certificate, authority = pem
        return grpc.ssl_server_certificate_configuration([(key, certificate)], authority)

    return grpc.dynamic_ssl_server_credentials(
        configuration(), configuration, require_client_authentication=pem[2] is not None
    )


def most_connections(targets: int) -> int:
    """Return the limit of connections of a server: those of its targets, and some whose sender is not known yet."""
    return _OF_A_TARGET * targets + _OF_STRANGERS


async def started(
    handler: grpc.GenericRpcHandler, listen: str, size: int, secure: grpc.ServerCredentials | None, kind: str, most: int
) -> tuple[grpc.aio.Server, int]:
    """Return a server that listens, and its port; `size` is the largest message in bytes, `most` the connections.

    Raises Misconfigured.
    """
    limits = ("grpc.max_receive_message_length", size), ("grpc.max_allowed_incoming_connections", most)
    server = grpc.aio.server(options=(*_OPTIONS, *limits))
    server.add_generic_rpc_handlers((handler,))
    try:
        port = server.add_insecure_port(listen) if secure is None else server.add_secure_port(listen, secure)
    except RuntimeError as error:
        raise Misconfigured(
            f"collect.{kind}: cannot listen on {listen}: in use, or no address of this machine"
        ) from error
    await server.start()
    _log.info("listening", address=listen, port=port, tls=secure is not None)
    return server, port
