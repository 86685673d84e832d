"""Tests agents that deviate from the standard: which responses are read, and which are refused."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from collectors.core.context import CollectorContext
from collectors.core.device_share import DeviceShare
from collectors.core.metrics import CollectorMetrics
from collectors.core.once import NullPublisher
from collectors.snmp import ber
from collectors.snmp.collector import Readers, target_sessions
from collectors.snmp.engine import V2C, Engines, Login
from collectors.snmp.mib import oid
from collectors.snmp.params import Params
from collectors.snmp.read import Agent
from streams.wire.errors import Reject, Retry
from tests.fakes.snmp_device import Answer, Device, Result

A, B = oid("1.3.6.1.2.1.2.2.1.7"), oid("1.3.6.1.2.1.2.2.1.8")
ROWS = 7
TOO_BIG, GEN_ERR = 1, 5


def after(name: bytes) -> tuple[bytes, int]:
    """Return the next cell: two columns of seven rows, the value being the row."""
    column, index = (A, 0) if name < A else (B, 0)
    for each in (A, B):
        if name.startswith(each):
            column, index = each, name[-1] if len(name) > len(each) else 0
    if index < ROWS:
        return column + bytes((index + 1,)), index + 1
    return (B + b"\x01", 1) if column == A else (oid("1.3.6.1.2.1.3.1"), 0)


def well(oids: Sequence[bytes], repetitions: int) -> tuple[int, Result]:
    """Respond as the standard requires."""
    result: Result = []
    asked = list(oids)
    for _ in range(repetitions):
        row = [after(name) for name in asked]
        result += row
        asked = [name for name, _ in row]
    return 0, result


class BehindAFilter(Device):
    """A device whose responses arrive only if they fit one frame."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(self)
        self._socket = transport

    def sendto(self, data: bytes, address: Any) -> None:
        if len(data) <= 1472:
            self._socket.sendto(data, address)


