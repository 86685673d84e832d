"""Tests parsing Native blocks, and converting them to a later revision."""

import struct

import pytest

from streams.embedded.clickhouse.native import (
    BLOCK_INFO,
    UnsupportedType,
    columns,
    is_handshake,
    split,
    text,
    upgrade,
    wants_blocks,
)


def u64(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


# Each type with the data of two rows, written after the description of the format.
TWO_ROWS = {
    "UInt8": b"\x01\x02",
    "Decimal(12, 3)": bytes(16),
    "FixedString(3)": b"abcdef",
    "DateTime64(3, 'UTC')": bytes(16),
    "Enum8('a' = 1, 'b(,' = 2)": b"\x01\x02",
    "String": text("x" * 200) + text(""),
    "Nullable(String)": b"\x00\x01" + text("a") + text(""),
    "Array(UInt16)": u64(1, 3) + bytes(6),
    "Array(Array(UInt8))": u64(1, 2) + u64(2, 2) + b"\x01\x02",
    "Array(Nullable(UInt8))": u64(0, 1) + b"\x00\x07",
    "Map(String, UInt8)": u64(1, 1) + text("k") + b"\x07",
    "Tuple(UInt8, String)": b"\x01\x02" + text("a") + text("b"),
    "Tuple(a UInt8, `b c` Array(UInt8))": b"\x01\x02" + u64(0, 1) + b"\x09",
    "Point": bytes(32),
    "Ring": u64(1, 1) + bytes(16),
    "LowCardinality(String)": u64(1) + u64(0x600, 2) + text("") + text("a") + u64(2) + b"\x01\x00",
    "LowCardinality(Nullable(String))": u64(1) + u64(0x601, 2) + text("") + text("a") + u64(2) + b"\x01\x00" * 2,
    "Array(LowCardinality(String))": u64(1) + u64(0, 1) + u64(0x600, 2) + text("") + text("a") + u64(1) + b"\x01",
    "SimpleAggregateFunction(sum, UInt64)": u64(1, 2),
}


def block(*named: tuple[str, str, bytes]) -> bytes:
    return bytes([len(named), 2]) + b"".join(text(name) + text(kind) + data for name, kind, data in named)


@pytest.mark.parametrize("kind", TWO_ROWS)
def test_every_type_is_skipped_to_its_end(kind: str) -> None:
    """The column after another one is found, whatever the type of the first."""
    data = block(("a", kind, TWO_ROWS[kind]), ("t", "DateTime", bytes(8)))
    found = list(columns(data))
    assert [(one.name, one.type) for one in found] == [("a", kind), ("t", "DateTime")]
    assert data[found[1].data_at :] == bytes(8)
    assert list(split(data + data)) == [data, data]


def test_an_unsupported_type_is_an_error() -> None:
    """A block is never taken apart at a guess."""
    with pytest.raises(UnsupportedType):
        list(columns(block(("a", "Dynamic", b"xx"), ("t", "DateTime", bytes(8)))))
    assert list(split(block(("a", "JSON", b"xx")) * 2)) == [block(("a", "JSON", b"xx")) * 2]


def test_a_truncated_block_is_an_error() -> None:
    """The end of the bytes is noticed, not read past."""
    with pytest.raises(UnsupportedType):
        list(columns(block(("a", "UInt64", b"\x00"))))


def test_an_upgraded_block_names_its_time_zones() -> None:
    """From revision 54337 on, DateTime columns carry their zone; before, and for others, only BlockInfo is added."""
    zones = {"t": "DateTime('Asia/Tokyo')"}
    plain = block(("s", "String", TWO_ROWS["String"]), ("t", "DateTime", bytes(8)))
    zoned = block(("s", "String", TWO_ROWS["String"]), ("t", zones["t"], bytes(8)))
    assert upgrade(54405, zones)(plain) == BLOCK_INFO + zoned
    assert upgrade(54000, zones)(plain) == BLOCK_INFO + plain
    assert upgrade(54405, {})(plain) == BLOCK_INFO + plain


def test_columns_after_an_unsupported_one_keep_the_bare_type() -> None:
    """The instants stay right without the zone; a guess could ruin the block."""
    odd = block(("d", "Dynamic", b"xx"), ("t", "DateTime", bytes(8)))
    assert upgrade(54405, {"t": "DateTime('UTC')"})(odd) == BLOCK_INFO + odd


def test_the_handshake_of_clickhouse_go_is_known() -> None:
    """Only that question, and only with a revision, is answered as a block of that revision."""
    asked = b"SELECT displayName(), version(), revision(), timezone()"
    assert is_handshake(asked, 54460)
    assert not is_handshake(asked, 0)
    assert not is_handshake(b"SELECT 1", 54460)
    assert [wants_blocks(one) for one in (0, 54405, 54460)] == [False, True, False]
