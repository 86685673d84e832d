"""Stock Faust: an agent over the stream of events, state in memory, one message at a time.

Follows its user guide: a codec for the values ("Models, Serialization, and Codecs"), `async for` over the stream
("Agents"), uvloop for the event loop ("Command-line Interface", --loop), `stream_wait_empty` off and a large
`stream_buffer_maxsize` ("Configuration Reference"). No Table, which would be slower by a changelog, no web server.
`take()` creates the same tasks per message and was not faster.
"""

import asyncio
from typing import Any

import faust
from faust.serializers import codecs

from streams.bench.baselines.step import Counters, crossings
from streams.bench.baselines.task import Tally, Task, run_baseline
from streams.wire.codec import from_bytes
from streams.wire.models import Samples


class SamplesCodec(codecs.Codec):
    """Decodes the values of messages; sent values are bytes already."""

    def _loads(self, s: bytes) -> Samples:
        return from_bytes(Samples, s)

    def _dumps(self, obj: bytes) -> bytes:
        return obj


def watch(app: Any, task: Task, tally: Tally, done: asyncio.Event) -> None:
    """Declare the agent."""
    readings = app.topic(task.topic, value_serializer=SamplesCodec())
    answers = app.topic(task.answers, value_serializer="raw", key_serializer="raw")
    last: dict[str, tuple[Counters, int]] = {}

    @app.agent(readings)  # type: ignore[untyped-decorator]
    async def rates(stream: Any) -> None:
        sent = []
        async for samples in stream:
            before = last.get(samples.device)
            last[samples.device] = (samples.counters.values, samples.sampled_at_ns)
            if before is not None:
                key = samples.device.encode()
                sent += [await answers.send(key=key, value=found) for found in crossings(samples, *before)]
            if tally.add(samples):
                await asyncio.gather(*sent)
                done.set()


async def run_app(task: Task) -> Tally:
    """Run the app inside our loop, as its guide shows for embedding, until every message is read."""
    app = faust.App(
        task.group,
        broker=f"kafka://{task.bootstrap}",
        consumer_auto_offset_reset="earliest",
        stream_wait_empty=False,
        stream_buffer_maxsize=4096,
        topic_disable_leader=True,
        topic_allow_declare=False,
        web_enabled=False,
        autodiscover=False,
        datadir=task.folder,
    )
    tally, done = Tally(task), asyncio.Event()
    watch(app, task, tally, done)
    await app.start()
    await done.wait()
    await app.stop()
    return tally


def run(task: Task) -> Tally:
    """Run the task."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run_app(task))


if __name__ == "__main__":
    run_baseline(run)
