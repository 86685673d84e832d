"""The bridge collector: reads what gnmic and Telegraf write to Kafka. Wiring only."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import orjson
import structlog

from collectors.bridge.bridge import Bridge
from collectors.bridge.delivery import MessageIdentity, Place
from collectors.bridge.devices import Devices
from collectors.bridge.fold import Gathered, PartitionFold, Position
from collectors.bridge.params import Params
from collectors.bridge.points import Source
from collectors.bridge.read import Batch, GroupReader, newest
from collectors.core.columns import json_lines
from collectors.core.context import CollectorContext
from collectors.core.spec import TELEMETRY, Spec
from streams.health.input_checks import add_consumer_checks
from streams.wire.errors import Misconfigured, Retry
from streams.wire.retry import Backoff, Failure, retry
from streams.wire.topics import REJECTED, Access

_log = structlog.get_logger("railsight.bridge")

_RETRY = Backoff.constant(1.0)


async def collect(params: Params, context: CollectorContext) -> None:
    """Read until cancelled."""
    if not params.topics:
        raise Misconfigured("collect bridge: no source topics; set topics")
    bridge = Bridge(params, context)
    options = params.source_options(_options(context))

    context.health.ready_while("input", lambda: "the source Kafka is not connected yet")

    ends = add_consumer_checks(bridge, options, context.health)

    async def read(_: int) -> None:
        async with GroupReader(params, options, bridge.revoked) as reader:
            assigned = reader.assigned
            context.health.ready_while("input", lambda: "" if assigned() else "no source partition is assigned")
            await bridge.run(reader)

    def warn(failure: Failure) -> None:
        _log.warning("cannot read the source Kafka, retrying", error=str(failure.error))
        context.health.ready_while("input", lambda: "cannot read the source Kafka")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ends.run())
        await retry(read, Retry, _RETRY, before_wait=warn)


async def read_once(params: Params, context: CollectorContext) -> AsyncIterator[str]:
    """Yield the newest values, one line of JSON per port; raises Retry if there are none."""
    if params.file is not None:
        batch: Batch = [((params.file.name, 0), _records_of_file(params))]
    elif not params.topics:
        raise Misconfigured("collect bridge: no source topics; set topics")
    else:
        batch = await newest(params, params.source_options(_options(context)))
    lines = list(rows(params, batch, context))
    if not lines:
        raise Retry("collect bridge: no known values in the newest records")
    for line in lines:
        yield line


def access(params: Params | None) -> Access:
    """Return the bridge's access on Kafka; without the source topics if `bootstrap` names another cluster."""
    written = TELEMETRY | Access(writes=(REJECTED,))
    if params is None or params.bootstrap:
        return written
    return written | Access(foreign_reads=tuple(topic.name for topic in params.topics), groups=(params.group,))


def _options(context: CollectorContext) -> dict[str, Any] | None:
    options = context.core.client_options
    return None if options is None else dict(options)


def _records_of_file(params: Params) -> list[Source]:
    assert params.file is not None
    try:
        lines = params.file.read_bytes().splitlines()
    except OSError as error:
        raise Misconfigured(f"collect bridge: file {params.file}: {error.strerror}") from error
    return [Source(number, 0, line) for number, line in enumerate(lines)]


def rows(params: Params, batch: Batch, context: CollectorContext) -> Iterable[str]:
    """Return the newest value of each metric of each port in these records."""
    devices = Devices(params, context.metrics)
    formats = {topic.name: topic.format for topic in params.topics}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for place, records in batch:
        fold = PartitionFold(devices, params, formats.get(place[0], "auto"), Position(0, 1))
        outputs = [output for record in records for output in fold.add(record, context.clock.now_ns())]
        for output in [*outputs, *fold.cut()]:
            if isinstance(output, Gathered):
                _merge(found, _identity(place), output)
    return [orjson.dumps(row).decode() for _, row in sorted(found.items())]


def _identity(place: Place) -> MessageIdentity:
    return MessageIdentity("once", *place, run=1)


def _merge(found: dict[tuple[str, str], dict[str, Any]], identity: MessageIdentity, outputs: Gathered) -> None:
    for line in json_lines(identity.samples(outputs)):
        row = orjson.loads(line)
        row_known = found.setdefault((row["device"], row["port"]), row)
        if row["time"] >= row_known["time"]:
            row_known["metrics"] |= row["metrics"]
            row_known["time"] = row["time"]
        else:
            row_known["metrics"] = row["metrics"] | row_known["metrics"]


SPEC = Spec(
    "bridge", Params, collect, read_once, part="bridge", access=access, example="--config railsight.toml",
    default_name=lambda params: f"bridge@{params.group}",
)  # fmt: skip
"""All processes of a group have one name: it is part of a message's identity, and any process may repeat a message."""
