"""Compresses and decompresses bodies: HTTP encodings, and ClickHouse's blocks (`compress=1`, `decompress=1`)."""

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any, Protocol

from streams.embedded.clickhouse.block_checksum import city_hash_128
from streams.embedded.clickhouse.errors import ClickHouseError

# The offered encodings, preferred ones first: lz4 takes least CPU from the engine; browsers and curl request gzip.
_OFFERED = ("lz4", "zstd", "gzip", "deflate", "br")

_CHECKSUM_BYTES, _HEADER_BYTES = 16, 9
_LZ4, _ZSTD, _NONE = 0x82, 0x90, 0x02
# ClickHouse's DBMS_MAX_COMPRESSED_SIZE: a larger block is an error of the sender.
_MAX_BLOCK_BYTES = 1 << 30
_OUT_BLOCK_BYTES = 1 << 20


class Decoder(Protocol):
    """Decompresses a stream of pieces."""

    def feed(self, data: bytes) -> bytes:
        """Return the data that can be decompressed so far."""

    def finish(self) -> bytes:
        """Return the rest; raise ClickHouseError if the stream is truncated."""


class Encoder(Protocol):
    """Compresses a stream of pieces."""

    def feed(self, data: bytes) -> bytes:
        """Return the data that is ready to be sent."""

    def flush(self) -> bytes:
        """Return all data that was fed and not yet returned."""

    def finish(self) -> bytes:
        """Return the rest and the end of the stream."""


def decoder(encoding: str, max_whole_bytes: int) -> Decoder | None:
    """Return the decoder of a Content-Encoding, None without one; raise ClickHouseError for an unknown one."""
    if encoding in {"", "identity"}:
        return None
    if encoding == "br":
        return _Brotli(max_whole_bytes)
    make = _STREAMS.get(encoding)
    if make is None:
        raise ClickHouseError(89, "UNKNOWN_COMPRESSION_METHOD", f"Unknown compression method '{encoding}'")
    return _Frames(encoding, make)


def choose_encoding(accepted: tuple[str, ...]) -> str:
    """Return the encoding for a response, or an empty one."""
    return next((name for name in _OFFERED if name in accepted), "")


def encoder(encoding: str) -> Encoder:
    """Return the encoder of one of the encodings that `choose_encoding` returns."""
    if encoding == "lz4":
        return _Lz4()
    if encoding == "zstd":
        import zstandard

        return _Flushing(zstandard.ZstdCompressor(level=1).compressobj(), zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    if encoding == "br":
        import cramjam

        return _Cramjam(cramjam.brotli.Compressor(1))
    # 3 is the server's own http_zlib_compression_level.
    return _Flushing(zlib.compressobj(3, wbits=31 if encoding == "gzip" else 15), zlib.Z_SYNC_FLUSH)


def _lz4_decompressor() -> Any:
    import lz4.frame

    return lz4.frame.LZ4FrameDecompressor()


def _zstd_decompressor() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


_STREAMS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(31),
    "x-gzip": lambda: zlib.decompressobj(31),
    "deflate": lambda: zlib.decompressobj(15),
    "bz2": bz2.BZ2Decompressor,
    "xz": lzma.LZMADecompressor,
    "lz4": _lz4_decompressor,
    "zstd": _zstd_decompressor,
}


def _broken() -> tuple[type[Exception], ...]:
    """Return the errors that the libraries raise for invalid data."""
    import zstandard

    return (zlib.error, OSError, EOFError, lzma.LZMAError, RuntimeError, ValueError, zstandard.ZstdError)


