"""Tests what is taken from NCCL's log and from its RAS subsystem, and the events that the agent makes of it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from collectors.core.context import CollectorContext
from collectors.core.metrics import CollectorMetrics
from collectors.core.once import NullPublisher
from collectors.host.nccl import NcclReport, NcclWitness, RasChanges, parse_status, parse_warning
from collectors.host.params import Params
from collectors.kernel.ports import KnownPorts, Port
from lab.constants import params_of
from streams.wire.errors import Reject
from streams.wire.models import EventKind
from streams.wire.nccl_codes import NcclCode, is_transport_error
from tests.fixtures.waiting import until

if TYPE_CHECKING:
    from collectors.core.context import DeviceEvent

COMPLETION = (
    "NET/IB: Got completion from peer 10.0.0.2<41234> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0)"
    " vendor_err=129 (Send) localGid ::ffff:10.0.1.1 remoteGids::ffff:10.0.1.2 hca mlx5_0"
)
OLDER = "NET/IB : Got completion from peer 10.0.0.2<41234> with status=12 opcode=0 len=0 vendor err 129 (Send)"


@pytest.mark.parametrize(
    ("line", "report"),
    [
        (f"[2026-03-01 10:00:00] h0:101:202 [3] transport/net_ib/p2p.cc:611 (ncclIbTest) NCCL WARN {COMPLETION}",
         NcclReport(12, COMPLETION, "mlx5_0")),
        (f"h0:101:202 [3] transport/net_ib.cc:1295 NCCL WARN {OLDER}", NcclReport(12, OLDER)),
        ("h0:1:2 [0] net_ib.cc:9 NCCL WARN NET/IB : mlx5_0:1 async fatal event: port error",
         NcclReport(NcclCode.ASYNC_FATAL, "NET/IB : mlx5_0:1 async fatal event: port error", "mlx5_0")),
        ("h0:1:2 [0] net_ib.cc:9 NCCL WARN NET/IB : mlx5_1:1 Got non-fatal async event: port active(9)",
         NcclReport(NcclCode.ASYNC_NON_FATAL, "NET/IB : mlx5_1:1 Got non-fatal async event: port active(9)", "mlx5_1")),
        ("h0:1:2 [0] net_ib.cc:9 NCCL WARN NET/IB : mlx5_1:1 Got async event : client reregistration",
         NcclReport(NcclCode.ASYNC_NON_FATAL, "NET/IB : mlx5_1:1 Got async event : client reregistration", "mlx5_1")),
        ("h0:1:2 [0] net_ib.cc:9 NCCL WARN NET/IB : mlx5_1:1 Got async event : port error",
         NcclReport(NcclCode.ASYNC_FATAL, "NET/IB : mlx5_1:1 Got async event : port error", "mlx5_1")),
        ("h0:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer h1<5>",
         NcclReport(NcclCode.CONNECTION_CLOSED, "socketProgress: Connection closed by remote peer h1<5>")),
        ("h0:1:2 [0] NCCL WARN NET/IB: Got completion from peer x with status=IBV_WC_SUCCESS(0)", None),
        ("h0:1:2 [0] init.cc:1 NCCL WARN Cuda failure 'out of memory'", None),
        (f"h0:1:2 [0] NCCL INFO {COMPLETION}", None),
        ("a line of a program", None),
    ],
)  # fmt: skip
def test_a_warning_is_a_report_with_its_status_and_hca(line: str, report: NcclReport | None) -> None:
    """Time and function are optional; other warnings and other levels are none."""
    assert parse_warning(line) == report


def test_transport_errors_are_separate_from_what_follows_them() -> None:
    """A closed connection, a dead peer and a straggler may have any cause."""
    assert is_transport_error(12) and is_transport_error(NcclCode.ASYNC_FATAL)
    assert not any(map(is_transport_error, set(NcclCode) - {NcclCode.ASYNC_FATAL}))


def status(*counts: int | str | None, hosts: tuple[str, ...] = ("h0", "h1", "h2", "h3", "h4")) -> bytes:
    """Return a status of one communicator; a number is the collectives of a rank, a text the state of a missing one."""
    ranks = [
        {"rank": rank, "host": hosts[rank], "pid": 1, "cuda_dev": 0, "collective_counts": {"AllReduce": count},
         "status": {"init_state": "ncclSuccess", "async_error": "ncclSuccess"}}
        for rank, count in enumerate(counts) if isinstance(count, int)
    ]  # fmt: skip
    missing = [
        {"rank": rank, "host": hosts[rank], "status": {"unresponsive": True, "considered_dead": state == "dead"}}
        for rank, state in enumerate(counts)
        if isinstance(state, str)
    ]
    own = {"hash": "0xabc", "size": len(counts), "ranks": ranks, "missing_ranks": missing}
    return b"OK\nOK\n" + json.dumps({"communicators": [own]}).encode()


def changes(ras: RasChanges, data: bytes, *own: str) -> list[tuple[int, str]]:
    """Return the code and rank of each report."""
    reports = ras.changes(parse_status(data), frozenset(own))
    return [(report.code, report.detail.split(" of ")[0]) for report in reports]


def test_a_missing_rank_is_reported_once_by_the_host_of_the_lowest_rank() -> None:
    """First that it does not respond, then that it is dead; and again when it is missing again."""
    first, second = RasChanges(3), RasChanges(3)
    steps: list[tuple[tuple[int | str, ...], list[tuple[int, str]]]] = [
        ((5, 5, 5, 5, "slow"), [(NcclCode.UNRESPONSIVE, "rank 4 on h4")]),
        ((5, 5, 5, 5, "slow"), []),
        ((5, 5, 5, 5, "dead"), [(NcclCode.DEAD, "rank 4 on h4")]),
        ((6, 6, 6, 6, 6), []),
        ((6, 6, 6, 6, "dead"), [(NcclCode.DEAD, "rank 4 on h4")]),
    ]
    for counts, expected in steps:
        assert changes(first, status(*counts), "h0") == expected
        assert changes(second, status(*counts), "h1") == []
    assert changes(RasChanges(3), status("dead", 5, 5), "h1") == [(NcclCode.DEAD, "rank 0 on h0")]
    assert changes(RasChanges(3), status("dead", 5, 5), "elsewhere") == [(NcclCode.DEAD, "rank 0 on h0")]


def test_a_straggler_is_behind_in_queries_in_a_row() -> None:
    """Its own host reports it; a rank that catches up begins again, and where half are behind none is one."""
    ras = RasChanges(3)
    series = [(9, 9, 9, 8), (12, 12, 12, 10), (14, 14, 14, 14), (19, 19, 19, 18), (22, 22, 22, 20)]
    assert [changes(ras, status(*counts), "h3") for counts in series] == [[]] * 5
    assert changes(ras, status(25, 25, 25, 21), "h3") == [(NcclCode.STRAGGLER, "rank 3 on h3")]
    assert changes(ras, status(28, 28, 28, 22), "h3") == []
    half = RasChanges(2)
    assert [changes(half, status(9, 9, 8, 8), "h0") for _ in range(4)] == [[]] * 4


def test_an_asynchronous_error_of_a_rank_is_reported() -> None:
    """Names and numbers of results; success and progress are none."""
    data = json.loads(status(5, 5).partition(b"{")[1] + status(5, 5).partition(b"{")[2])
    data["communicators"][0]["ranks"][1]["status"]["async_error"] = "ncclRemoteError"
    assert changes(RasChanges(3), json.dumps(data).encode(), "h1") == [(NcclCode.ASYNC_ERROR, "rank 1 on h1")]


@pytest.mark.parametrize(
    "data", [b"", b"OK\n", b"{", b"[]", b'{"communicators": 1}', b'{"communicators": [{"hash": 1, "ranks": [{}]}]}',
             b'{"communicators": [{"ranks": []}]}', b"NCCL version 2.30.7 compiled with CUDA 13"],
)  # fmt: skip
def test_another_answer_is_rejected(data: bytes) -> None:
    """A status as text, and JSON of another form."""
    with pytest.raises(Reject, match="NCCL RAS"):
        parse_status(data)


@asynccontextmanager
async def witness(
    metrics: CollectorMetrics | None = None, **settings: Any
) -> AsyncIterator["asyncio.Queue[DeviceEvent]"]:
    """Run the witness of the host h0, whose HCA mlx5_0 is its port `rail0`."""
    events: asyncio.Queue[DeviceEvent] = asyncio.Queue()
    ports = KnownPorts("netdev")
    ports.adopt([Port(rdma="mlx5_0", number=1, netdev="rail0", pci="0000:18:00.0", mac="00:00:00:00:00:01")])
    own = NcclWitness(
        params_of(Params, {"device": "h0", "log_poll_s": 0.01, **settings}),
        CollectorContext(NullPublisher(), "host", metrics or CollectorMetrics()), ports,
        lambda event, _: events.put_nowait(event),
    )  # fmt: skip
    work = asyncio.create_task(own.run())
    try:
        yield events
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        own.close()


async def test_new_lines_of_log_files_are_events_of_the_port(tmp_path: Path) -> None:
    """Lines from before the start of the agent are not repeated."""
    path = tmp_path / "nccl.h0.17.log"
    line = f"h0:17:1 [0] net_ib.cc:1 NCCL WARN {COMPLETION}\n"
    path.write_text(line.replace("(12)", "(5)"))
    async with witness(nccl_logs=(f"{tmp_path}/nccl.*.log",)) as events:
        await asyncio.sleep(0.05)
        with path.open("a") as file:
            file.write("h0:17:1 [0] NCCL INFO Channel 00\n" + line)
        event = await asyncio.wait_for(events.get(), 10)
        assert events.empty()
    assert (event.kind, event.port, event.code, event.detail) == (EventKind.NCCL, "rail0", 12, COMPLETION)


async def test_what_is_not_read_of_logs_is_counted(tmp_path: Path) -> None:
    """A warning that fits no report, a file beyond the limit, and a file that was truncated before its end was read."""
    metrics = CollectorMetrics()
    for n in range(3):
        (tmp_path / f"nccl.{n}.log").write_text("some line that was there before the start of the agent\n")
    path = tmp_path / "nccl.0.log"
    async with witness(metrics, nccl_logs=(f"{tmp_path}/nccl.*.log",), nccl_max_files=2) as events:
        await until(lambda: metrics.value("out_of_bounds"))  # the files were found
        path.write_text(f"x\nh0:17:1 [0] NCCL WARN a new kind of warning\nh0:17:1 [0] NCCL WARN {COMPLETION}\n")
        await asyncio.wait_for(events.get(), 10)
    assert metrics.by_label("unknown") == {"NCCL": 1} and metrics.by_label("out_of_bounds") == {"nccl": 2}


async def test_a_status_of_ras_is_queried_and_a_host_without_a_job_is_no_failure() -> None:
    """Nothing listens where no job runs."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"STATUS\n"))
        writer.write(status(5, "dead"))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with witness(nccl_ras=address, nccl_ras_every_s=1) as events:
        event = await asyncio.wait_for(events.get(), 10)
        server.close()
        await server.wait_closed()
        await asyncio.sleep(1.2)
    assert asked[0] == b"SET FORMAT json\nTIMEOUT 1\nVERBOSE STATUS\n"
    assert (event.code, event.port) == (NcclCode.DEAD, "") and event.detail.startswith("rank 1 on h1 of communicator")
