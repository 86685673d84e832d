"""Connects to one device: a gRPC channel, its Capabilities, and its streams. I/O only; parse.py interprets them."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from collectors.gnmi.params import Params, Target
from collectors.gnmi.profile import DeviceHints
from collectors.gnmi.v1 import gnmi_pb2
from streams.wire.errors import Misconfigured, Reject, Retry

_CALL_S = 10.0
_MOST_BYTES = 16 << 20
"""gRPC ends a stream with a longer message before it is complete; one above the setting is refused with its size."""
_MOST_MODELS = 10_000
_REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
}
"""The status codes with which devices refuse a path, a mode or an encoding: a narrower request may succeed."""
_LIMITS = {grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.RESOURCE_EXHAUSTED}
"""The status codes with which devices refuse one Subscribe RPC more than they allow."""


class Refused(Reject):
    """A refused request. `may_be_limit` is True if the device may only have too many subscriptions."""

    def __init__(self, error: grpc.aio.AioRpcError | str, code: grpc.StatusCode) -> None:
        super().__init__(error if isinstance(error, str) else _describe_error(error))
        self.may_be_limit = code in _LIMITS


class Wire:
    """One connection. Raises Reject if the device refuses a request, Retry for all other failures."""

    def __init__(self, target: Target, params: Params, secret: str) -> None:
        self._params = params
        self._metadata: tuple[tuple[str, str], ...] = _login(params, secret)
        options = _options(params)
        self._channel = (
            grpc.aio.secure_channel(target.address, credentials(params), options=options)
            if params.tls
            else grpc.aio.insecure_channel(target.address, options=options)
        )
        self._subscribe: grpc.aio.StreamStreamMultiCallable[Any, Any] = self._channel.stream_stream(
            "/gnmi.gNMI/Subscribe",
            request_serializer=gnmi_pb2.SubscribeRequest.SerializeToString,
            # grpc.aio yields None for a message that its deserializer cannot parse, so the caller decodes the bytes.
            response_deserializer=None,
        )

    async def __aenter__(self) -> "Wire":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def connect(self) -> None:
        """Wait until the device answers; a refused connection fails at once."""
        try:
            async with asyncio.timeout(self._params.connect_s):
                state = self._channel.get_state(try_to_connect=True)
                while state is not grpc.ChannelConnectivity.READY:
                    if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                        raise Retry("connection refused, or TLS handshake failed")
                    await self._channel.wait_for_state_change(state)
                    state = self._channel.get_state(try_to_connect=True)
        except TimeoutError as error:
            raise Retry(f"no connection within {self._params.connect_s:g} s") from error

    async def capabilities(self) -> DeviceHints:
        """Return the device's Capabilities; empty if the device does not implement the call, which is allowed."""
        ask: grpc.aio.UnaryUnaryMultiCallable[Any, Any] = self._channel.unary_unary(
            "/gnmi.gNMI/Capabilities",
            request_serializer=gnmi_pb2.CapabilityRequest.SerializeToString,
            response_deserializer=None,
        )
        try:
            answer = await ask(gnmi_pb2.CapabilityRequest(), timeout=_CALL_S, metadata=self._metadata)
            reason = gnmi_pb2.CapabilityResponse.FromString(answer)
        except DecodeError:
            return DeviceHints()
        except grpc.aio.AioRpcError as error:
            if error.code() in _REFUSALS:
                return DeviceHints()
            raise _retry(error) from error
        return DeviceHints(
            frozenset(reason.supported_encodings), tuple(model.name for model in reason.supported_models[:_MOST_MODELS])
        )

    async def stream(self, request: gnmi_pb2.SubscribeRequest) -> AsyncGenerator[bytes]:
        """Yield the undecoded messages of the device until it ends the stream."""
        call, limit = self._subscribe(metadata=self._metadata), self._params.max_message_bytes
        try:
            await call.write(request)
            async for response in call:
                if len(response) > limit:
                    raise Retry(
                        f"a message of {len(response)} bytes is above the limit of {limit}: "
                        f"configure the device to send smaller ones, or another encoding for it"
                    )
                yield response
        except grpc.aio.AioRpcError as error:
            raise _reject_or_retry(error) from error
        except asyncio.InvalidStateError as error:
            # The stream ended before the request was written; its status has the reason.
            raise await _status_of(call) from error
        finally:
            call.cancel()


def _login(params: Params, secret: str) -> tuple[tuple[str, str], ...]:
    if params.username:
        return ("username", params.username), ("password", secret)
    return (("authorization", f"Bearer {secret}"),) if secret else ()


def _options(params: Params) -> list[tuple[str, Any]]:
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", _MOST_BYTES),
        ("grpc.keepalive_time_ms", int(params.keepalive_s * 1000)),
        ("grpc.keepalive_timeout_ms", int(params.keepalive_timeout_s * 1000)),
        # grpcio 1.85 sends the keepalive ping but waits for its answer as long as for any ping: a minute by default.
        ("grpc.http2.ping_timeout_ms", int(params.keepalive_timeout_s * 1000)),
        ("grpc.http2.max_pings_without_data", 0),
        # Each attempt creates its own channel, so that the backoff inside gRPC is never shared between devices.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
    ]
    if params.server_name:
        options.append(("grpc.ssl_target_name_override", params.server_name))
    return options


def credentials(params: Params) -> grpc.ChannelCredentials:
    """Return the TLS credentials; raises Misconfigured if a file cannot be read."""
    try:
        return grpc.ssl_channel_credentials(
            params.ca_file.read_bytes() if params.ca_file else None,
            params.key_file.read_bytes() if params.key_file else None,
            params.cert_file.read_bytes() if params.cert_file else None,
        )
    except OSError as error:
        raise Misconfigured(f"collect.gnmi: {error.filename}: {error.strerror}") from error


def _describe_error(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name}: {(error.details() or '')[:300]}"


def _retry(error: grpc.aio.AioRpcError) -> Retry:
    return Retry(_describe_error(error))


def _reject_or_retry(error: grpc.aio.AioRpcError) -> Reject | Retry:
    return Refused(error, error.code()) if error.code() in _REFUSALS | _LIMITS else _retry(error)


async def _status_of(call: Any) -> Reject | Retry:
    code, details = await call.code(), await call.details()
    reason = f"{code.name}: {(details or '')[:300]}"
    return Refused(reason, code) if code in _REFUSALS | _LIMITS else Retry(reason)
