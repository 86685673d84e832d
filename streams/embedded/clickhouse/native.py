"""Converts the Native format for clients that request a revision of its protocol (`client_protocol_version`).

The engine writes Native as revision 0. A client of a later revision expects more: a BlockInfo before every block, from
revision 54337 on the time zone of a DateTime column, and from 54454 on a byte after each column's type that
marks a custom serialization. The server sends this byte only for clickhouse-go's first query.
"""

import json
import re
import struct
from collections.abc import Callable, Mapping

from streams.embedded.clickhouse.engine import Connection, Result
from streams.embedded.clickhouse.gate import Statement
from streams.embedded.clickhouse.native_blocks import UnsupportedType, columns, text

BLOCK_INFO = b"\x01\x00\x02\xff\xff\xff\xff\x00"  # 1: is_overflows = 0, 2: bucket_num = -1, end
_TIME_ZONES = 54337
_CUSTOM_SERIALIZATION = 54454
_DATE_TIME = text("DateTime")

# The first query of clickhouse-go on each connection. clickhouse-go parses the response by the revision that it sent,
# and later responses by the revision in this response: with 0 it reads plain Native.
_HANDSHAKE = re.compile(
    rb"\s*SELECT\s+displayName\(\)\s*,\s*version\(\)\s*,\s*revision\(\)\s*,\s*timezone\(\)\s*;?\s*", re.IGNORECASE
)


def is_handshake(sql: bytes, revision: int) -> bool:
    """Return whether this is clickhouse-go's first query."""
    return revision > 0 and _HANDSHAKE.fullmatch(sql) is not None


def handshake_block(connection: Connection, revision: int) -> Result:
    """Return the result of clickhouse-go's first query as a block of its revision that states our revision 0."""
    row = connection.query("SELECT displayName(), version(), timezone()", "TabSeparatedRaw").data.decode()
    name, version, zone = row.rstrip("\n").split("\t")
    fields = [
        ("displayName()", "String", text(name)),
        ("version()", "String", text(version)),
        ("revision()", "UInt32", struct.pack("<I", 0)),
        ("timezone()", "String", text(zone)),
    ]
    special = b"\x00" if revision >= _CUSTOM_SERIALIZATION else b""
    data = BLOCK_INFO + bytes([len(fields), 1])
    data += b"".join(text(label) + text(kind) + special + value for label, kind, value in fields)
    return Result(data=data, rows=1)


def wants_blocks(revision: int) -> bool:
    """Return whether a client of this revision reads a BlockInfo; clients of later revisions received revision 0."""
    return 0 < revision < _CUSTOM_SERIALIZATION


def upgrade(revision: int, zones: Mapping[str, str]) -> Callable[[bytes], bytes]:
    """Return a converter of blocks from revision 0 to `revision`; `zones` maps DateTime columns to their full types.

    In a block with an unsupported type, `DateTime` stays without its time zone.
    """

    def convert(block: bytes) -> bytes:
        if not wants_blocks(revision):
            return block
        if revision < _TIME_ZONES or not zones or _DATE_TIME not in block:
            return BLOCK_INFO + block
        pieces, copied = [BLOCK_INFO], 0
        try:
            for column in columns(block):
                if column.type == "DateTime" and column.name in zones:
                    pieces += [block[copied : column.type_at], text(zones[column.name])]
                    copied = column.data_at
        except UnsupportedType:
            pass
        return b"".join([*pieces, block[copied:]])

    return convert


def zoned_columns(connection: Connection, statement: Statement, revision: int) -> dict[str, str]:
    """Return the full types of the DateTime columns of a SELECT that name a time zone, if the revision has them."""
    if not wants_blocks(revision) or revision < _TIME_ZONES:
        return {}
    text = b"DESCRIBE TABLE (" + statement.without_format + b"\n)"
    rows = connection.statement(text, "JSONCompactEachRow").data.splitlines()
    described = [json.loads(row)[:2] for row in rows]
    return {name: kind for name, kind in described if kind.startswith("DateTime(")}
