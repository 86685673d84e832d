"""Sends requests of OTLP by gRPC or HTTP, and raises a different error for each reaction of the caller.

An answer that OTLP's specification calls retryable raises Retry, or Busy if the receiver names a time. A refusal of
these data raises Reject. Every other answer (a login, an address, a fault of the receiver) raises Misconfigured: the
same request may be accepted after a person has corrected it. Each request has its own connection, so that a renewed
certificate is used and no idle connection ends unnoticed. Calls block: use a thread.
"""

import gzip
import http.client
import ssl
from typing import Any, Literal
from urllib.parse import urlsplit

import grpc

from streams.instrument.text import clean
from streams.wire.errors import Busy, Misconfigured, Reject, Retry
from streams.wire.otlp_messages import Refused, refused, retry_delay_s
from streams.wire.otlp_params import PORTS, OtlpParams
from streams.wire.tls_files import FileContext, TlsFiles

Signal = Literal["logs", "metrics"]
_METHODS = {
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}
_RETRYABLE = frozenset((429, 502, 503, 504))
_REFUSED = frozenset((400, 413, 415, 422))
_RETRYABLE_CODES = frozenset(
    (
        grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.ABORTED,
        grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DATA_LOSS,
    )
)  # fmt: skip
_REFUSED_CODES = frozenset((grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED))
_CHANNEL = (("grpc.enable_retries", 0), ("grpc.enable_http_proxy", 0))
_MAX_RESPONSE = 1 << 20
_MAX_RETRY_AFTER_S = 600.0


class OtlpClient:
    """A client of one receiver for one kind of data; raises Misconfigured if the files of TLS are unusable."""

    def __init__(self, params: OtlpParams, signal: Signal) -> None:
        self._params, self._signal = params, signal
        self.url = params.logs if signal == "logs" else params.metrics
        self._parts = urlsplit(self.url)
        self._port = self._parts.port or PORTS[self._parts.scheme]
        self._tls = _tls(params) if self._parts.scheme in ("https", "grpcs") else None

    def send(self, request: bytes) -> Refused | None:
        """Send an encoded request; return what the receiver refused or warns of, None if it accepted everything."""
        answer = self._by_grpc(request) if self._parts.scheme.startswith("grpc") else self._by_http(request)
        return refused(answer)

    def _by_grpc(self, request: bytes) -> bytes:
        host = f"[{self._parts.hostname}]" if ":" in (self._parts.hostname or "") else self._parts.hostname
        address = f"{host}:{self._port}"
        channel = (
            grpc.insecure_channel(address, _CHANNEL, grpc.Compression.Gzip)
            if self._tls is None
            else grpc.secure_channel(address, self._credentials(), _CHANNEL, grpc.Compression.Gzip)
        )
        with channel:
            export = channel.unary_unary(_METHODS[self._signal], _unchanged, _unchanged)
            try:
                return export(request, timeout=self._params.timeout_s)
            except grpc.RpcError as error:
                raise self._grpc_error(error) from error

    def _credentials(self) -> grpc.ChannelCredentials:
        files = self._params
        try:
            ca, key, certificate = (
                None if path is None else path.read_bytes()
                for path in (files.ca_file, files.key_file or files.cert_file, files.cert_file)
            )
        except OSError as error:
            raise Retry(f"{self.url}: cannot read the certificates now: {error}") from error
        return grpc.ssl_channel_credentials(ca, key, certificate)

    def _grpc_error(self, error: grpc.RpcError) -> Exception:
        code, message = error.code(), f"{self.url}: {error.code().name} {_excerpt(error.details() or '')}".rstrip()
        trailers: Any = error.trailing_metadata() or ()
        status = next((value for key, value in trailers if key == "grpc-status-details-bin"), b"")
        after_s = retry_delay_s(status)
        if after_s is not None and code in _RETRYABLE_CODES | {grpc.StatusCode.RESOURCE_EXHAUSTED}:
            return Busy(message, min(after_s, _MAX_RETRY_AFTER_S))
        if code in _RETRYABLE_CODES:
            return Retry(message)
        return Reject(message) if code in _REFUSED_CODES else Misconfigured(message)

    def _by_http(self, request: bytes) -> bytes:
        connection = self._connection()
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip", "User-Agent": "railsight"}
        try:
            path = f"{self._parts.path}/v1/{self._signal}"
            connection.request("POST", path, gzip.compress(request, 6, mtime=0), headers)
            response = connection.getresponse()
            content = response.read(_MAX_RESPONSE)
        except (OSError, http.client.HTTPException) as error:  # TimeoutError and ssl.SSLError are OSErrors
            raise Retry(f"{self.url}: {type(error).__name__}: {error}") from error
        finally:
            connection.close()
        if 200 <= response.status < 300:
            return content
        raise self._http_error(response, content)

    def _http_error(self, response: http.client.HTTPResponse, content: bytes) -> Exception:
        text = content.decode(errors="replace") if content.isascii() else ""
        message = f"{self.url}: HTTP {response.status} {_excerpt(text)}".rstrip()
        if response.status in _RETRYABLE:
            after = response.headers.get("Retry-After", "")
            # A date is ignored, because it depends on the clock of the server.
            is_seconds = after.isascii() and after.isdigit()
            return Busy(message, min(float(after), _MAX_RETRY_AFTER_S)) if is_seconds else Retry(message)
        return Reject(message) if response.status in _REFUSED else Misconfigured(message)

    def _connection(self) -> http.client.HTTPConnection:
        host = self._parts.hostname or ""
        if self._tls is None:
            return http.client.HTTPConnection(host, self._port, timeout=self._params.timeout_s)
        return http.client.HTTPSConnection(host, self._port, timeout=self._params.timeout_s, context=self._tls)


def _unchanged(content: bytes) -> bytes:
    return content


def _excerpt(text: str) -> str:
    return clean(text[:200]).strip()


def _tls(params: OtlpParams) -> ssl.SSLContext:
    try:
        return FileContext(TlsFiles(params.ca_file, params.cert_file, params.key_file))
    except (OSError, ssl.SSLError) as error:
        raise Misconfigured(f"otlp: cannot read the certificates (ca_file, cert_file, key_file): {error}") from error
