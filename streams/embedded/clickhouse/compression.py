"""Compresses and decompresses bodies: HTTP encodings, and ClickHouse's blocks (`compress=1`, `decompress=1`)."""

import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import lz4.block
import lz4.frame
import zstandard
from clickhouse_cityhash.cityhash import CityHash128

from streams.embedded.clickhouse.errors import ClickHouseError

# The offered encodings in order of preference: lz4 needs the least CPU; browsers and curl request gzip.
_OFFERED = ("lz4", "zstd", "gzip", "deflate")

_CHECKSUM_BYTES, _HEADER_BYTES = 16, 9
_LZ4, _ZSTD, _NONE = 0x82, 0x90, 0x02
# ClickHouse's clients write blocks of 1 MiB. The server's limit is 1 GiB, so a header of 25 bytes could reserve 1 GiB.
_MAX_BLOCK_BYTES = 16 << 20
# The window of the usual levels (up to 19); larger ones would reserve memory for each request.
_ZSTD_WINDOW_BYTES = 8 << 20
# The largest piece of decompressed data, so that a few bytes of input cannot allocate gigabytes at once.
_PIECE_BYTES = 1 << 20
# zstandard does not limit the output of a call: an RLE block of 4 bytes expands to 128 KiB, 256 bytes to 8 MiB at most.
_ZSTD_SLICE_BYTES = 1 << 8
# Each slice and each frame copies the rest of its input: for 1 MiB of empty frames of 9 bytes, 120 GB were copied.
# With input in steps of this size, the time for a body is linear in its length.
_ZSTD_STEP_BYTES = 4 << 10
_OUT_BLOCK_BYTES = 1 << 20


class Decoder(Protocol):
    """Decompresses a stream."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the data that can be decompressed so far, in pieces of bounded size; the caller stops at its limit."""

    def finish(self) -> None:
        """Raise ClickHouseError if the stream is truncated."""


class Encoder(Protocol):
    """Compresses a stream of pieces."""

    def feed(self, data: bytes) -> bytes:
        """Return the data that is ready to be sent."""

    def flush(self) -> bytes:
        """Return the rest of the data that was fed."""

    def finish(self) -> bytes:
        """Return the rest and the end of the stream."""


def decoder(encoding: str) -> Decoder | None:
    """Return the decoder of a Content-Encoding (None: no encoding); raise ClickHouseError for an unknown encoding."""
    if encoding in {"", "identity"}:
        return None
    make = _STREAMS.get(encoding)
    if make is None:
        raise ClickHouseError(89, "UNKNOWN_COMPRESSION_METHOD", f"Unknown compression method '{encoding}'")
    return _Frames(encoding, make, _ZSTD_STEP_BYTES if encoding == "zstd" else None)


def choose_encoding(accepted: tuple[str, ...]) -> str:
    """Return the encoding for a response (empty: none)."""
    return next((name for name in _OFFERED if name in accepted), "")


def encoder(encoding: str) -> Encoder:
    """Return the encoder of one of the encodings that `choose_encoding` returns."""
    if encoding == "lz4":
        return _Lz4()
    if encoding == "zstd":
        return _Flushing(zstandard.ZstdCompressor(level=1).compressobj(), zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    # 3 is the server's own http_zlib_compression_level.
    return _Flushing(zlib.compressobj(3, wbits=31 if encoding == "gzip" else 15), zlib.Z_SYNC_FLUSH)


class _Zstd:
    """Decompresses one zstd frame in small slices of input."""

    def __init__(self) -> None:
        self._frame = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES).decompressobj()
        self._input = b""
        self.eof = False
        self.unused_data = b""

    @property
    def needs_input(self) -> bool:
        return not self._input

    def decompress(self, data: bytes, _: int) -> bytes:
        self._input += data
        piece, self._input = self._input[:_ZSTD_SLICE_BYTES], self._input[_ZSTD_SLICE_BYTES:]
        out = self._frame.decompress(piece)
        if self._frame.eof:
            self.eof, self.unused_data, self._input = True, self._frame.unused_data + self._input, b""
        return out


class _Zlib:
    """Gives zlib's decompressor the interface that lz4 has."""

    def __init__(self, wbits: int) -> None:
        self._stream = zlib.decompressobj(wbits)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, data: bytes, max_bytes: int) -> bytes:
        out = self._stream.decompress(self._stream.unconsumed_tail + data, max_bytes)
        self.needs_input = not self._stream.unconsumed_tail and len(out) < max_bytes
        return out


_STREAMS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: _Zlib(31),
    "deflate": lambda: _Zlib(15),
    "lz4": lz4.frame.LZ4FrameDecompressor,
    "zstd": _Zstd,
}

_BROKEN = (zlib.error, EOFError, RuntimeError, ValueError, zstandard.ZstdError)
"""The errors that the libraries raise for invalid data."""


