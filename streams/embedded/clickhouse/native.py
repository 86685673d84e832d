"""ClickHouse's Native format for clients that ask for a revision of its protocol (`client_protocol_version`).

The engine writes Native as revision 0. A client that said its revision reads two things more: a BlockInfo before
every block, and from revision 54454 on a byte after each column's type that says whether it is serialized specially.
"""

import re
import struct

from streams.embedded.clickhouse.engine import Answer, Connection

BLOCK_INFO = b"\x01\x00\x02\xff\xff\xff\xff\x00"  # 1: is_overflows = 0, 2: bucket_num = -1, end
_CUSTOM_SERIALIZATION = 54454

# What clickhouse-go asks on each new connection. It reads the answer by the revision that it sent itself, and all
# that follows by the one that is answered: 0 makes it read plain Native.
_HANDSHAKE = re.compile(
    r"\s*SELECT\s+displayName\(\)\s*,\s*version\(\)\s*,\s*revision\(\)\s*,\s*timezone\(\)\s*;?\s*", re.IGNORECASE
)


def is_handshake(sql: str, revision: int) -> bool:
    """Say whether this is the question with which clickhouse-go begins."""
    return revision > 0 and _HANDSHAKE.fullmatch(sql) is not None


def handshake_block(connection: Connection, revision: int) -> Answer:
    """Return the answer to that question as a block of the client's revision; it says that ours is 0."""
    name, version, zone = (
        connection.query("SELECT displayName(), version(), timezone()", "TabSeparatedRaw")
        .data.decode()
        .rstrip("\n")
        .split("\t")
    )
    columns = [
        ("displayName()", "String", _text(name)),
        ("version()", "String", _text(version)),
        ("revision()", "UInt32", struct.pack("<I", 0)),
        ("timezone()", "String", _text(zone)),
    ]
    special = b"\x00" if revision >= _CUSTOM_SERIALIZATION else b""
    data = BLOCK_INFO + bytes([len(columns), 1])
    data += b"".join(_text(label) + _text(kind) + special + value for label, kind, value in columns)
    return Answer(data=data, rows=1)


def _text(text: str) -> bytes:
    raw = text.encode()
    size, head = len(raw), bytearray()
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(head) + bytes([size]) + raw
