"""Asks one device, by GET and GETBULK. I/O only: what the values mean is decided elsewhere.

Each request is tried a few times and then given up; a device that answers nonsense, or without end, is refused.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pysnmp.error import PySnmpError
from pysnmp.proto import errind
from pysnmp.proto.api import v2c

from collectors.core.metrics import CollectorMetrics
from collectors.snmp import ber
from collectors.snmp.ber import Column, Value, Varbind
from collectors.snmp.bulk_sizing import ONE_FRAME, BulkSize, columns, repetitions
from collectors.snmp.engine import Connection, Engines
from collectors.snmp.request_encoder import GET, GETBULK, Request, request
from collectors.snmp.response_slicing import Answer
from streams.wire.errors import Reject, Retry

_TOO_BIG = 1
_ASK_AGAIN = (errind.notInTimeWindow, errind.unknownEngineID)


class Agent:
    """One device. Use as an async context manager, or `connect` and `close` it."""

    def __init__(
        self, name: str, address: tuple[str, int], engines: Engines, metrics: CollectorMetrics, *,
        timeout_s: float, tries: int,
        max_varbinds: int = 200_000, at_once: int = 50,
    ) -> None:  # fmt: skip
        self.name = name
        self._address = address
        self._engines = engines
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._tries = tries
        self._most = max_varbinds
        self._size = BulkSize(at_once)
        self._rows: dict[bytes, int] = {}
        """How many rows a column had when it was last read."""
        self._connection: Connection | None = None
        self.last_refusal = ""

    async def __aenter__(self) -> "Agent":
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def connect(self) -> str:
        """Resolve its name and open a socket; the address. Raises Retry."""
        connection = self._engines.open(self._refused)
        try:
            address = await connection.connect(*self._address)
        except OSError as error:
            raise Retry(f"{self._address[0]}: {error.strerror or error}") from error
        self._connection = connection
        return address

    def close(self) -> None:
        """Let go of the socket."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _refused(self, why: str) -> None:
        self.last_refusal = why
        self._metrics.add("unreadable", self.name)

    async def get(self, oids: Sequence[bytes]) -> dict[bytes, Value]:
        """The values of single instances; what is not there is left out. Raises Retry and Reject."""
        status, found = await self._request(request(GET, v2c.getNextRequestID(), oids))
        if status:
            raise Reject(f"answers GET with error {status}")
        wanted = set(oids)
        return {oid: value for oid, tag, value in found if tag not in ber.NOTHING and oid in wanted}

    async def columns(self, prefixes: Iterable[bytes]) -> dict[bytes, Column]:
        """Every cell of these columns, or subtrees; one that the device has not is empty. Raises Retry and Reject."""
        wanted = list(dict.fromkeys(prefixes))
        found: dict[bytes, Column] = {prefix: {} for prefix in wanted}
        known = [self._rows[prefix] + 1 for prefix in wanted if prefix in self._rows]
        wide = columns(len(wanted), max(known, default=0), self._size.values)
        for i in range(0, len(wanted), wide):
            await self._walk(wanted[i : i + wide], found)
            self._size.walked()
        self._rows.update((prefix, len(column)) for prefix, column in found.items())
        return found

    async def _walk(self, group: list[bytes], found: dict[bytes, Column]) -> None:
        last = {prefix: prefix for prefix in group}
        while last:
            asked = list(last)
            most = max(1, self._size.values // len(asked))
            # One row more than there were tells that there are no others.
            left = max(self._rows.get(prefix, -1) + 1 - len(found[prefix]) for prefix in asked)
            rows = repetitions(left, most)
            status, said = await self._bulk([last[prefix] for prefix in asked], rows)
            if status == _TOO_BIG and rows > 1:
                self._size.was_too_big(rows * len(asked))
                continue
            if status and len(asked) > 1:
                for prefix in asked:  # one of them is the device's trouble
                    found[prefix].clear()
                    await self._walk([prefix], found)
                return
            if status:
                self._refused(f"answers GETBULK with error {status}")
                return
            if not said:
                raise Reject("answers GETBULK with nothing")
            self._absorb(asked, said, last, found)
            if sum(len(column) for column in found.values()) > self._most:
                raise Reject(f"more than {self._most} values")

    @staticmethod
    def _absorb(
        asked: list[bytes], said: Sequence[Varbind], last: dict[bytes, bytes],
        found: dict[bytes, Column],
    ) -> None:  # fmt: skip
        """Take what belongs to each column; a column is over where another begins."""
        for place, prefix in enumerate(asked):
            column, size = found[prefix], len(prefix)
            mine = said[place :: len(asked)]
            for oid, tag, value in mine:
                if not oid.startswith(prefix) or tag in ber.NOTHING:
                    del last[prefix]
                    break
                row = oid[size:]
                if row in column:
                    raise Reject("answers GETBULK in circles")
                column[row] = value
            else:
                if mine:
                    last[prefix] = mine[-1][0]

    async def _bulk(self, oids: Sequence[bytes], rows: int) -> tuple[int, list[Varbind]]:
        asked = request(GETBULK, v2c.getNextRequestID(), oids, rows)
        status, found = await self._request(asked, min(rows, max(1, ONE_FRAME // len(oids))))
        if len(found) > len(oids) * rows:
            raise Reject("answers GETBULK with more than was asked for")
        return status, found

    async def _request(self, asked: Request, rows: int = 0) -> tuple[int, list[Varbind]]:
        """The error status and the varbinds of the answer. Only `rows` are asked for where no answer came in time."""
        sent = asked
        for _ in range(self._tries):
            try:
                async with asyncio.timeout(self._timeout_s):
                    answer = await self._request_once(sent)
            except TimeoutError:
                if sent.repetitions > rows:
                    sent = asked._replace(number=v2c.getNextRequestID(), repetitions=rows)
                continue
            if sent is not asked:
                self._size.was_lost()
            return answer
        why = f"; refused: {self.last_refusal}" if self.last_refusal else ""
        raise Retry(f"no answer within {self._tries} x {self._timeout_s:g} s{why}")

    async def _request_once(self, asked: Request) -> tuple[int, list[Varbind]]:
        assert self._connection is not None, "entered before"
        connection = self._connection
        answer: asyncio.Future[tuple[int, list[Varbind]]] = asyncio.get_running_loop().create_future()
        try:
            connection.request(asked, _answered, _Request(connection, asked, answer))
            return await answer
        except PySnmpError as error:
            raise Retry(f"cannot be asked: {error}") from error
        finally:
            connection.shut()


class _Request(NamedTuple):
    """What waits for an answer; and how often the device may still say that it needs to be asked otherwise."""

    connection: Connection
    request: Request
    answer: "asyncio.Future[tuple[int, list[Varbind]]]"
    reports: int = 2


def _answered(*said: Any) -> None:
    """What pysnmp calls, within its reading of the answer, or much later where none came."""
    *_, given, trouble, _handle, request = said
    answer = request.answer
    if answer.done():
        return
    if trouble:
        why = trouble["errorIndication"]
        if why in _ASK_AGAIN and request.reports:  # engine discovery, and the device's clock (RFC 3414, 4)
            again = request._replace(reports=request.reports - 1)
            try:
                request.connection.request(request.request, _answered, again)
            except PySnmpError as error:
                answer.set_exception(Retry(f"cannot be asked: {error}"))
            return
        answer.set_exception(Retry(str(why)))
        return
    if not isinstance(given, Answer) or given.number != request.request.number:
        answer.set_exception(Reject("an answer to another request"))
        return
    try:
        answer.set_result((given.status, given.varbinds()))
    except Reject as error:
        answer.set_exception(error)
