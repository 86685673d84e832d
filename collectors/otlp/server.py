"""Serves OTLP: gRPC and HTTP, protobuf and JSON, gzip. I/O only; bounds the size and time of each request.

A sender is admitted before its request is read, and charged for its bytes before they are parsed.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

import grpc
import grpc.aio
import orjson
import structlog
from aiohttp import web

from collectors.core.device_share import json_elements
from collectors.dialout.params import Peer, certificate_names, peer_of, plain
from collectors.dialout.server import credentials, most_connections, started
from collectors.otlp.delivery import Overload
from collectors.otlp.params import Params
from collectors.otlp.points import from_json, from_protobuf
from collectors.otlp.receiver import Forbidden, Receiver
from streams.fabric import decompression
from streams.health.bounded_server import BoundedServer
from streams.health.http_names import is_rebound
from streams.wire.errors import Misconfigured, Reject
from streams.wire.v1 import otlp_pb2 as otlp

_log = structlog.get_logger("railsight.otlp")

METHOD = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
PATH = "/v1/metrics"
_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_STOP_S = 0.2
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
_DETAILS = "grpc-status-details-bin"
_IN_THREAD = 1 << 16
"""A compressed body of more bytes is decompressed in a thread."""
_HEADER_BYTES = 8 << 10
_KEEPALIVE_S, _HANDSHAKE_S = 75.0, 5.0
_INVALID, _FORBIDDEN, _EXHAUSTED, _UNAVAILABLE = 3, 7, 8, 14

Messages = AsyncIterator[bytes]
Context = grpc.aio.ServicerContext[bytes, bytes]


class GrpcService(grpc.GenericRpcHandler):
    """The metrics service. It is declared as a stream, so that a sender is admitted before its message is read."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._handler: Any = grpc.stream_unary_rpc_method_handler(self._export)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._handler if handler_call_details.method == METHOD else None

    async def _export(self, messages: Messages, context: Context) -> bytes:
        try:
            sender = self._receiver.sender(peer_of(context.peer(), context.auth_context()))
            with self._receiver.request(sender):
                # Not in a variable, which would store the message until the answer.
                answer = await self._receiver.process(sender, await anext(aiter(messages), b""), from_protobuf)
                return answer.response().SerializeToString()
        except Forbidden as error:
            await _abort(context, grpc.StatusCode.PERMISSION_DENIED, str(error))
        except Reject as error:
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except Overload as error:
            details = (_DETAILS, _status(_UNAVAILABLE, str(error), error.after_s).SerializeToString())
            await _abort(context, grpc.StatusCode.UNAVAILABLE, str(error), details)


async def _abort(context: Context, code: grpc.StatusCode, why: str, *metadata: tuple[str, bytes]) -> NoReturn:
    await context.abort(code, why, metadata)
    raise AssertionError("abort returned")


def _status(code: int, why: str, after_s: float | None = None) -> otlp.Status:
    status = otlp.Status(code=code, message=why)
    if after_s is not None:
        seconds = int(after_s)
        delay = otlp.RetryDelay(seconds=seconds, nanos=int((after_s - seconds) * 1e9))
        status.details.add(type_url=_RETRY_INFO, value=otlp.RetryInfo(retry_delay=delay).SerializeToString())
    return status


class HttpService:
    """The HTTP form of the service: POST to one path."""

    def __init__(self, receiver: Receiver, params: Params) -> None:
        self._receiver = receiver
        self._params = params

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        is_json = request.content_type == _JSON
        try:
            if is_rebound(_local_address(request), request.headers.get("Host")):
                return _error(421, _FORBIDDEN, "Host is not a name of this machine", is_json=is_json)
            if request.path != PATH:
                return _error(404, _INVALID, f"the path is {PATH}", is_json=is_json)
            if request.method != "POST":
                return _error(405, _INVALID, "the method is POST", is_json=is_json)
            if not is_json and request.content_type != _PROTOBUF:
                return _error(415, _INVALID, f"the content is {_PROTOBUF} or {_JSON}", is_json=is_json)
            sender = self._receiver.sender(_peer(request))
            with self._receiver.request(sender):
                parse = self._json if is_json else from_protobuf
                answer = await self._receiver.process(sender, await self._body(request, self._params.max_bytes), parse)
            return _answer(200, answer.response(), is_json=is_json)
        except Forbidden as error:
            return _error(403, _FORBIDDEN, str(error), is_json=is_json)
        except decompression.TooLarge as error:
            return _error(413, _EXHAUSTED, str(error), is_json=is_json)
        except (Reject, decompression.DecompressionLimit) as error:
            return _error(400, _INVALID, str(error), is_json=is_json)
        except TimeoutError:
            return _error(408, _INVALID, "the request was incomplete for too long", is_json=is_json)
        except Overload as error:
            response = _error(error.http_status, _UNAVAILABLE, str(error), is_json=is_json)
            response.headers["Retry-After"] = str(math.ceil(error.after_s))
            return response

    def _json(self, body: bytes) -> otlp.ExportMetricsServiceRequest:
        """Read a request in JSON; raises TooLarge and Reject."""
        if (count := json_elements(body)) > self._params.max_json_elements:
            raise decompression.TooLarge(f"{count} elements, more than {self._params.max_json_elements}")
        return from_json(body)

    async def _body(self, request: web.BaseRequest, limit: int) -> bytes:
        """Return the decompressed body; raises TooLarge, Reject and TimeoutError."""
        encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("gzip", "identity", "none", ""):
            raise Reject(f"the encoding is {encoding[:40]!r}; use gzip or none")
        if (request.content_length or 0) > limit:
            raise decompression.TooLarge(f"{request.content_length} bytes, more than {limit}")
        parts: list[bytes] = []
        size = 0
        async with asyncio.timeout(self._params.body_s):
            async for part in request.content.iter_any():
                size += len(part)
                if size > limit:
                    raise decompression.TooLarge(f"more than {limit} bytes")
                parts.append(part)
        body = b"".join(parts)
        if encoding != "gzip":
            return body
        if size > _IN_THREAD:
            return await asyncio.to_thread(decompression.gzip, body, limit)
        return decompression.gzip(body, limit)


