"""The syslog collector: lines of switches from the network, files and Kafka, as events. Wiring only."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import orjson

from collectors.core.context import CollectorContext, Emitter
from collectors.core.inventory import apply_changes, read_inventory
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
from streams.fabric.inventory import Inventory
from streams.wire.errors import Misconfigured, Reject
from streams.wire.models import Source
from streams.wire.topics import Access


async def collect(params: Params, context: CollectorContext, on_listening: OnListening = lambda _: None) -> None:
    """Read until cancelled. Targets and the inventory are reloaded; inputs are read only at the start.

    `on_listening` receives the addresses of the listeners, in the order of the inputs.
    """
    _prepare(params)
    tally = Tally(context.publisher)
    emitter = Emitter(tally, context.collector, context.run, Source.SOURCE_SYSLOG)
    context.emitters.append(emitter)
    receiver = Receiver(params, context, emitter)

    def configure(settings: Params) -> None:
        receiver.configure(settings.all_targets(), read_inventory(SPEC.name, settings) or Inventory())

    configure(params)
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
            tasks.create_task(apply_changes(params, context.metrics, lambda: configure(params)))
            tasks.create_task(reloads(params, context.core, context.metrics, configure))


async def _flush(params: Params, receiver: Receiver) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(params.poll_s)
        receiver.flush(loop.time())


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
    params.file_context("syslog")
    tables()


SPEC = Spec(
    "syslog", Params, collect, read_once, prepare=_prepare, access=access,
    example="--config railsight.toml",
)  # fmt: skip
