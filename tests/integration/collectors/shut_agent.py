"""Runs a host agent in a network namespace, as on a host of its own, and prints each event."""

import asyncio
import contextlib
import sys
from pathlib import Path

import orjson

from collectors.core.context import CollectorContext
from collectors.core.metrics import CollectorMetrics
from collectors.host.collector import collect
from collectors.host.params import Params
from lab.constants import with_constants
from streams.wire.event_loop import new_loop
from streams.wire.models import Event
from streams.wire.topics import Record
from tests.fixtures.host_agent import Acknowledging


class Printing(Acknowledging):
    """A publisher that prints the events."""

    def offer(self, record: Record, rows: int = 0) -> bool:
        taken = super().offer(record, rows)
        if isinstance(event := self.recorded.messages[-1], Event):
            result = {"kind": event.kind.name, "port": event.port, "at_ns": event.at_ns, "detail": event.detail}
            sys.stdout.buffer.write(orjson.dumps(result) + b"\n")
            sys.stdout.buffer.flush()
        return taken


async def main(folder: Path) -> None:
    """Run until interrupted; the folder has its state and its log."""
    (folder / "kern.log").touch()
    params = with_constants(Params, discover_every_s=1, log_poll_s=0.05, gpu=False)(
        device="here",
        kernel_log=folder / "kern.log",
        state_file=folder / "host.json",
        fabric=("rs*",),
        lldpcli="",
        cadence_s=0.2,
    )
    metrics = CollectorMetrics()
    context = CollectorContext(Printing(metrics), "host", metrics)
    with context.at_end:
        await collect(params, context)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_loop) as runner, contextlib.suppress(KeyboardInterrupt):
        runner.run(main(Path(sys.argv[1])))
