"""Tests requests of Grafana's ClickHouse data source, and responses that it can read.

As observed of grafana-clickhouse-datasource 4.14 with clickhouse-go 2.43: always POST / with the SQL as the body.
"""

import base64
import gzip
import http.client
import struct
import urllib.parse
from collections.abc import Iterator

import pytest

from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse, User

HANDSHAKE = "SELECT displayName(), version(), revision(), timezone()"


class Native:
    """A reader of Native blocks for this test alone, written from the format's description."""

    def __init__(self, data: bytes, revision: int) -> None:
        self.data = data
        self.at = 0
        self.revision = revision

    def take(self, size: int) -> bytes:
        self.at += size
        assert self.at <= len(self.data), "the block is cut short"
        return self.data[self.at - size : self.at]

    def varint(self) -> int:
        value = shift = 0
        while (byte := self.take(1)[0]) >= 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def text(self) -> str:
        return self.take(self.varint()).decode()

    def rows(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        while self.at < len(self.data):
            if self.revision:
                assert self.take(8) == b"\x01\x00\x02\xff\xff\xff\xff\x00"
            columns, count = self.varint(), self.varint()
            block: list[dict[str, object]] = [{} for _ in range(count)]
            for _ in range(columns):
                name, kind = self.text(), self.text()
                if self.revision >= 54454:
                    assert self.take(1) == b"\x00"
                for row, value in zip(block, self.values(kind, count), strict=True):
                    row[name] = value
            found += block
        return found

    def values(self, kind: str, count: int) -> list[object]:
        if kind == "String":
            return [self.text() for _ in range(count)]
        if kind.startswith("Nullable("):
            nulls = self.take(count)
            inner = self.values(kind[9:-1], count)
            return [None if null else value for null, value in zip(nulls, inner, strict=True)]
        shape = {"UInt8": "B", "UInt32": "I", "UInt64": "Q", "Enum8": "b", "Float64": "d", "DateTime64": "q"}
        letter = shape[kind.partition("(")[0]]
        return list(struct.unpack(f"<{count}{letter}", self.take(count * struct.calcsize(letter))))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedClickHouse]:
    """Yield a server with the read-only user of a data source."""
    users = (User("default", "admin"), User("grafana", "look", read_only=True))
    with EmbeddedClickHouse(ClickHouseParams(data=tmp_path_factory.mktemp("clickhouse"), users=users)) as one:
        yield one


def ask(server: EmbeddedClickHouse, sql: str, user: str = "grafana:look", **settings: str) -> tuple[int, bytes]:
    """Send one query as the data source does; return the status and the body, unpacked."""
    parameters = {
        "default_format": "Native",
        "client_protocol_version": "54460",
        "database": "default",
        "max_execution_time": "60",
        **settings,
    }
    headers = {
        "Authorization": "Basic " + base64.b64encode(user.encode()).decode(),
        "Accept-Encoding": "gzip",
        "User-Agent": "clickhouse-go/2.43.0 (lv:go/1.25; os:linux)",
    }
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request("POST", f"/?{urllib.parse.urlencode(parameters)}", sql, headers)
        got = connection.getresponse()
        body = got.read()
        packed = got.getheader("Content-Encoding") == "gzip"
        return got.status, gzip.decompress(body) if packed else body
    finally:
        connection.close()


def rows(server: EmbeddedClickHouse, sql: str, **settings: str) -> list[dict[str, object]]:
    """Query as a connection to a server of revision 0."""
    status, body = ask(server, sql, **settings)
    assert status == 200, body.decode()
    return Native(body, 0).rows()


def test_the_first_response_is_a_block_of_the_clients_revision(server: EmbeddedClickHouse) -> None:
    """It has revision 0, so that plain Native is read from then on."""
    status, body = ask(server, HANDSHAKE)
    assert status == 200
    (row,) = Native(body, 54460).rows()
    assert row["revision()"] == 0
    assert str(row["version()"]).count(".") == 3
    assert row["displayName()"]
    assert row["timezone()"]


def test_save_and_test(server: EmbeddedClickHouse) -> None:
    """The button sends this second query."""
    assert rows(server, "SELECT 1") == [{"1": 1}]


def test_browsing(server: EmbeddedClickHouse) -> None:
    """The query builder lists databases, tables, columns and functions."""
    assert (
        ask(server, "CREATE TABLE IF NOT EXISTS links (port String, up UInt8) ENGINE = Memory", "default:admin")[0]
        == 200
    )
    assert {"name": "default"} in rows(server, "SHOW DATABASES")
    assert {"name": "links"} in rows(server, 'SHOW TABLES FROM "default"')
    described = rows(server, 'DESC TABLE "default"."links"')
    assert [(row["name"], row["type"]) for row in described] == [("port", "String"), ("up", "UInt8")]
    functions = rows(server, "SELECT name, is_aggregate FROM system.functions")
    assert len(functions) > 1000
    columns = rows(server, "SELECT name, type, table FROM system.columns WHERE database IN ('default')")
    assert {"name": "port", "type": "String", "table": "links"} in columns
