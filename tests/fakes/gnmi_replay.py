"""A gNMI target that sends its recording once to every subscriber, and then leaves the stream open."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from collectors.gnmi.v1 import gnmi_pb2


@dataclass
class Replay:
    """The recording, and the requests received.

    A path in `refuses` with its mode is declined, and so is each stream beyond `limit`.
    """

    responses: Sequence[gnmi_pb2.SubscribeResponse]
    capabilities: gnmi_pb2.CapabilityResponse | None = None
    refuses: frozenset[tuple[str, int]] = frozenset()
    limit: int = 100
    streams: int = 0
    """The present Subscribe RPCs."""
    requests: list[gnmi_pb2.SubscribeRequest] = field(default_factory=list)
    metadata: list[dict[str, str | bytes]] = field(default_factory=list)

    def handler(self) -> grpc.GenericRpcHandler:
        """Capabilities and Subscribe under their names in the protocol."""
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Capabilities": grpc.unary_unary_rpc_method_handler(
                self._capabilities, gnmi_pb2.CapabilityRequest.FromString, gnmi_pb2.CapabilityResponse.SerializeToString
            ),
            "Subscribe": grpc.stream_stream_rpc_method_handler(
                self._subscribe, gnmi_pb2.SubscribeRequest.FromString, gnmi_pb2.SubscribeResponse.SerializeToString
            ),
        }
        return grpc.method_handlers_generic_handler("gnmi.gNMI", handlers)

    async def _capabilities(
        self, request: gnmi_pb2.CapabilityRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> gnmi_pb2.CapabilityResponse:
        self.metadata.append(dict(context.invocation_metadata() or ()))
        if self.capabilities is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no Capabilities")
        return self.capabilities

    async def _subscribe(
        self, requests: AsyncIterator[gnmi_pb2.SubscribeRequest], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[gnmi_pb2.SubscribeResponse]:
        request = await anext(aiter(requests))
        self.requests.append(request)
        self.streams += 1
        try:
            if self.streams > self.limit:
                await context.abort(grpc.StatusCode.OUT_OF_RANGE, "Maximum number of Subscribe requests reached")
            for asked in request.subscribe.subscription:
                path = "/" + "/".join(step.name for step in asked.path.elem)
                if (path, asked.mode) in self.refuses:
                    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{path}: not in this mode")
            for response in self.responses:
                yield response
            if request.subscribe.mode != gnmi_pb2.SubscriptionList.ONCE:
                yield gnmi_pb2.SubscribeResponse(sync_response=True)
                await asyncio.Event().wait()
        finally:
            self.streams -= 1


@asynccontextmanager
async def replaying(replay: Replay) -> AsyncIterator[str]:
    """Listen on loopback; yield the address."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((replay.handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@asynccontextmanager
async def raw(messages: Sequence[bytes]) -> AsyncIterator[str]:
    """Start a target that answers each Subscribe with these bytes, valid or not; yield the address."""

    async def subscribe(
        requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[bytes]:
        await anext(aiter(requests))
        for message in messages:
            yield message
        await asyncio.Event().wait()

    server = grpc.aio.server()
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Subscribe": grpc.stream_stream_rpc_method_handler(subscribe, None, None)
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("gnmi.gNMI", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
