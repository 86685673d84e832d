"""Decompresses untrusted data within a limit: a few kilobytes can contain a gigabyte.

Each function writes into a buffer that is no larger than the limit, and raises DecompressionLimit beyond it. A limit is
exact for snappy, whose length is in the data; the declared length of zstd and lz4 frames is not trusted.
"""

import mmap
import struct
import zlib
from typing import Any

import cramjam

_FIRST_BYTES = 1 << 16
_FIRST_RATIO = 8
_XERIAL_HEADER = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_LENGTH = struct.Struct(">i")


class DecompressionLimit(ValueError):
    """The data decompress to more than the limit, or are invalid for the codec."""


class TooLarge(DecompressionLimit):
    """The data are valid so far, and decompress to more than the limit."""


class Budget:
    """The number of bytes to which several pieces of one input may decompress together."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def zstd(self, data: Any) -> bytes:
        """Return the content of a zstd frame, if it fits into the rest of the budget."""
        content = zstd(data, self._left)
        self._left -= len(content)
        return content


def zstd(data: Any, limit: int) -> bytes:
    """Return the content of a zstd frame."""
    return _into_buffer(cramjam.zstd, "zstd", data, limit)


def lz4(data: Any, limit: int) -> bytes:
    """Return the content of an lz4 frame."""
    return _into_buffer(cramjam.lz4, "lz4", data, limit)


def gzip(data: Any, limit: int) -> bytes:
    """Return the concatenated content of gzip members."""
    content, rest = b"", bytes(data)
    try:
        while rest:
            member = zlib.decompressobj(31)
            content += member.decompress(rest, limit + 1 - len(content))
            if len(content) > limit:
                raise _beyond("gzip", data, limit)
            if not member.eof:
                raise DecompressionLimit("gzip: truncated")
            rest = member.unused_data
    except zlib.error as error:
        raise DecompressionLimit(f"gzip: {error}") from error
    return content


def snappy(data: Any, limit: int) -> bytes:
    """Return the content of a snappy block, or of the blocks of the xerial format, which Kafka clients use."""
    view = memoryview(data)
    try:
        if bytes(view[: len(_XERIAL_HEADER)]) != _XERIAL_HEADER:
            return _snappy_block(view, limit)
        blocks, place, left = [], _XERIAL_HEADER_BYTES, limit
        while place < len(view):
            (size,) = _LENGTH.unpack_from(view, place)
            if size < 0:
                raise DecompressionLimit(f"snappy: a block of {size} bytes")
            place += _LENGTH.size
            blocks.append(_snappy_block(view[place : place + size], left))
            left -= len(blocks[-1])
            place += size
    except (cramjam.DecompressionError, struct.error) as error:
        raise DecompressionLimit(f"snappy: {error}") from error
    return b"".join(blocks)


def _snappy_block(block: memoryview, limit: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > limit:
        raise _beyond("snappy", block, limit)
    return bytes(cramjam.snappy.decompress_raw(block))


def _into_buffer(codec: Any, name: str, data: Any, limit: int) -> bytes:
    """Decompress into a small buffer first, which fits most data; then into a buffer of the limit's size.

    The large buffer is mapped memory, whose pages are allocated only when written. A bytearray would allocate all
    pages, even for an empty truncated frame. Mapped memory for all data would take twice the time of the small buffer.
    """
    size = min(limit, max(_FIRST_BYTES, _FIRST_RATIO * len(data)))
    small = bytearray(size)
    try:
        return bytes(memoryview(small)[: codec.decompress_into(data, small)])
    except cramjam.DecompressionError as error:
        if size == limit:
            raise _refused(name, data, limit, error) from error
    with mmap.mmap(-1, limit, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as large:
        try:
            return large[: codec.decompress_into(data, large)]
        except cramjam.DecompressionError as error:
            raise _refused(name, data, limit, error) from error


def _refused(name: str, data: Any, limit: int, error: Exception) -> DecompressionLimit:
    return DecompressionLimit(f"{name}: {len(data)} bytes, at most {limit} decompressed: {error}")


def _beyond(name: str, data: Any, limit: int) -> TooLarge:
    return TooLarge(f"{name}: {len(data)} bytes have more than {limit} decompressed")
