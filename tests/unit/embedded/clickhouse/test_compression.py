"""Tests every compression that a client may use, in pieces of any size."""

import gzip
import zlib

import lz4.frame
import pytest
import zstandard

from streams.embedded.clickhouse.compression import (
    ClickHouseBlocks,
    Decoder,
    _Frames,
    _Zstd,
    choose_encoding,
    decoder,
    encoder,
)
from streams.embedded.clickhouse.errors import ClickHouseError

DATA = bytes(range(256)) * 40 + b"railsight " * 3000
PACKED = {
    "gzip": gzip.compress(DATA) + gzip.compress(b"more"),
    "deflate": zlib.compress(DATA + b"more"),
    "lz4": lz4.frame.compress(DATA) + lz4.frame.compress(b"more"),
    "zstd": zstandard.compress(DATA) + zstandard.compress(b"more"),
}


def fed(one: Decoder | None, data: bytes, piece: int) -> bytes:
    assert one is not None
    plain = b"".join(out for at in range(0, len(data), piece) for out in one.pieces(data[at : at + piece]))
    one.finish()
    return plain


@pytest.mark.parametrize("piece", [7, 1000, 1 << 20])
@pytest.mark.parametrize("encoding", PACKED)
def test_a_body_decompresses_whatever_pieces_it_comes_in(encoding: str, piece: int) -> None:
    """Several frames in one body are one body, as each of these formats allows."""
    assert fed(decoder(encoding), PACKED[encoding], piece) == DATA + b"more"


@pytest.mark.parametrize("encoding", PACKED)
def test_a_broken_body_is_refused(encoding: str) -> None:
    """Noise and a body that is cut off raise ClickHouse's error, not the library's."""
    for broken in (b"\x00\x01noise" * 20, PACKED[encoding][:50]):
        with pytest.raises(ClickHouseError, match="271"):
            fed(decoder(encoding), broken, 30)


def test_an_unknown_encoding_is_refused_by_name() -> None:
    """The error names the encoding; identity is none. Brotli has no streaming decoder; no client sends bzip2 or xz."""
    for name in ("snappier", "br", "bz2", "xz"):
        with pytest.raises(ClickHouseError, match=name):
            decoder(name)
    assert decoder("identity") is None


def test_a_body_reserves_little_memory() -> None:
    """A window of 64 MiB and more, for each request, is refused before it is allocated."""
    large = zstandard.ZstdCompressionParameters(window_log=27)
    with pytest.raises(ClickHouseError, match="271"):
        fed(decoder("zstd"), zstandard.ZstdCompressor(compression_params=large).compress(bytes(1 << 27)), 1000)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "lz4", "zstd"])
def test_an_answer_reads_back(encoding: str) -> None:
    """Flushed data can be read before the end of the stream."""
    out = encoder(encoding)
    data = out.feed(DATA) + out.flush() + out.feed(b"more") + out.finish()
    assert fed(decoder(encoding), data, 1 << 20) == DATA + b"more"


def test_the_cheapest_accepted_encoding_is_chosen() -> None:
    """Grafana asks for gzip, clickhouse-connect for lz4 among others, a plain client for nothing."""
    assert choose_encoding(("gzip",)) == "gzip"
    assert choose_encoding(("gzip", "br", "zstd", "lz4")) == "lz4"
    assert choose_encoding(("", "*", "br")) == ""


def test_a_block_of_impossible_size_is_refused() -> None:
    """A header of noise must not make the server wait for a gigabyte."""
    with pytest.raises(ClickHouseError, match="size"):
        list(ClickHouseBlocks().pieces(b"\xff" * 40))


def test_a_zstd_body_is_decoded_in_small_steps() -> None:
    """Each frame, of 9 bytes without content, copies what is left of its step: that must not be the whole body."""
    inputs: list[int] = []

    class Recording(_Zstd):
        def decompress(self, data: bytes, limit: int) -> bytes:
            inputs.append(len(data))
            return super().decompress(data, limit)

    empty = zstandard.compress(b"")
    frames = _Frames("zstd", Recording, step_bytes=4096)
    assert fed(frames, empty * 2000 + zstandard.compress(b"x" * 10_000), 1 << 20) == b"x" * 10_000
    assert max(inputs) <= 4096
    decoding = decoder("zstd")
    assert isinstance(decoding, _Frames) and decoding._step_bytes == 4096
