"""A collector's process: its metrics, and the failures that end it."""

import asyncio
import json
import socket
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from collectors.core.context import CollectorContext
from collectors.core.params import CollectorParams, Core, PublisherParams
from collectors.core.spec import Spec
from collectors.core.spool import Spool
from lab.constants import with_constants
from streams.wire.errors import Misconfigured, Retry
from streams.wire.topics import EVENTS, Record
from tests.fixtures.ports import free_port

NOWHERE = {"bootstrap_servers": "127.0.0.1:1"}


async def for_ever(_: CollectorContext) -> None:
    await asyncio.Event().wait()


async def run(core: Core, collect: Callable[[CollectorContext], Awaitable[None]]) -> None:
    params = CollectorParams(publisher=core.publisher)
    await Spec("test", CollectorParams, lambda _, context: collect(context)).run(params, core)


async def test_a_failure_inside_is_raised_unchanged() -> None:
    """From any depth of task groups; a collector that ends by itself is a failure too."""

    async def deep(_: CollectorContext) -> None:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(deeper())

    async def deeper() -> None:
        async with asyncio.TaskGroup() as inner:
            inner.create_task(fails())

    async def fails() -> None:
        raise Retry("the tree is gone")

    async def ends(_: CollectorContext) -> None:
        return

    with pytest.raises(Retry, match="the tree is gone"):
        await run(Core(client_options=NOWHERE), deep)
    with pytest.raises(RuntimeError, match="ended"):
        await run(Core(client_options=NOWHERE), ends)


async def test_a_failed_start_is_one_line(tmp_path: Path) -> None:
    """No Kafka, a port or a spool in use, an invalid folder."""
    with pytest.raises(Misconfigured, match="collect test: Kafka's address is not set"):
        await run(Core(), for_ever)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        core = Core(client_options=NOWHERE, metrics_port=taken.getsockname()[1])
        with pytest.raises(Misconfigured, match="self-metrics: cannot listen"):
            await run(core, for_ever)
    (tmp_path / "file").touch()
    core = Core(client_options=NOWHERE, publisher=PublisherParams(spool=tmp_path / "file"))
    with pytest.raises(Misconfigured, match=r"spool .*file"):
        await run(core, for_ever)


async def test_a_running_collector_serves_its_metrics_and_leaves_unsent_records_on_disk(tmp_path: Path) -> None:
    """Without Kafka, the offered records are in the file with the collector's name when it has ended."""
    port, offered = free_port(), asyncio.Event()

    async def one_event(context: CollectorContext) -> None:
        assert context.collector == "here"
        context.publisher.offer(Record(EVENTS, b"leaf1", b"went down", (), "leaf1"))
        offered.set()
        await for_ever(context)

    core = Core(
        client_options=NOWHERE, collector="here", metrics_port=port, acknowledged_file=tmp_path / "acknowledged.json",
        publisher=with_constants(PublisherParams, spool_after_s=0.1)(spool=tmp_path),
    )  # fmt: skip
    work = asyncio.create_task(run(core, one_event))
    await offered.wait()

    def served() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=5) as answer:
            return str(answer.read().decode())

    assert f'railsight_collector_offered_total{{of="{EVENTS.name}"}} 1.0' in await asyncio.to_thread(served)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    left = Spool(tmp_path / "here.spool", 1 << 20)
    left.open()
    assert [buffered.record.value for buffered in left.oldest(10)] == [b"went down"]
    left.close()
    content = json.loads(await asyncio.to_thread((tmp_path / "acknowledged.json").read_text))
    assert content == {"acknowledged": {}, "acknowledged_rows": {}, "spooled": {EVENTS.name: 1}, "refused": {}}
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))
