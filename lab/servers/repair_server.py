"""Serves the repairs of the simulated links over gRPC, on loopback only. I/O only.

A request is `{"a": "leaf1:Ethernet1/1", "z": "spine1:Ethernet1/1"}`, a response `{"done": "replaced the cable"}`.
`python -m lab.servers.repair` is the client; docs/collectors/core.md describes both.
"""

from collections.abc import Callable, Iterable
from typing import Any

import grpc
import grpc.aio
import orjson

from lab.world.bad_links import Part
from lab.world.demo_world import DemoWorld, LinkEnabled
from streams.fabric.ids import Port
from streams.instrument.clock import Clock

SERVICE, METHOD = "railsight.simulator.Repairs", "Repair"
_LOOPBACK = "127.0.0.1"


class RefusedRepair(Exception):
    """Raised if a repair cannot be carried out; `code` is the gRPC status."""

    def __init__(self, code: grpc.StatusCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class RepairServer:
    """Serves repairs; `address` is set once entered. `on_repaired(devices, at_ns)` is called after each repair."""

    def __init__(self, world: DemoWorld, clock: Clock, on_repaired: Callable[[Iterable[str], int], None]) -> None:
        self._world, self._clock, self._on_repaired = world, clock, on_repaired
        self._server = grpc.aio.server()
        self.address = ""

    async def __aenter__(self) -> "RepairServer":
        handler: grpc.RpcMethodHandler[Any, Any] = grpc.unary_unary_rpc_method_handler(self._handle)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
        self.address = f"{_LOOPBACK}:{self._server.add_insecure_port(f'{_LOOPBACK}:0')}"
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)

    async def _handle(self, request: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        try:
            done = self.repair(request)
        except RefusedRepair as error:
            await context.abort(error.code, str(error))
        return orjson.dumps({"done": done})

    def repair(self, request: bytes) -> str:
        """Carry out the requested repair and return its description; raise RefusedRepair."""
        a, z = _ends(request)
        link = self._world.link_between(a, z)
        if link is None:
            raise RefusedRepair(
                grpc.StatusCode.NOT_FOUND,
                f"no link between {_name(a)} and {_name(z)} in this fabric; its links are in inventory/links.csv",
            )
        now_ns = self._clock.now_ns()
        try:
            repair = self._world.repair(link, now_ns)
        except LinkEnabled as error:
            raise RefusedRepair(
                grpc.StatusCode.FAILED_PRECONDITION, f"{error}; set enabled=false before the repair"
            ) from error
        self._on_repaired((link.a_device, link.z_device), now_ns)
        # A link without a bad part gets the first repair, because a technician does not know that it is healthy.
        return (Part.CONNECTOR if repair is None else repair.part).value


def _ends(request: bytes) -> tuple[Port, Port]:
    try:
        fields = orjson.loads(request)
        return _port(fields["a"]), _port(fields["z"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise RefusedRepair(
            grpc.StatusCode.INVALID_ARGUMENT, f'not a repair: {error!r}; expected {{"a": "DEVICE:PORT", "z": …}}'
        ) from error


def _port(text: object) -> Port:
    device, colon, port = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not (device and colon and port):
        raise ValueError(f"{text!r} is not DEVICE:PORT")
    return Port(device, port)


def _name(port: Port) -> str:
    return f"{port.device}/{port.port}"
