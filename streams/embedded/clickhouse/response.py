"""Sends the response to a request: buffers its begin, so that status and summary are correct, then streams the rest.

After the first byte was sent, an error is written into the body, as ClickHouse does: between two marks with a tag from
the header `X-ClickHouse-Exception-Tag`.
"""

import asyncio
import json
import secrets
from collections.abc import Mapping

from aiohttp import ClientConnectionResetError, web

from streams.embedded.clickhouse.compression import ClickHouseBlockEncoder, Encoder, choose_encoding, encoder
from streams.embedded.clickhouse.engine import Result
from streams.embedded.clickhouse.errors import ClickHouseError, format_error
from streams.embedded.clickhouse.request import QueryRequest

# ClickHouse's DBMS_DEFAULT_BUFFER_SIZE, which its HTTP interface buffers before it sends the first byte.
_BUFFER_BYTES = 1 << 20
# Maximum time of buffering, so that a slow result arrives in parts.
MAX_BUFFER_S = 0.1
# A client that waits for the end gets the correct status up to this size, as http_response_buffer_size limits it; an
# error of a longer result is in its body.
_WAIT_BYTES = 16 << 20

_CONTENT_TYPES = {
    "Parquet": "application/vnd.apache.parquet",
    "ArrowStream": "application/vnd.apache.arrow.stream",
}
_BINARY = ("NATIVE", "ROWBINARY", "ARROW", "ORC", "AVRO", "MSGPACK", "PROTOBUF", "CAPNPROTO", "BSON", "NPY", "RAWBLOB")


def content_type(output_format: str) -> str:
    """Return the Content-Type of an output format."""
    name = output_format.upper()
    if output_format in _CONTENT_TYPES:
        return _CONTENT_TYPES[output_format]
    if name.startswith("JSON"):
        return f"application/{'x-ndjson' if 'EACHROW' in name else 'json'}; charset=UTF-8"
    if name.startswith(("CSV", "TABSEPARATED", "TSV")):
        kind = "csv" if name.startswith("CSV") else "tab-separated-values"
        header = "present" if "WITHNAMES" in name else "absent"
        return f"text/{kind}; charset=UTF-8; header={header}"
    return "application/octet-stream" if name.startswith(_BINARY) else "text/plain; charset=UTF-8"


def summary(answer: Result) -> str:
    """Return the X-ClickHouse-Summary from the engine's counts."""
    figures = {
        "read_rows": answer.read_rows,
        "read_bytes": answer.read_bytes,
        "written_rows": answer.written_rows,
        "written_bytes": answer.written_bytes,
        "total_rows_to_read": "0",
        "result_rows": answer.written_rows or answer.rows,
        "result_bytes": answer.written_bytes or len(answer.data),
        "elapsed_ns": int(answer.elapsed_s * 1e9),
    }
    return json.dumps({name: str(value) for name, value in figures.items()}, separators=(",", ":"))


class Response:
    """The response to one request."""

    def __init__(
        self, request: web.BaseRequest, call: QueryRequest, headers: Mapping[str, str], version: str, stall_s: float
    ) -> None:
        self._request = request
        self._call = call
        self._headers = dict(headers)
        self._version = version
        self._stall_s = stall_s
        self._tag = "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(16))
        self._buffer = bytearray()
        self._response: web.StreamResponse | None = None
        self._encoder: Encoder | None = None
        self._buffer_until = asyncio.get_running_loop().time() + MAX_BUFFER_S
        self._waits = call.flag("wait_end_of_query")

    def announce(self, output_format: str, content_type: str) -> None:
        """Set the headers of the body's format."""
        self._headers |= {"X-ClickHouse-Format": output_format, "Content-Type": content_type}

    async def begin_early(self) -> None:
        """Send buffered data, unless the client requested to wait for the end."""
        if self._buffer and not self._waits:
            await self._begin()

    async def write(self, data: bytes) -> None:
        """Write the next piece of the body."""
        if self._response is not None:
            await self._send(data)
            return
        self._buffer += data
        if len(self._buffer) >= _WAIT_BYTES:
            await self._begin()
        elif len(self._buffer) >= _BUFFER_BYTES or asyncio.get_running_loop().time() > self._buffer_until:
            await self.begin_early()

    async def _begin(self) -> None:
        """Send the headers and the buffered data; afterwards the status cannot change."""
        response = web.StreamResponse(headers=self._headers | {"X-ClickHouse-Exception-Tag": self._tag})
        self._encode_for(response)
        response.enable_chunked_encoding()
        await response.prepare(self._request)
        self._response = response
        buffered, self._buffer = bytes(self._buffer), bytearray()
        for start in range(0, len(buffered), _BUFFER_BYTES):
            await self._send(buffered[start : start + _BUFFER_BYTES])
        if self._encoder is not None:
            await response.write(self._encoder.flush())

    async def finish(self, answer: Result) -> web.StreamResponse:
        """End the response and return it."""
        self._headers["X-ClickHouse-Summary"] = summary(answer)
        if self._response is None and len(self._buffer) < _BUFFER_BYTES:
            return self._at_once(200)
        if self._response is None:
            await self._begin()
        return await self._end()

    async def fail(self, error: ClickHouseError) -> web.StreamResponse:
        """End the response with an error; set the status too if nothing has been sent."""
        text = format_error(error, self._version)
        if self._response is None:
            self._buffer = bytearray(text.encode(errors="replace"))
            self._headers["X-ClickHouse-Exception-Code"] = str(error.code)
            self._headers["Content-Type"] = "text/plain; charset=UTF-8"
            if error.status == 401:
                self._headers["WWW-Authenticate"] = 'Basic realm="ClickHouse server HTTP API"'
            return self._at_once(error.status)
        marked = text.encode(errors="replace")
        await self._send(
            b"\r\n__exception__\r\n%s\r\n%s%d %s\r\n__exception__\r\n"
            % (self._tag.encode(), marked, len(marked), self._tag.encode())
        )
        return await self._end()

    def _at_once(self, status: int) -> web.Response:
        body = bytes(self._buffer)
        response = web.Response(status=status, headers=self._headers)
        self._encode_for(response)
        if self._encoder is not None and body:
            body = self._encoder.feed(body) + self._encoder.finish()
        elif not body:
            response.headers.pop("Content-Encoding", None)
        response.body = body
        return response

    async def _send(self, data: bytes) -> None:
        assert self._response is not None
        encoded = data if self._encoder is None else self._encoder.feed(data)
        if not encoded:
            return
        try:
            async with asyncio.timeout(self._stall_s):
                await self._response.write(encoded)
        except TimeoutError as error:
            if self._request.transport is not None:
                self._request.transport.abort()
            raise ClientConnectionResetError("the client does not read") from error

    async def _end(self) -> web.StreamResponse:
        assert self._response is not None
        if self._encoder is not None:
            await self._response.write(self._encoder.finish())
        # The end is sent after the handler has returned: a client that has received it may use its session at once, so
        # the session must be unlocked before.
        return self._response

    def _encode_for(self, response: web.StreamResponse) -> None:
        if self._call.flag("compress"):
            self._encoder = ClickHouseBlockEncoder()
            return
        wanted = self._call.parameters.get("enable_http_compression", "1") in {"1", "true"}
        encoding = choose_encoding(self._call.accept_encoding) if wanted else ""
        if encoding:
            self._encoder = encoder(encoding)
            response.headers["Content-Encoding"] = encoding
