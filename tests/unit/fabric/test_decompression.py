"""Decompression is exact below its limit, and stops at it."""

import gzip as python_gzip
from collections.abc import Callable

import cramjam
import pytest
from aiokafka.codec import snappy_encode
from hypothesis import given
from hypothesis import strategies as st

from streams.fabric.decompression import DecompressionLimit, gzip, lz4, snappy, zstd

CODECS: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes, int], bytes]]] = {
    "zstd": (lambda data: bytes(cramjam.zstd.compress(data)), zstd),
    "lz4": (lambda data: bytes(cramjam.lz4.compress(data)), lz4),
    "gzip": (python_gzip.compress, gzip),
    "snappy": (lambda data: bytes(cramjam.snappy.compress_raw(data)), snappy),
    "xerial": (snappy_encode, snappy),
}


@pytest.mark.parametrize("name", CODECS)
def test_content_up_to_the_limit_is_returned(name: str) -> None:
    """Of any size that the limit allows; one byte more is refused."""
    compress, decompress = CODECS[name]
    for size in (0, 1, 5000, (1 << 20) - 1, 9 << 20):
        content = bytes(size)
        assert decompress(compress(content), size) == content
        if size:
            with pytest.raises(DecompressionLimit):
                decompress(compress(content), size - 1)


@pytest.mark.parametrize("name", CODECS)
@given(data=st.binary(max_size=64))
def test_any_bytes_are_content_or_refused(name: str, data: bytes) -> None:
    """No other error leaves a decoder, of truncated data either."""
    compress, decompress = CODECS[name]
    for broken in (data, compress(data)[:-1], compress(data)[:5] + data):
        try:
            decompress(broken, 1 << 16)
        except DecompressionLimit:
            continue