class _Frames:
    """Decodes any number of consecutive frames, which each of these formats allows."""

    def __init__(self, encoding: str, make: Callable[[], Any]) -> None:
        self._encoding = encoding
        self._make = make
        self._frame: Any = None

    def feed(self, data: bytes) -> bytes:
        out = []
        try:
            while data:
                if self._frame is None:
                    self._frame = self._make()
                out.append(self._frame.decompress(data))
                data = b""
                if self._frame.eof:
                    data, self._frame = self._frame.unused_data or b"", None
        except _broken() as error:
            raise _corrupt(self._encoding, error) from None
        return b"".join(out)

    def finish(self) -> bytes:
        if self._frame is not None:
            raise _corrupt(self._encoding, "it ends too early")
        return b""


class _Brotli:
    """Decodes Brotli as a whole, because the library has no streaming decoder."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> bytes:
        self._buffer += data
        if len(self._buffer) > self._max:
            raise ClickHouseError(
                229, "QUERY_IS_TOO_LARGE", f"A brotli body may have {self._max} bytes; send lz4 or zstd"
            )
        return b""

    def finish(self) -> bytes:
        import cramjam

        try:
            return bytes(cramjam.brotli.decompress(bytes(self._buffer)))
        except cramjam.DecompressionError as error:
            raise _corrupt("br", error) from None


class ClickHouseBlocks:
    """Decodes ClickHouse's compressed blocks (checksum, method, sizes, data), without verifying the checksum."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> bytes:
        self._buffer += data
        out = []
        while len(self._buffer) >= _CHECKSUM_BYTES + _HEADER_BYTES:
            header = self._buffer[_CHECKSUM_BYTES : _CHECKSUM_BYTES + _HEADER_BYTES]
            packed, plain = int.from_bytes(header[1:5], "little"), int.from_bytes(header[5:9], "little")
            if not _HEADER_BYTES <= packed <= _MAX_BLOCK_BYTES or plain > _MAX_BLOCK_BYTES:
                raise _corrupt("block", "its size cannot be")
            end = _CHECKSUM_BYTES + packed
            if len(self._buffer) < end:
                break
            out.append(_unpacked(header[0], bytes(self._buffer[_CHECKSUM_BYTES + _HEADER_BYTES : end]), plain))
            del self._buffer[:end]
        return b"".join(out)

    def finish(self) -> bytes:
        if self._buffer:
            raise _corrupt("block", "it ends too early")
        return b""


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
    import lz4.block

    data = bytes(lz4.block.compress(plain, store_size=False))
    body = bytes([_LZ4]) + (len(data) + _HEADER_BYTES).to_bytes(4, "little") + len(plain).to_bytes(4, "little") + data
    return city_hash_128(body) + body


def _unpacked(method: int, data: bytes, plain_bytes: int) -> bytes:
    import lz4.block
    import zstandard

    try:
        if method == _LZ4:
            return bytes(lz4.block.decompress(data, uncompressed_size=plain_bytes))
        if method == _ZSTD:
            return bytes(zstandard.ZstdDecompressor().decompress(data, max_output_size=plain_bytes))
    except (lz4.block.LZ4BlockError, zstandard.ZstdError) as error:
        raise _corrupt("block", error) from None
    if method == _NONE:
        return data
    raise ClickHouseError(89, "UNKNOWN_COMPRESSION_METHOD", f"Unknown compression method byte {method:#x}")


class _Lz4:
    def __init__(self) -> None:
        import lz4.frame

        self._frame = lz4.frame.LZ4FrameCompressor()
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        head = b"" if self._begun else bytes(self._frame.begin())
        self._begun = True
        return head + bytes(self._frame.compress(data))

    def flush(self) -> bytes:
        return self.feed(b"") if not self._begun else b""

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


class _Cramjam:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def feed(self, data: bytes) -> bytes:
        self._stream.compress(data)
        return b""

    def flush(self) -> bytes:
        return bytes(self._stream.flush())

    def finish(self) -> bytes:
        return bytes(self._stream.finish())


def _corrupt(encoding: str, why: object) -> ClickHouseError:
    return ClickHouseError(271, "CANNOT_DECOMPRESS", f"Cannot decompress the body ({encoding}): {why}")
