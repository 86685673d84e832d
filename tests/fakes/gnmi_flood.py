"""A gNMI target that sends updates without end, as fast as it can.

`python -m tests.fakes.gnmi_flood` prints its port.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
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


def main() -> None:
    """Serve until the process is ended."""

    def subscribe(_: Iterator[bytes], __: grpc.ServicerContext) -> Iterator[bytes]:
        return notifications()

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
