"""Reads the body of a request and decompresses it as it arrives: the statement, then the data of an INSERT."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from aiohttp import BodyPartReader, MultipartReader, web

from streams.embedded.clickhouse.compression import ClickHouseBlocks, Decoder, decoder
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.params import Limits
from streams.embedded.clickhouse.policy import denied
from streams.embedded.clickhouse.request import QueryRequest
from streams.embedded.clickhouse.structure import rebuild, rebuild_type

# ClickHouse searches for the end of an INSERT's head within max_query_size bytes, 256 KiB by default.
HEAD_BYTES = 1 << 18
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ExternalTable:
    """A table sent with a query, available as `name` while the query runs."""

    name: str
    structure: str
    format: str
    data: bytes = field(repr=False)


class RequestBody:
    """The decompressed bytes of a request: the query from the URL, then the body."""

    def __init__(self, request: web.Request, call: QueryRequest, limits: Limits) -> None:
        """Raise ClickHouseError for an unknown encoding."""
        self._limits = limits
        self._decoders: list[Decoder] = []
        if (outer := decoder(call.content_encoding, limits.compressed_body_bytes)) is not None:
            self._decoders.append(outer)
        if call.flag("decompress"):
            self._decoders.append(ClickHouseBlocks())
        self._source = request.content
        self._ended = self._at_end = False
        self._ready: Iterator[bytes] = iter(())
        self.buffered = call.query.encode() + b"\n" if call.query else b""

    async def read(self) -> bytes:
        """Return the next piece (empty at the end); its size is bounded, however small its compressed form is."""
        while not self._ended:
            for piece in self._ready:
                if piece:
                    return piece
            async with receiving(self._limits):
                data = await self._source.read(_PIECE_BYTES)
            if not data and self._at_end:
                self._ended = True
            self._at_end = not data
            self._ready = iter(()) if self._ended else self._decompressed(data, 0)
        return b""

    def _decompressed(self, data: bytes, level: int) -> Iterator[bytes]:
        """Pass the data through all decoders and yield the result; an empty `data` is the end of the body."""
        if level == len(self._decoders):
            if data:
                yield data
            return
        one = self._decoders[level]
        if data:
            for piece in one.pieces(data):
                if piece:
                    yield from self._decompressed(piece, level + 1)
            return
        if rest := one.finish():
            yield from self._decompressed(rest, level + 1)
        yield from self._decompressed(b"", level + 1)

    async def read_head(self) -> bytes:
        """Read HEAD_BYTES, which must contain the whole head; return all buffered data."""
        while len(self.buffered) < HEAD_BYTES and (piece := await self.read()):
            self.buffered += piece
        return self.buffered

    async def read_statement(self) -> bytes:
        """Read a statement without data; raise ClickHouseError if it is too long."""
        pieces, size = [self.buffered], len(self.buffered)
        while size <= self._limits.query_bytes and (piece := await self.read()):
            pieces.append(piece)
            size += len(piece)
        if size > self._limits.query_bytes:
            raise ClickHouseError(
                229, "QUERY_IS_TOO_LARGE", f"The query is longer than {self._limits.query_bytes} bytes"
            )
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


async def read_form(
    request: web.Request, call: QueryRequest, limits: Limits
) -> tuple[QueryRequest, list[ExternalTable]]:
    """Read a multipart form: its fields are parameters of the request, its files are external tables."""
    fields: dict[str, str] = {}
    files: dict[str, bytes] = {}
    size = 0
    parts = await request.multipart()
    while (part := await _next(parts, limits)) is not None:
        if not isinstance(part, BodyPartReader) or not part.name:
            continue
        if "Content-Encoding" in part.headers or "Content-Transfer-Encoding" in part.headers:
            raise ClickHouseError(89, "UNKNOWN_COMPRESSION_METHOD", "The parts of a form are sent without encoding")
        pieces = []
        while piece := await _next_chunk(part, limits):
            pieces.append(bytes(piece))
            size += len(piece)
            if size > limits.compressed_body_bytes:
                raise ClickHouseError(
                    229, "QUERY_IS_TOO_LARGE", f"A form may have {limits.compressed_body_bytes} bytes"
                )
        data = b"".join(pieces)
        if part.filename is None:
            fields[part.name] = data.decode()
        else:
            files[part.name] = data
    call = call.with_form(fields, files)
    return call, [_external(call, name, data) for name, data in files.items()]


async def _next(parts: MultipartReader, limits: Limits) -> MultipartReader | BodyPartReader | None:
    async with receiving(limits):
        return await parts.next()


async def _next_chunk(part: BodyPartReader, limits: Limits) -> bytes:
    async with receiving(limits):
        return await part.read_chunk(_PIECE_BYTES)


@contextlib.asynccontextmanager
async def receiving(limits: Limits) -> AsyncIterator[None]:
    """Raise ClickHouseError if the next bytes do not arrive in time, because a stalled client occupies a query slot."""
    try:
        async with asyncio.timeout(limits.stall_s):
            yield
    except TimeoutError as error:
        message = f"The rest of the request did not come within {limits.stall_s:g} s"
        raise ClickHouseError(209, "SOCKET_TIMEOUT", message) from error


def _external(call: QueryRequest, name: str, data: bytes) -> ExternalTable:
    structure = call.parameters.get(f"{name}_structure", "")
    types = call.parameters.get(f"{name}_types", "")
    if not structure and not types:
        raise ClickHouseError(36, "BAD_ARGUMENTS", f"Neither {name}_structure nor {name}_types is given")
    if not structure:
        structure = ", ".join(f"_{number} {rebuild_type(kind)}" for number, kind in enumerate(types.split(","), 1))
    written_as = call.parameters.get(f"{name}_format", "TabSeparated")
    if written_as.lower() in {"values", "mysqldump"}:
        raise denied("An external table is not sent as VALUES, which are expressions")
    return ExternalTable(name, rebuild(structure), written_as, data)
