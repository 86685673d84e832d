"""A gNMI target that sends updates without end, as fast as it can.

`python -m tests.fakes.gnmi_flood [KIND]` prints its port; KIND is a name of HUGE.
"""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, repeat
from typing import Any

import grpc

from collectors.gnmi.paths import from_text, to_message
from collectors.gnmi.v1 import gnmi_pb2

_PORTS = 500


def notifications() -> Iterator[bytes]:
    """Yield one update of each port in turn, without end."""
    octets = to_message(from_text("counters/in-octets"))
    prefixes = [to_message(from_text(f"/interfaces/interface[name=e{port}]/state")) for port in range(_PORTS)]
    for number in count():
        response = gnmi_pb2.SubscribeResponse()
        response.update.prefix.CopyFrom(prefixes[number % _PORTS])
        response.update.update.add(path=octets).val.uint_val = number
        yield response.SerializeToString()


def _json(text: str) -> bytes:
    """Return a response with a document at the root of all interfaces."""
    response = gnmi_pb2.SubscribeResponse()
    response.update.update.add(path=to_message(from_text("/interfaces"))).val.json_ietf_val = text.encode()
    return response.SerializeToString()


def _interfaces() -> bytes:
    rows = (f'{{"name":"e{port}","state":{{"counters":{{"in-octets":"1"}}}}}}' for port in range(150_000))
    return _json(f'{{"openconfig-interfaces:interface":[{",".join(rows)}]}}')


def _path() -> bytes:
    response = gnmi_pb2.SubscribeResponse()
    path = gnmi_pb2.Path(elem=[gnmi_pb2.PathElem(name="interface")] * 5_000)
    response.update.update.add(path=path).val.uint_val = 1
    return response.SerializeToString()


def _members() -> bytes:
    """Return a message below the limit of bytes, whose values are read."""
    rows = (f'{{"name":"e{port}","state":{{"counters":{{"in-octets":"1"}}}}}}' for port in range(48_000))
    return _json(f'{{"openconfig-interfaces:interface":[{",".join(rows)}]}}')


HUGE: dict[str, Callable[[], bytes]] = {
    "interfaces": _interfaces, "ones": lambda: _json(f"[{'1,' * 4_500_000}1]"), "path": _path,
    "lists": lambda: _json(f"[{'[[[[1]]]],' * 400_000}1]"), "members": _members,
}  # fmt: skip
"""Responses of 9 MiB of JSON, of a path of 5,000 elements, and of 4 MB of JSON."""


def main() -> None:
    """Serve until the process is ended."""
    huge = HUGE[sys.argv[1]]() if len(sys.argv) > 1 else b""

    def subscribe(_: Iterator[bytes], __: grpc.ServicerContext) -> Iterator[bytes]:
        return repeat(huge) if huge else notifications()

    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Subscribe": grpc.stream_stream_rpc_method_handler(subscribe, None, None)
    }
    server = grpc.server(ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("gnmi.gNMI", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
