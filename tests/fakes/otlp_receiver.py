"""A receiver of OTLP by HTTP or gRPC that records requests, refuses, hangs and can be killed and restarted."""

import gzip
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc

from streams.wire.v1 import otlp_pb2
from tests.fixtures.ports import free_port


@dataclass(frozen=True)
class Answer:
    """One answer: the status of HTTP or the code of gRPC, its headers or trailers, and the body."""

    status: int | grpc.StatusCode = 200
    headers: tuple[tuple[str, Any], ...] = ()
    body: bytes = b""


OK = Answer()
Respond = Callable[[bytes], Answer]


@dataclass
class Receiver:
    """The receiver; `respond` decides on each request, and only accepted requests are recorded."""

    scheme: str
    respond: Respond = lambda _: OK
    port: int = field(default_factory=free_port)
    attempts: int = 0
    accepted: list[tuple[str, bytes]] = field(default_factory=list)
    """The path of each accepted request and its decompressed body."""
    _stop: Callable[[], object] | None = None

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen on the port."""
        self._stop = self._start_http() if self.scheme == "http" else self._start_grpc()

    def stop(self) -> None:
        """Close all connections; `start` continues on the same port."""
        if self._stop is not None:
            self._stop()
            self._stop = None

    @property
    def records(self) -> list[Any]:
        """The log records of all accepted requests."""
        requests = (otlp_pb2.ExportLogsServiceRequest.FromString(body) for _, body in self.accepted)
        return [
            record
            for request in requests
            for of_resource in request.resource_logs
            for of_scope in of_resource.scope_logs
            for record in of_scope.log_records
        ]

    @property
    def uids(self) -> list[str]:
        """The `log.record.uid` of each record, in the order of arrival."""
        return [str(attributes(record)["log.record.uid"]) for record in self.records]

    def take(self, path: str, body: bytes) -> Answer:
        """Record a request unless `respond` refuses it."""
        self.attempts += 1
        answer = self.respond(body)
        if answer.status in (200, grpc.StatusCode.OK):
            self.accepted.append((path, body))
        return answer

    def _start_http(self) -> Callable[[], object]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.headers["Content-Type"] == "application/x-protobuf"
                answer = receiver.take(self.path, gzip.decompress(body))
                assert isinstance(answer.status, int)
                self.send_response(answer.status)
                for name, value in answer.headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join(5)

        return stop

    def _start_grpc(self) -> Callable[[], object]:
        def export(body: bytes, context: grpc.ServicerContext) -> bytes:
            answer = self.take(path, body)
            if isinstance(answer.status, grpc.StatusCode):
                context.set_trailing_metadata(answer.headers)
                context.abort(answer.status, "refused")
            return answer.body

        path = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
        service, _, method = path[1:].rpartition("/")
        handler: Any = grpc.unary_unary_rpc_method_handler(export)
        server = grpc.server(ThreadPoolExecutor(4), options=(("grpc.so_reuseport", 0),))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        assert server.add_insecure_port(f"127.0.0.1:{self.port}") == self.port
        server.start()

        def stop() -> None:
            with suppress(ValueError):
                server.stop(0).wait(5)

        return stop


def attributes(message: Any) -> dict[str, Any]:
    """Return the attributes of a record, point or resource as plain values."""
    return {one.key: _plain(one.value) for one in message.attributes}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_plain(one) for one in found.values] if kind == "array_value" else found
