"""The syslog collector: lines of switches from the network, files and Kafka, as events. Wiring only."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import structlog

from collectors.core.context import CollectorContext, Emitter
from collectors.core.params import read_file
from collectors.core.reload import reloads
from collectors.core.spec import TELEMETRY, Spec
from collectors.host.event_listener import Tally
from collectors.syslog.files import Files
from collectors.syslog.lines import parse
from collectors.syslog.listeners import Listener, OnListening
from collectors.syslog.params import Params
from collectors.syslog.receiver import Receiver
from collectors.syslog.tables import classify, tables
from collectors.syslog.topic import Topics
from streams.fabric.inventory import InvalidInventory, Inventory, read_folder
from streams.fabric.inventory_folder import table_files
from streams.wire.errors import Misconfigured, Reject
from streams.wire.models import Source
from streams.wire.topics import Access

_log = structlog.get_logger("railsight.syslog")


async def collect(params: Params, context: CollectorContext, on_listening: OnListening = lambda _: None) -> None:
    """Read until cancelled. Targets and the inventory are reloaded; inputs are read only at the start.

    `on_listening` receives the addresses of the listeners, in the order of the inputs.
    """
    _prepare(params)
    tally = Tally(context.publisher)
    emitter = Emitter(tally, context.collector, context.run, Source.SOURCE_SYSLOG)
    context.emitters.append(emitter)
    receiver = Receiver(params, context, emitter)
    receiver.configure(params.all_targets(), _inventory(params))
    paths = tuple(Path(one.place) for one in params.parsed() if one.form == "file")
    with contextlib.ExitStack() as stack:
        files = Files(paths, params, receiver, context, tally)
        context.at_end.callback(files.save)
        stack.callback(files.close)
        stack.callback(receiver.end)
        topics = Topics(params, receiver, context, tally)
        listeners = []
        for one in (one for one in params.parsed() if one.listens):
            listeners.append(Listener(one, params, receiver, context))
            stack.callback(listeners[-1].close)
        on_listening([listener.address for listener in listeners])
        async with asyncio.TaskGroup() as tasks:
            for listener in listeners:
                tasks.create_task(listener.run())
            tasks.create_task(files.run())
            tasks.create_task(topics.run())
            tasks.create_task(_flush(params, receiver))
            tasks.create_task(_check_inventory(params, receiver, context))
            tasks.create_task(
                reloads(
                    params, context.core, context.metrics,
                    lambda changed: receiver.configure(changed.all_targets(), _inventory(changed)),
                )
            )  # fmt: skip


async def _flush(params: Params, receiver: Receiver) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(params.poll_s)
        receiver.flush(loop.time())


async def _check_inventory(params: Params, receiver: Receiver, context: CollectorContext) -> None:
    """Apply changes of the inventory; an invalid folder changes nothing."""
    stamp = _stamp(params)
    while params.inventory is not None:
        await asyncio.sleep(params.inventory_check_s)
        if (fresh := _stamp(params)) == stamp:
            continue
        stamp = fresh
        try:
            receiver.configure(params.all_targets(), _inventory(params))
        except Misconfigured as error:
            context.metrics.add("reload_refused")
            _log.error("new inventory refused, the old one stays in force", why=str(error))


def _stamp(params: Params) -> tuple[tuple[str, int], ...]:
    with contextlib.suppress(OSError):
        if params.inventory is not None:
            return tuple((str(path), path.stat().st_mtime_ns) for path in table_files(params.inventory))
    return ()


def _inventory(params: Params) -> Inventory:
    """Return the inventory, empty if none is configured; raises Misconfigured for an invalid folder."""
    if params.inventory is None:
        return Inventory()
    try:
        return read_folder(params.inventory)
    except InvalidInventory as error:
        raise Misconfigured(f"collect.syslog: inventory {params.inventory}: {error}") from error


async def read_once(params: Params, _: CollectorContext) -> AsyncIterator[str]:
    """Yield a line of JSON for each line of the files: what is read of it, and the event that a table knows."""
    files = [Path(one.place) for one in params.parsed() if one.form == "file"]
    if not files:
        raise Misconfigured("collect syslog: --once --print reads files; set inputs to file:PATH")
    for data in (data for path in files for data in read_file("syslog", path).splitlines()):
        try:
            line = parse(data)
        except Reject as error:
            yield orjson.dumps({"error": str(error), "line": data.decode(errors="replace")[:500]}).decode()
            continue
        known = classify(line)
        event = None if known is None or known.kind is None else known.kind.name.lower()
        yield orjson.dumps(
            {
                "host": line.host, "mnemonic": line.mnemonic, "text": line.text, "known": known is not None,
                "event": event, "port": known.port if known else "", "code": known.code if known else 0,
            }
        ).decode()  # fmt: skip


def access(params: Params | None) -> Access:
    """Return the access on Kafka, with the topics of raw lines."""
    topics = () if params is None else params.topics()
    return TELEMETRY | Access(foreign_reads=topics, groups=(Params.group,) if topics else ())


def _prepare(params: Params) -> None:
    if not params.inputs:
        raise Misconfigured("collect syslog: no inputs; set inputs, for example udp://0.0.0.0:514")
    params.all_targets()
    params.tls()
    tables()


SPEC = Spec(
    "syslog", Params, collect, read_once, prepare=_prepare, access=access,
    example="--config railsight.toml",
)  # fmt: skip