@asynccontextmanager
async def device(
    answer: Answer, kind: type[Device] = Device, **settings: Any
) -> AsyncIterator[tuple[Agent, Device, CollectorMetrics]]:
    """Yield an agent for a device with these responses, the device, and the metrics."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(lambda: kind(answer), local_addr=("127.0.0.1", 0))
    protocol.port = transport.get_extra_info("sockname")[1]
    where, metrics = ("127.0.0.1", protocol.port), CollectorMetrics()
    given: dict[str, Any] = {"timeout_s": 1.0, "tries": 1, "share": DeviceShare("odd", 100_000, metrics)} | settings
    with contextlib.closing(transport):
        async with Agent("odd", where, Engines(Login(V2C, community="public")), metrics, **given) as agent:
            yield agent, protocol, metrics


def whole(found: dict[bytes, ber.Column]) -> bool:
    """Return whether every cell of both columns, and no other, was read."""
    return all(found[column] == {bytes((n,)): n for n in range(1, ROWS + 1)} for column in (A, B))


async def test_a_column_is_read_completely_and_requested_once() -> None:
    """The number of values per response does not matter, and a column that is listed twice is requested once."""
    for at_once in (1, 2, 3, 14, 50):
        async with device(well, at_once=at_once) as (agent, _, _):
            found = await agent.columns((A, B, A))
            assert len(found) == 2 and whole(found)


async def test_a_truncated_response_is_continued() -> None:
    """Each column continues at its end, even in the middle of a row."""

    def short(oids: list[bytes], repetitions: int) -> tuple[int, Result]:
        return 0, well(oids, repetitions)[1][:3]

    async with device(short) as (agent, _, _):
        assert whole(await agent.columns((A, B)))


async def test_an_agent_that_reports_too_big_gets_smaller_requests() -> None:
    """The size is halved, repeatedly."""

    def small(oids: list[bytes], repetitions: int) -> tuple[int, Result]:
        return (TOO_BIG, []) if repetitions > 4 else well(oids, repetitions)

    async with device(small) as (agent, protocol, _):
        assert whole(await agent.columns((A, B)))
        assert max(repetitions for _, repetitions in protocol.asked[3:]) <= 6


async def test_with_lost_fragments_requests_fit_a_frame_and_larger_ones_are_rare() -> None:
    """The first large response times out once; then small ones are requested for a while."""
    async with device(well, BehindAFilter, at_once=100, timeout_s=0.3, tries=2) as (agent, protocol, _):
        assert whole(await agent.columns((A, B)))
        assert protocol.asked[:2] == [(2, 50), (2, 25)]
        agent._rows.clear()  # the next request is as large as for an unknown table
        assert whole(await agent.columns((A, B)))
        assert all(columns * rows <= 50 for columns, rows in protocol.asked[1:])


async def test_a_known_table_is_requested_with_its_number_of_rows() -> None:
    """One extra row shows the end of the table; a missing column is requested for one row."""
    async with device(well, at_once=100) as (agent, protocol, _):
        absent = oid("1.3.6.1.2.1.2.2.1.9")
        for _ in range(2):
            before = len(protocol.asked)
            found = await agent.columns((A, B))
            assert whole(found) and not (await agent.columns((absent,)))[absent]
        assert protocol.asked[before:] == [(2, ROWS + 1), (1, 1)]


async def test_an_agent_that_fails_in_the_middle_of_a_table_is_read_by_columns() -> None:
    """Each column is read from its beginning; values that were read before do not count twice."""

    def failing(oids: list[bytes], repetitions: int) -> tuple[int, Result]:
        late = any(name.startswith(B) and len(name) > len(B) for name in oids)
        return (GEN_ERR, []) if len(oids) > 1 and late else well(oids, repetitions)

    async with device(failing, at_once=6) as (agent, _, _):
        assert whole(await agent.columns((A, B)))


@pytest.mark.parametrize("hole", [1, 3, 7])
async def test_cells_behind_a_hole_are_read_one_by_one(hole: int) -> None:
    """An agent that ends the walk of a column at a row without a value has the values behind it."""

    def truncated(oids: list[bytes], repetitions: int) -> tuple[int, Result]:
        if not repetitions:  # a GET
            return 0, [(name, name[-1]) for name in oids if name[-1] != hole]
        status, found = well(oids, repetitions)
        return status, [(name, value) if name[-1] < hole else (oid("1.3.6.1.2.1.3.1"), 0) for name, value in found]

    async with device(truncated) as (agent, _, _):
        found = await agent.columns([A, B])
        assert len(found[A]) == len(found[B]) == hole - 1
        rows = frozenset(bytes((n,)) for n in range(1, ROWS + 1))
        await agent.fill(found, {A: rows, B: rows})
    assert set(found[A]) == set(found[B]) == rows - {bytes((hole,))}


async def test_a_failing_column_is_absent_and_the_others_are_read() -> None:
    """Each is then requested alone; the refusal is counted."""

    def failing(oids: list[bytes], repetitions: int) -> tuple[int, Result]:
        return (GEN_ERR, []) if any(name.startswith(B) for name in oids) else well(oids, repetitions)

    async with device(failing) as (agent, _, metrics):
        found = await agent.columns((A, B))
        assert len(found[A]) == ROWS and not found[B]
        assert metrics.value("unreadable", "odd") == 1


def in_circles(oids: list[bytes], repetitions: int) -> tuple[int, Result]:
    """Return the same rows repeatedly."""
    return 0, [(name[: len(A)] + bytes((n + 1,)), n) for n in range(repetitions) for name in oids]


def without_end(oids: list[bytes], repetitions: int) -> tuple[int, Result]:
    """Return rows without end, which no device has."""
    found = [
        name[: len(A)] + ber.oid_bytes((0, 0, tail(name) + n + 1))[1:] for n in range(repetitions) for name in oids
    ]
    return 0, [(name, 1) for name in found]


def tail(name: bytes) -> int:
    """Return the last number of an OID."""
    return ber.oid_numbers(name)[-1] if len(name) > len(A) else 0


def with_large_values(oids: list[bytes], repetitions: int) -> tuple[int, Result]:
    """Return values of 20,000 bytes without end, which count as several values."""
    return 0, [(name, b"x" * 20_000) for name, _ in without_end(oids[:1], 1)[1]]


def too_much(oids: list[bytes], repetitions: int) -> tuple[int, Result]:
    """Return more rows than requested."""
    return well(oids, repetitions + 1)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (in_circles, "a row twice"),
        (without_end, "more than 1000 values"),
        (too_much, "more values than requested"),
        (with_large_values, "more than 1000 values"),
        (lambda *_: (0, []), "no values"),
    ],
)
async def test_an_endless_response_is_refused(answer: Answer, why: str) -> None:
    """The error names the reason, after few requests."""
    async with device(answer, max_varbinds=1000) as (agent, protocol, _):
        with pytest.raises(Reject, match=why):
            await agent.columns((A,))
        assert len(protocol.asked) < 50


async def test_a_missing_device_is_given_up_after_its_retries() -> None:
    """The request is repeated as often and as long as configured."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    engines = Engines(Login(V2C, community="public"))
    metrics = CollectorMetrics()
    share = DeviceShare("gone", 1000, metrics)
    async with Agent("gone", ("127.0.0.1", 9), engines, metrics, timeout_s=0.2, tries=3, share=share) as agent:
        with pytest.raises(Retry, match="no answer within 3 x"):
            await agent.columns((A,))
    assert 0.5 < loop.time() - began < 5


@pytest.mark.parametrize("status", [0, GEN_ERR])
async def test_an_agent_without_sys_up_time_is_read_and_logged_once(status: int) -> None:
    """It has no such object, or refuses each GET: its ports are read at every poll, without a boot id."""

    def answer(oids: list[bytes], repetitions: int) -> tuple[int, Result]:
        return well(oids, repetitions) if repetitions else (status, [])

    async with device(answer) as (_, odd, _):
        address = f"127.0.0.1:{odd.port}"
        params = Params.model_validate({"targets": [{"name": "odd", "address": address}], "community": "public"})
        (one,) = target_sessions(params).values()
        reader = Readers(CollectorContext(NullPublisher(), "test")).reader(one)
        with capture_logs() as logs, contextlib.closing(reader):
            readings = [await reader.read() for _ in range(2)]
    assert [len(reading.row) for reading in readings] == [ROWS, ROWS] and readings[0].boot_id == 0
    (line,) = [line for line in logs if line["log_level"] == "warning"]
    assert line["event"] == "no sysUpTime" and "traps" in line["effect"]
