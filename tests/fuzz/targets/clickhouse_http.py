"""Parsers of the embedded ClickHouse's HTTP face, before its engine: requests, bodies, structures, statements."""

from collections.abc import Iterator

from streams.embedded.clickhouse import compression, gate
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.native import UnsupportedType, columns, split
from streams.embedded.clickhouse.request import parse_request
from tests.fuzz.target import BrokenPromise, Target, framed, frames

_ENCODINGS = ("gzip", "deflate", "xz", "zstd", "lz4", "bz2", "x-gzip", "unknown", "")
_MAX_PIECE_BYTES = 64 << 20
_ENOUGH_BYTES = 256 << 20
"""As the face does, the target stops to read a body that is too long."""


def _parse_body(data: bytes) -> None:
    """Decompress a body by the encoding of its first byte; no piece is larger than the face expects."""
    if not data:
        return
    decoder = compression.decoder(_ENCODINGS[data[0] % len(_ENCODINGS)])
    if decoder is not None:
        _drain(decoder, data[1:])


def _parse_blocks(data: bytes) -> None:
    _drain(compression.ClickHouseBlocks(), data)


def _drain(decoder: compression.Decoder, data: bytes) -> None:
    size = 0
    for at in range(0, len(data), 1000):
        for piece in decoder.pieces(data[at : at + 1000]):
            if len(piece) > _MAX_PIECE_BYTES:
                raise BrokenPromise(f"a piece of {len(piece)} bytes")
            size += len(piece)
            if size > _ENOUGH_BYTES:
                return
    decoder.finish()


def _body_seeds() -> Iterator[bytes]:
    plain = b"INSERT INTO t VALUES (1), (2), (3)" * 20
    for number, encoding in enumerate(_ENCODINGS):
        if encoding in {"xz", "bz2", "x-gzip", "unknown", ""}:
            continue
        encoder = compression.encoder(encoding)
        yield bytes([number]) + encoder.feed(plain) + encoder.flush() + encoder.finish()


def _block_seeds() -> Iterator[bytes]:
    encoder = compression.ClickHouseBlockEncoder()
    yield encoder.feed(b"some rows" * 50) + encoder.flush() + encoder.finish()


def _parse_statement(data: bytes) -> None:
    """A reader's text begins with its keyword, is a part of what was sent, and has no INTO OUTFILE."""
    for reader, complete in ((False, True), (False, False), (True, True)):
        try:
            statement = gate.judge(data, reader=reader, deadline=float("inf"), complete=complete)
        except ClickHouseError:
            continue
        if statement is None or not reader:
            continue
        text = statement.text.upper()
        if statement.text not in data or not text.startswith(statement.keyword) or b"OUTFILE" in text:
            raise BrokenPromise(f"{statement.text!r} goes to the engine")


def _parse_native(data: bytes) -> None:
    """Read blocks of the engine's Native format, whose values are those of a client."""
    try:
        for block in split(data):
            list(columns(block))
    except UnsupportedType:
        return


def _parse_request(data: bytes) -> None:
    """Read method, names and values of parameters, in the URL and in a form with tables of these names, then headers."""
    texts = [part.decode("utf-8", "replace") for part in frames(data)]
    names = texts[1::2]
    pairs = list(zip(names, texts[2::2], strict=False))
    half = len(pairs) // 2
    headers = {name.lower(): value for name, value in pairs[half:]}
    method = texts[0] if texts else "GET"
    form = parse_request(method, (), headers).with_form(dict(pairs[:half]), names[:half])
    for call in (parse_request(method, pairs[:half], headers), form):
        _ = call.settings, call.database, call.default_format, call.protocol_version, call.session_timeout_s


TARGETS = (
    Target("clickhouse-body", _parse_body, (ClickHouseError,), _body_seeds, max_growth_bytes=192 << 20),
    Target("clickhouse-blocks", _parse_blocks, (ClickHouseError,), _block_seeds, max_growth_bytes=192 << 20),
    Target(
        "clickhouse-statement",
        _parse_statement,
        (),
        lambda: (
            b"SELECT count() FROM t WHERE a = 'x' SETTINGS max_threads = 1 FORMAT JSON",
            b"INSERT INTO t (a, b) FORMAT TabSeparated 1\t2",
            b"INSERT INTO t SELECT * FROM input('a Int8') FORMAT CSV SETTINGS a = 1\n1",
            b"SELECT $a$x$a$ /* /* */ */ INTO OUTFILE 'x'; SELECT 2",
            b"CREATE TABLE t (a Int8) ENGINE = MergeTree ORDER BY a",
        ),
    ),
    Target(
        "clickhouse-native",
        _parse_native,
        (),
        lambda: (
            b"\x02\x02\x01a\x05UInt8\x01\x02\x01b\x06String\x01x\x02yz",
            b"\x01\x01\x01c\x16LowCardinality(String)\x01\x00\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00"
            b"\x01\x00\x00\x00\x00\x00\x00\x00\x01x\x01\x00\x00\x00\x00\x00\x00\x00\x00",
        ),
    ),
    Target(
        "clickhouse-request",
        _parse_request,
        (ClickHouseError,),
        lambda: (
            framed(b"POST", b"query", b"SELECT 1", b"session_timeout", b"60", b"authorization", b"Basic dTpw",
                   b"accept-encoding", b"gzip, lz4"),
        ),
    ),
)  # fmt: skip
