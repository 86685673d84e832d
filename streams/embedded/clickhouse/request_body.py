"""Reads the body of a request, decompressed as it arrives: the statement, then the data of an INSERT."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from aiohttp import BodyPartReader, web

from streams.embedded.clickhouse.compression import ClickHouseBlocks, Decoder, decoder
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.params import Limits
from streams.embedded.clickhouse.request import QueryRequest

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
    """The decompressed bytes of a request: the query of the URL, then the body."""

    def __init__(self, request: web.Request, call: QueryRequest, limits: Limits) -> None:
        """Raise ClickHouseError for an unknown encoding."""
        self._limits = limits
        self._decoders: list[Decoder] = []
        if (outer := decoder(call.content_encoding, limits.compressed_body_bytes)) is not None:
            self._decoders.append(outer)
        if call.flag("decompress"):
            self._decoders.append(ClickHouseBlocks())
        self._source = request.content
        self._ended = False
        self.buffered = call.query.encode() + b"\n" if call.query else b""

    async def read(self) -> bytes:
        """Return the next piece, empty at the end."""
        while not self._ended:
            data = await self._source.read(_PIECE_BYTES)
            self._ended = not data
            for one in self._decoders:
                data = one.feed(data) + (one.finish() if self._ended else b"")
            if data:
                return data
        return b""

    async def read_head(self) -> bytes:
        """Read until the head must be complete; return all buffered data."""
        while len(self.buffered) < HEAD_BYTES and (piece := await self.read()):
            self.buffered += piece
        return self.buffered

    async def read_statement(self) -> bytes:
        """Read a statement without data; raise ClickHouseError if it is too long."""
        pieces, size = [self.buffered], len(self.buffered)
        while piece := await self.read():
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

        Each piece takes a switch of threads and some 20 µs of the engine, so pieces are large.
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
    async for part in await request.multipart():
        if not isinstance(part, BodyPartReader) or not part.name:
            continue
        data = bytes(await part.read(decode=True))
        size += len(data)
        if size > limits.compressed_body_bytes:
            raise ClickHouseError(229, "QUERY_IS_TOO_LARGE", f"A form may have {limits.compressed_body_bytes} bytes")
        if part.filename is None:
            fields[part.name] = data.decode()
        else:
            files[part.name] = data
    call = call.with_form(fields, files)
    return call, [_external(call, name, data) for name, data in files.items()]


def _external(call: QueryRequest, name: str, data: bytes) -> ExternalTable:
    structure = call.parameters.get(f"{name}_structure", "")
    types = call.parameters.get(f"{name}_types", "")
    if not structure and not types:
        raise ClickHouseError(36, "BAD_ARGUMENTS", f"Neither {name}_structure nor {name}_types is given")
    if not structure:
        structure = ", ".join(f"_{number} {kind}" for number, kind in enumerate(types.split(","), 1))
    return ExternalTable(name, structure, call.parameters.get(f"{name}_format", "TabSeparated"), data)
