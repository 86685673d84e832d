"""Reads the body of a request and decompresses it as it arrives: the statement, then the data of an INSERT."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from typing import TypeVar

from aiohttp import BodyPartReader, StreamReader, web

from streams.embedded.clickhouse.compression import ClickHouseBlocks, Decoder, decoder
from streams.embedded.clickhouse.engine import quoted
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.params import Limits
from streams.embedded.clickhouse.request import QueryRequest

# ClickHouse searches for the end of an INSERT's head within max_query_size bytes, 256 KiB by default.
HEAD_BYTES = 1 << 18
_PIECE_BYTES = 1 << 20
_MAX_PARTS = 1000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ExternalTable:
    """A table sent with a query, available as `name` while the query runs; `structure` is a literal of the engine."""

    name: str
    structure: str
    format: str
    data: bytes = field(repr=False)


class RequestBody:
    """The decompressed bytes of a request: the query from the URL, then the body."""

    def __init__(self, request: web.BaseRequest, call: QueryRequest, limits: Limits, *, reader: bool) -> None:
        """Raise ClickHouseError for an unknown encoding."""
        self._receiving = Deadline(limits.stall_s, limits.stall_s if reader else limits.body_s)
        self._max_bytes = limits.reader_query_bytes if reader else limits.query_bytes
        self._pieces = self._received(request.content)
        if (outer := decoder(call.content_encoding)) is not None:
            self._pieces = _decompressed(self._pieces, outer)
        if call.flag("decompress"):
            self._pieces = _decompressed(self._pieces, ClickHouseBlocks())
        self.buffered = call.query.encode() + b"\n" if call.query else b""

    async def _received(self, source: StreamReader) -> AsyncIterator[bytes]:
        while data := await self._receiving.within(source.read(_PIECE_BYTES)):
            yield data

    async def read(self) -> bytes:
        """Return the next piece (empty at the end); its size is bounded, however small its compressed form is."""
        return await anext(self._pieces, b"")

    async def read_head(self) -> bytes:
        """Read HEAD_BYTES, which must contain the whole head; return all buffered data."""
        while len(self.buffered) < HEAD_BYTES and (piece := await self.read()):
            self.buffered += piece
        return self.buffered

    async def read_statement(self) -> bytes:
        """Read a statement without data; raise ClickHouseError if it is too long."""
        pieces, size = [self.buffered], len(self.buffered)
        while size <= self._max_bytes and (piece := await self.read()):
            pieces.append(piece)
            size += len(piece)
        if size > self._max_bytes:
            raise ClickHouseError(229, "QUERY_IS_TOO_LARGE", f"The query is longer than {self._max_bytes} bytes")
        self.buffered = b"".join(pieces)
        return self.buffered

    async def data_from(self, offset: int) -> AsyncIterator[bytes]:
        """Yield an INSERT's data from `offset` in the buffer on, in pieces of about a MiB.

        Each piece costs a switch of threads and some 20 µs in the engine, so pieces are large.
        """
        pieces, size = [self.buffered[offset:]], len(self.buffered) - offset
        self.buffered = b""
        while piece := await self.read():
            pieces.append(piece)
            size += len(piece)
            if size >= _PIECE_BYTES:
                yield b"".join(pieces)
                pieces, size = [], 0
        if size:
            yield b"".join(pieces)


async def _decompressed(source: AsyncIterator[bytes], by: Decoder) -> AsyncIterator[bytes]:
    async for data in source:
        for piece in by.pieces(data):
            if piece:
                yield piece
    by.finish()


class Deadline:
    """Limits the wait for the next bytes and for the whole body: a stalled client occupies a slot for queries."""

    def __init__(self, stall_s: float, whole_s: float) -> None:
        self._stall_s = stall_s
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + whole_s

    async def within(self, coming: Awaitable[T]) -> T:
        """Return the next bytes; raise ClickHouseError if they do not arrive in time."""
        try:
            async with asyncio.timeout_at(min(self._end, self._loop.time() + self._stall_s)):
                return await coming
        except TimeoutError as error:
            raise ClickHouseError(209, "SOCKET_TIMEOUT", "The rest of the request did not come in time") from error


async def read_form(
    request: web.BaseRequest, call: QueryRequest, limits: Limits
) -> tuple[QueryRequest, list[ExternalTable]]:
    """Read a multipart form: its fields are parameters of the request, its files are external tables."""
    fields: dict[str, str] = {}
    files: dict[str, bytes] = {}
    size = 0
    receiving = Deadline(limits.stall_s, limits.stall_s)
    try:
        parts = await request.multipart()
        while (part := await receiving.within(parts.next())) is not None:
            if not isinstance(part, BodyPartReader) or not part.name:
                continue
            if "Content-Encoding" in part.headers or "Content-Transfer-Encoding" in part.headers:
                raise ClickHouseError(89, "UNKNOWN_COMPRESSION_METHOD", "The parts of a form are sent without encoding")
            pieces = []
            while piece := await receiving.within(part.read_chunk(_PIECE_BYTES)):
                pieces.append(bytes(piece))
                size += len(piece)
                if size > limits.form_bytes:
                    raise ClickHouseError(229, "QUERY_IS_TOO_LARGE", f"A form may have {limits.form_bytes} bytes")
            if len(fields) + len(files) >= _MAX_PARTS:
                raise ClickHouseError(229, "QUERY_IS_TOO_LARGE", f"A form may have {_MAX_PARTS} parts")
            data = b"".join(pieces)
            if part.filename is None:
                fields[part.name] = data.decode()
            else:
                files[part.name] = data
    except ValueError as error:
        raise ClickHouseError(36, "BAD_ARGUMENTS", f"The form cannot be read: {str(error)[:200]}") from None
    call = call.with_form(fields, files)
    return call, [_external(call, name, data) for name, data in files.items()]


def _external(call: QueryRequest, name: str, data: bytes) -> ExternalTable:
    structure = call.parameters.get(f"{name}_structure", "")
    types = call.parameters.get(f"{name}_types", "")
    if not structure and not types:
        raise ClickHouseError(36, "BAD_ARGUMENTS", f"Neither {name}_structure nor {name}_types is given")
    if not structure:
        structure = ", ".join(f"_{number} {kind}" for number, kind in enumerate(types.split(","), 1))
    return ExternalTable(name, quoted(structure), call.parameters.get(f"{name}_format", "TabSeparated"), data)