def _peer(request: web.BaseRequest) -> Peer:
    certificate = None if request.transport is None else request.transport.get_extra_info("peercert")
    return Peer(plain(request.remote or ""), certificate_names(certificate or {}))


def _local_address(request: web.BaseRequest) -> str:
    """Return the address to which the client has connected; empty after it has disconnected."""
    return "" if request.transport is None else str(request.transport.get_extra_info("sockname", ("",))[0])


def _answer(code: int, message: otlp.ExportResponse | otlp.Status, *, is_json: bool) -> web.Response:
    if is_json:
        return web.Response(status=code, body=_json(message), content_type=_JSON)
    return web.Response(status=code, body=message.SerializeToString(), content_type=_PROTOBUF)


def _error(code: int, status: int, why: str, *, is_json: bool) -> web.Response:
    return _answer(code, _status(status, why), is_json=is_json)


def _json(message: otlp.ExportResponse | otlp.Status) -> bytes:
    if isinstance(message, otlp.Status):
        return orjson.dumps({"code": message.code, "message": message.message})
    if not message.HasField("partial_success"):
        return b"{}"
    partial = message.partial_success
    found: dict[str, str] = {"errorMessage": partial.error_message}
    if partial.rejected:
        found["rejectedDataPoints"] = str(partial.rejected)
    return orjson.dumps({"partialSuccess": found})


async def serve(params: Params, receiver: Receiver, on_listening: Callable[[dict[str, int]], None]) -> None:
    """Serve until cancelled; `on_listening` receives the port of each protocol. Raises Misconfigured."""
    most = most_connections(len(params.all_targets()))
    async with contextlib.AsyncExitStack() as stack:
        secure = credentials(lambda: params.pem("otlp"))
        server, grpc_port = await started(
            GrpcService(receiver), params.address(), params.max_bytes, secure, "otlp", most
        )
        stack.push_async_callback(server.stop, _STOP_S)
        ports = {"grpc": grpc_port, "http": await _start_http(params, receiver, most, stack)}
        on_listening(ports)
        await asyncio.Event().wait()


async def _start_http(params: Params, receiver: Receiver, most: int, stack: contextlib.AsyncExitStack) -> int:
    service = HttpService(receiver, params)

    async def serve_busy(request: web.BaseRequest) -> web.StreamResponse:
        with handler.busy(request.transport):
            return await service.serve(request)

    handler = BoundedServer(
        serve_busy, most, auto_decompress=False, access_log=None, keepalive_timeout=_KEEPALIVE_S,
        max_line_size=_HEADER_BYTES, max_field_size=_HEADER_BYTES,
    )  # fmt: skip
    stack.push_async_callback(handler.shutdown, _STOP_S)
    host, _, port = params.address(1).rpartition(":")
    try:
        server = await asyncio.get_running_loop().create_server(
            handler,
            host.strip("[]"),
            int(port),
            ssl=params.file_context("otlp"),
            ssl_handshake_timeout=_HANDSHAKE_S if params.cert_file else None,
        )
    except OSError as error:
        raise Misconfigured(f"collect.otlp: cannot listen on {params.address(1)}: {error.strerror}") from error
    stack.callback(server.close)
    found: int = server.sockets[0].getsockname()[1]
    _log.info("listening", address=params.address(1), port=found, tls=params.cert_file is not None)
    return found
