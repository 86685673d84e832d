"""Provides a plain HTTP client of the embedded ClickHouse."""

import http.client
import time
import urllib.parse
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Answer:
    """The response to one request."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode().rstrip("\n")

    @property
    def code(self) -> int:
        return int(self.headers.get("x-clickhouse-exception-code", "0"))


@dataclass(frozen=True)
class Client:
    """Sends requests to one server over plain HTTP."""

    port: int
    headers: dict[str, str] = field(
        default_factory=lambda: {"X-ClickHouse-User": "default", "X-ClickHouse-Key": "writer"}
    )

    def ask(self, body: bytes | str = b"", method: str = "POST", path: str = "/", **parameters: Any) -> Answer:
        given = {name.removesuffix("_"): str(value) for name, value in parameters.items() if name != "headers"}
        headers = {**self.headers, **parameters.get("headers", {})}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            data = body.encode() if isinstance(body, str) else body
            connection.request(method, f"{path}?{urllib.parse.urlencode(given)}" if given else path, data, headers)
            got = connection.getresponse()
            return Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
        finally:
            connection.close()

    def table(self, columns: str = "a Int32, b String", order: str = "a", more: str = "") -> str:
        """Create a table with a unique name and return the name."""
        name = f"t_{uuid.uuid4().hex[:12]}"
        made = self.ask(f"CREATE TABLE {name} ({columns}) ENGINE = MergeTree ORDER BY {order} {more}")
        assert made.status == 200, made.text
        return name


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, what
