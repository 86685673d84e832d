"""The collector of InfiniBand: polls UFM Telemetry, follows files of ibdiagnet, and publishes samples. Wiring only."""

import asyncio
from collections.abc import AsyncIterator, Callable

import structlog

from collectors.core.context import CollectorContext, Emitter
from collectors.core.inventory import apply_changes, read_inventory
from collectors.core.poll import Pace, poll
from collectors.core.reload import reloads
from collectors.core.spec import Spec
from collectors.ib.formats import PortReading, parse
from collectors.ib.ibdiagnet import FileContent, parse_file
from collectors.ib.nodes import Nodes, facts_of
from collectors.ib.params import Input, Params
from collectors.ib.read import ChangedFiles, digest, fetch, read_text
from collectors.ib.subnet import Subnet
from streams.wire.errors import Misconfigured, Reject, Retry
from streams.wire.models import Samples, Source
from streams.wire.tls_files import FileContext

_log = structlog.get_logger("railsight.ib")


class InputReader:
    """Reads one input, and publishes what is new in it."""

    def __init__(
        self, one: Input, params: Params, context: CollectorContext, emitter: Emitter, nodes: Nodes,
        tls: FileContext | None,
    ) -> None:  # fmt: skip
        self.place, self._login = one.place, one.login
        self.pace = Pace(params.cadence_s, params.deadline_s)
        self.subnet = Subnet(
            params.cadence_s if one.form == "url" else params.files_every_s, params, context, emitter, nodes
        )
        self._files = ChangedFiles(one.place) if one.form == "file" else None
        self._params, self._context, self._emitter, self._tls = params, context, emitter, tls
        self._digest = b""

    async def read(self, *, at_once: bool = False) -> list[Samples]:
        """Publish what is new and return it. Raises Retry and Reject."""
        found: list[Samples] = []
        if self._files is None:
            began_ns = self._context.clock.now_ns()
            ports = await asyncio.to_thread(self._fetch, asyncio.get_running_loop().time)
            if ports is not None:
                found += self.subnet.add(ports, (began_ns + self._context.clock.now_ns()) // 2)
        else:
            for path, written_ns in await asyncio.to_thread(lambda: list(self._changed(at_once))):
                content = await asyncio.to_thread(self._parse_file, path)
                found += self.subnet.add(content.ports, written_ns)
                for facts in facts_of(content.cables, self.subnet.nodes, written_ns):
                    self._emitter.facts(facts)
        self.subnet.report_missing(f"no newer values in {self.place}")
        return found

    def missed(self, why: str) -> None:
        """Record why a reading failed."""
        self._context.metrics.add("reconnects", self.place)
        _log.warning("not read", input=self.place, why=why)
        self.subnet.report_missing(why)

    def _fetch(self, now_s: Callable[[], float]) -> list[PortReading] | None:
        """Return the ports of an answer; None if it equals the one before and has no times."""
        text = fetch(self.place, self._login, self._tls, self._params.deadline_s, self._params.max_bytes, now_s)
        ports = parse(text)
        if not ports:
            raise Reject(f"{self.place}: no port in the answer; it needs node_guid and port_num")
        own, before = digest(text), self._digest
        self._digest = own
        return None if own == before and not all(one.at_ns for one in ports) else ports

    def _changed(self, at_once: bool) -> list[tuple[str, int]]:
        assert self._files is not None
        return list(self._files.changed(at_once=at_once))

    def _parse_file(self, path: str) -> FileContent:
        try:
            return parse_file(read_text(path, self._params.max_bytes))
        except Reject as error:
            raise Reject(f"{path}: {error}") from error


def _readers(params: Params, context: CollectorContext) -> list[InputReader]:
    """Return the readers of the inputs; raises Misconfigured."""
    tls = _prepare(params)
    nodes, emitter = Nodes(read_inventory(SPEC.name, params)), context.emitter(Source.SOURCE_IB)
    return [InputReader(one, params, context, emitter, nodes, tls) for one in params.parsed()]


async def collect(params: Params, context: CollectorContext) -> None:
    """Read every input until cancelled. The inventory is reloaded; inputs are read only at the start."""
    readers = _readers(params, context)

    def apply() -> None:
        nodes = Nodes(read_inventory(SPEC.name, params))
        for reader in readers:
            reader.subnet.nodes = nodes

    async with asyncio.TaskGroup() as tasks:
        for one in readers:
            tasks.create_task(poll(one.place, one.read, one.pace, context.metrics, context.rng, one.missed))
        tasks.create_task(apply_changes(params, context.metrics, apply))
        tasks.create_task(reloads(params, context.core, context.metrics, lambda _: apply()))


async def read_once(params: Params, context: CollectorContext) -> AsyncIterator[Samples]:
    """Yield one reading of every device of every input; raises Retry."""
    for reader in _readers(params, context):
        try:
            found = await reader.read(at_once=True)
        except Reject as error:
            raise Retry(f"collect ib: {error}") from error
        if not found:
            raise Retry(f"collect ib: {reader.place} has no port of a known device; see the warnings above")
        for samples in found:
            yield samples


def _prepare(params: Params) -> FileContext | None:
    if not params.inputs:
        raise Misconfigured("collect ib: no inputs; set inputs, for example http://127.0.0.1:9001/metrics")
    return params.tls()


SPEC = Spec(
    "ib", Params, collect, read_once, prepare=_prepare,
    example="--set inputs='[\"http://127.0.0.1:9001/metrics\"]' --once --print",
)  # fmt: skip
