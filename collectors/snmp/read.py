"""Requests columns and single values of one device's agent.

Each request is tried a few times; a device whose answers are malformed or endless is refused. The number of requests is
minimized, because each has a cost.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pysnmp.error import PySnmpError
from pysnmp.proto import errind
from pysnmp.proto.api import v2c

from collectors.core.device_share import DeviceShare
from collectors.core.metrics import CollectorMetrics
from collectors.snmp import ber
from collectors.snmp.ber import Column, Value, Varbind
from collectors.snmp.engine import Connection, Engines
from collectors.snmp.messages import GET, GETBULK, Answer, Request, request
from streams.wire.errors import Reject, Retry

ONE_FRAME = 50
"""The number of values whose answer fills one Ethernet frame: some 24 bytes each (measured on ifTable, ifXTable)."""
_FIRST_PAUSE, _LONGEST_PAUSE = 8, 1024
"""Numbers of walks; a poll has about 10. A single loss costs one more poll; if fragments never arrive, 1 in 100."""
_COLUMNS, _WIDEST = 5, 10
"""Columns per group. A wider one returns fewer rows per request, and more unused cells if lengths differ."""


class BulkSize:
    """The request size of one device. Pure.

    An answer larger than one frame is fragmented, and some networks drop fragments. If a large answer does not arrive,
    a small one is requested, and large ones are suspended; each suspension is twice as long as the last.
    """

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._pause, self._left = _FIRST_PAUSE, 0

    @property
    def values(self) -> int:
        """The number of values to request."""
        return min(self._wanted, ONE_FRAME) if self._left else self._wanted

    def was_lost(self) -> None:
        """Record that a request of more than one frame had no answer, but a smaller request had one."""
        if not self._left:
            self._left = self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def walked(self) -> None:
        """Record that a walk has finished."""
        self._left = max(0, self._left - 1)

    def was_too_big(self, values: int) -> None:
        """Record that the device refused this many values; later requests have fewer."""
        self._wanted = min(self._wanted, max(1, values // 2))


def repetitions(rows: int, most: int) -> int:
    """Return the number of rows per request, if `rows` are expected and a request may return `most`.

    Requests are even: for 65 rows and at most 20, four requests of 17 return 3 unused rows, four of 20 would return 15.
    """
    if rows <= 0:
        return most
    return -(-rows // -(-rows // most))


def columns(count: int, rows: int, most: int) -> int:
    """Return the number of columns to request together for the fewest requests; `rows` is 0 if unknown.

    31 columns of 65 rows, at most 100 values each, take 22 requests by 3 columns, 28 by 5, 31 by 1. Of equal widths the
    narrowest is used: it returns the fewest unused cells.
    """
    if not rows:
        return _COLUMNS
    widths = range(1, min(count, most, _WIDEST) + 1)
    return min(widths, key=lambda wide: -(-count // wide) * -(-rows // (most // wide)), default=1)


_TOO_BIG = 1
BYTES_PER_VALUE = 32
"""A large value, such as a description, is charged as several values of a typical size: 24 to 26 bytes."""
_MOST_FILLED = 20_000
"""Limit of cells that are read one by one: 40 columns of 512 ports."""
_REPEATABLE = (errind.notInTimeWindow, errind.unknownEngineID)


class Agent:
    """The SNMP agent of one device. Use as an async context manager, or call `connect` and `close`."""

    def __init__(
        self, name: str, address: tuple[str, int], engines: Engines, metrics: CollectorMetrics, *,
        timeout_s: float, tries: int,
        share: DeviceShare, max_varbinds: int = 200_000, at_once: int = 50,
    ) -> None:  # fmt: skip
        self.name = name
        self._address = address
        self._engines = engines
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._tries = tries
        self._share = share
        self._max_varbinds = max_varbinds
        self._charged = 0
        """The values of the present walk, by their number or their bytes."""
        self._size = BulkSize(at_once)
        self._rows: dict[bytes, int] = {}
        """The number of rows of each column at its last reading."""
        self._connection: Connection | None = None
        self.last_refusal = ""

    async def __aenter__(self) -> "Agent":
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def connect(self) -> str:
        """Resolve the device's name, open a socket and return the address. Raises Retry."""
        connection = self._engines.open(self._refused)
        try:
            address = await connection.connect(*self._address)
        except OSError as error:
            raise Retry(f"{self._address[0]}: {error.strerror or error}") from error
        self._connection = connection
        return address

    def close(self) -> None:
        """Close the socket."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _refused(self, why: str) -> None:
        self.last_refusal = why
        self._metrics.add("unreadable", self.name)

    async def get(self, oids: Sequence[bytes]) -> dict[bytes, Value]:
        """Return the values of single instances, without missing ones. Raises Retry and Reject."""
        status, found = await self._request(request(GET, v2c.getNextRequestID(), oids))
        if status:
            raise Reject(f"GET failed with error status {status}")
        wanted = set(oids)
        return {oid: value for oid, tag, value in found if tag not in ber.NOTHING and oid in wanted}

    async def columns(self, prefixes: Iterable[bytes]) -> dict[bytes, Column]:
        """Return every cell of these columns or subtrees; an unknown one is empty. Raises Retry and Reject."""
        wanted = list(dict.fromkeys(prefixes))
        found: dict[bytes, Column] = {prefix: {} for prefix in wanted}
        known = [self._rows[prefix] + 1 for prefix in wanted if prefix in self._rows]
        wide = columns(len(wanted), max(known, default=0), self._size.values)
        self._charged = 0
        for i in range(0, len(wanted), wide):
            await self._walk(wanted[i : i + wide], found)
            self._size.walked()
        self._rows.update((prefix, len(column)) for prefix, column in found.items())
        return found

    async def fill(self, found: dict[bytes, Column], expected: Mapping[bytes, frozenset[bytes]]) -> None:
        """Read the expected cells that a walk did not return, one by one. Raises Retry.

        Some agents end the walk of a column at the first row without a value (SONiC, for a port without counters).
        """
        missing = [(column, row) for column, rows in expected.items() for row in rows - found[column].keys()]
        missing.sort()
        for begin in range(0, min(len(missing), _MOST_FILLED), ONE_FRAME):
            part = missing[begin : begin + ONE_FRAME]
            with contextlib.suppress(Reject):
                values = await self.get([column + row for column, row in part])
                for column, row in part:
                    if (value := values.get(column + row)) is not None:
                        found[column][row] = value

    async def _walk(self, group: list[bytes], found: dict[bytes, Column]) -> None:
        last = {prefix: prefix for prefix in group}
        while last:
            prefixes = list(last)
            max_rows = max(1, self._size.values // len(prefixes))
            # Requesting one row more than last time shows that there are no further rows.
            remaining = max(self._rows.get(prefix, -1) + 1 - len(found[prefix]) for prefix in prefixes)
            rows = repetitions(remaining, max_rows)
            status, varbinds = await self._bulk([last[prefix] for prefix in prefixes], rows)
            if status == _TOO_BIG and rows > 1:
                self._size.was_too_big(rows * len(prefixes))
                continue
            if status and len(prefixes) > 1:
                for prefix in prefixes:  # one of the columns causes the error
                    found[prefix].clear()
                    await self._walk([prefix], found)
                return
            if status:
                self._refused(f"GETBULK failed with error status {status}")
                return
            if not varbinds:
                raise Reject("GETBULK returned no values")
            self._absorb(prefixes, varbinds, last, found)
            if self._charged > self._max_varbinds:
                raise Reject(f"more than {self._max_varbinds} values; raise max_varbinds if the device is that large")

    @staticmethod
    def _absorb(
        prefixes: list[bytes], varbinds: Sequence[Varbind], last: dict[bytes, bytes],
        found: dict[bytes, Column],
    ) -> None:  # fmt: skip
        """Add the cells of each column; a column ends where another one begins."""
        for place, prefix in enumerate(prefixes):
            column, size = found[prefix], len(prefix)
            own_varbinds = varbinds[place :: len(prefixes)]
            for oid, tag, value in own_varbinds:
                if not oid.startswith(prefix) or tag in ber.NOTHING:
                    del last[prefix]
                    break
                row = oid[size:]
                if row in column:
                    raise Reject("GETBULK returned a row twice")
                column[row] = value
            else:
                if own_varbinds:
                    last[prefix] = own_varbinds[-1][0]

    async def _bulk(self, oids: Sequence[bytes], rows: int) -> tuple[int, list[Varbind]]:
        wanted = request(GETBULK, v2c.getNextRequestID(), oids, rows)
        status, found = await self._request(wanted, min(rows, max(1, ONE_FRAME // len(oids))))
        if len(found) > len(oids) * rows:
            raise Reject("GETBULK returned more values than requested")
        return status, found

    async def _request(self, wanted: Request, rows: int = 0) -> tuple[int, list[Varbind]]:
        """Return the answer's error status and varbinds. After a timeout only `rows` are requested."""
        sent = wanted
        for _ in range(self._tries):
            try:
                async with asyncio.timeout(self._timeout_s):
                    answer = await self._request_once(sent)
            except TimeoutError:
                if sent.repetitions > rows:
                    sent = wanted._replace(number=v2c.getNextRequestID(), repetitions=rows)
                continue
            if sent is not wanted:
                self._size.was_lost()
            charged = 1 + len(answer.data) // BYTES_PER_VALUE
            self._charged += charged
            await self._share.charge(charged)
            return answer.status, answer.varbinds()
        why = f"; refused: {self.last_refusal}" if self.last_refusal else f"; {self._engines.login.silence_hint}"
        raise Retry(f"no answer within {self._tries} x {self._timeout_s:g} s{why}")

    async def _request_once(self, wanted: Request) -> Answer:
        assert self._connection is not None, "not connected"
        connection = self._connection
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        try:
            connection.request(wanted, _answered, _Request(connection, wanted, answer))
            return await answer
        except PySnmpError as error:
            raise Retry(f"cannot send the request: {error}") from error
        finally:
            connection.shut()


class _Request(NamedTuple):
    """A pending request, and the number of reports after which it may still be repeated."""

    connection: Connection
    request: Request
    answer: "asyncio.Future[Answer]"
    reports: int = 2


def _answered(*arguments: Any) -> None:
    """Handle pysnmp's call while it reads the answer, or much later if no answer arrived."""
    *_, response, error_info, _handle, request = arguments
    answer = request.answer
    if answer.done():
        return
    if error_info:
        why = error_info["errorIndication"]
        if why in _REPEATABLE and request.reports:  # engine discovery, and the device's clock (RFC 3414, 4)
            repeated = request._replace(reports=request.reports - 1)
            try:
                request.connection.request(request.request, _answered, repeated)
            except PySnmpError as error:
                answer.set_exception(Retry(f"cannot send the request: {error}"))
            return
        answer.set_exception(Retry(str(why)))
        return
    if not isinstance(response, Answer) or response.number != request.request.number:
        answer.set_exception(Reject("answer to another request"))
        return
    answer.set_result(response)