class _Frames:
    """Decodes consecutive frames, which each of these formats permits."""

    def __init__(self, encoding: str, make: Callable[[], Any], step_bytes: int | None = None) -> None:
        """Pass at most `step_bytes` to one call of the decompressor (default: no limit)."""
        self._encoding = encoding
        self._make = make
        self._step_bytes = step_bytes
        self._frame: Any = None

    def pieces(self, data: bytes) -> Iterator[bytes]:
        step_bytes = self._step_bytes or len(data)
        for start in range(0, len(data), step_bytes or 1):
            yield from self._pieces(data[start : start + step_bytes])

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        try:
            while data:
                if self._frame is None:
                    self._frame = self._make()
                piece = self._frame.decompress(data, _PIECE_BYTES)
                while not self._frame.eof and not self._frame.needs_input:
                    yield piece
                    piece = self._frame.decompress(b"", _PIECE_BYTES)
                if piece:
                    yield piece
                data = b""
                if self._frame.eof:
                    data, self._frame = self._frame.unused_data or b"", None
        except _BROKEN as error:
            raise _corrupt(self._encoding, error) from None

    def finish(self) -> None:
        if self._frame is not None:
            raise _corrupt(self._encoding, "it ends too early")


class ClickHouseBlocks:
    """Decodes ClickHouse's compressed blocks (checksum, method, sizes, data), without verifying the checksum."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def pieces(self, data: bytes) -> Iterator[bytes]:
        self._buffer += data
        while len(self._buffer) >= _CHECKSUM_BYTES + _HEADER_BYTES:
            header = self._buffer[_CHECKSUM_BYTES : _CHECKSUM_BYTES + _HEADER_BYTES]
            packed, plain = int.from_bytes(header[1:5], "little"), int.from_bytes(header[5:9], "little")
            if not _HEADER_BYTES <= packed <= _MAX_BLOCK_BYTES or plain > _MAX_BLOCK_BYTES:
                raise _corrupt("block", "its size cannot be")
            end = _CHECKSUM_BYTES + packed
            if len(self._buffer) < end:
                break
            packed_data = bytes(self._buffer[_CHECKSUM_BYTES + _HEADER_BYTES : end])
            del self._buffer[:end]
            yield _unpacked(header[0], packed_data, plain)

    def finish(self) -> None:
        if self._buffer:
            raise _corrupt("block", "it ends too early")


class ClickHouseBlockEncoder:
    """Encodes ClickHouse's blocks with LZ4, each with a MiB of the response."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> bytes:
        self._buffer += data
        out = []
        while len(self._buffer) >= _OUT_BLOCK_BYTES:
            out.append(_packed(bytes(self._buffer[:_OUT_BLOCK_BYTES])))
            del self._buffer[:_OUT_BLOCK_BYTES]
        return b"".join(out)

    def flush(self) -> bytes:
        plain = bytes(self._buffer)
        self._buffer.clear()
        return _packed(plain) if plain else b""

    def finish(self) -> bytes:
        return self.flush()


def _packed(plain: bytes) -> bytes:
    data = bytes(lz4.block.compress(plain, store_size=False))
    body = bytes([_LZ4]) + (len(data) + _HEADER_BYTES).to_bytes(4, "little") + len(plain).to_bytes(4, "little") + data
    return city_hash_128(body) + body


def city_hash_128(data: bytes) -> bytes:
    """Return CityHash128 of CityHash 1.0.2 (later versions differ) as ClickHouse writes it: the upper half first."""
    value: int = CityHash128(data)
    return (value >> 64).to_bytes(8, "little") + (value & (1 << 64) - 1).to_bytes(8, "little")


def _unpacked(method: int, data: bytes, plain_bytes: int) -> bytes:
    try:
        if method == _LZ4:
            return bytes(lz4.block.decompress(data, uncompressed_size=plain_bytes))
        if method == _ZSTD:
            # max_output_size has no effect on a frame that declares its size.
            if zstandard.frame_content_size(data) > plain_bytes:
                raise _corrupt("block", "its size cannot be")
            return bytes(zstandard.ZstdDecompressor().decompress(data, max_output_size=plain_bytes))
    except (lz4.block.LZ4BlockError, zstandard.ZstdError) as error:
        raise _corrupt("block", error) from None
    if method == _NONE:
        return data
    raise ClickHouseError(89, "UNKNOWN_COMPRESSION_METHOD", f"Unknown compression method byte {method:#x}")


class _Lz4:
    def __init__(self) -> None:
        self._frame = lz4.frame.LZ4FrameCompressor()
        self._head = bytes(self._frame.begin())

    def feed(self, data: bytes) -> bytes:
        return self.flush() + bytes(self._frame.compress(data))

    def flush(self) -> bytes:
        head, self._head = self._head, b""
        return head

    def finish(self) -> bytes:
        return self.flush() + bytes(self._frame.flush())


class _Flushing:
    def __init__(self, stream: Any, flush_mode: int) -> None:
        self._stream = stream
        self._mode = flush_mode

    def feed(self, data: bytes) -> bytes:
        return bytes(self._stream.compress(data))

    def flush(self) -> bytes:
        return bytes(self._stream.flush(self._mode))

    def finish(self) -> bytes:
        return bytes(self._stream.flush())


def _corrupt(encoding: str, why: object) -> ClickHouseError:
    return ClickHouseError(271, "CANNOT_DECOMPRESS", f"Cannot decompress the body ({encoding}): {why}")
