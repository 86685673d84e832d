"""A plain aiokafka loop with an object per port: the first version that one writes without a framework.

Follows its documentation: `getmany` ("Batch consumption"), the producer's futures gathered instead of one wait per
message ("Producer client"), snappy, uvloop. The step is per port and in Python, with slots and one list of counters per
port; only the message's own table is numpy, which one call turns into lists.
"""

import asyncio
from collections.abc import Iterator

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from streams.bench.baselines.step import LIMITS_PER_S, NS, answer
from streams.bench.baselines.task import Tally, Task, run_baseline
from streams.wire.codec import from_bytes
from streams.wire.models import Samples


class PortState:
    """The last reading of one port."""

    __slots__ = ("at_ns", "counters")

    def __init__(self, counters: list[int], at_ns: int) -> None:
        self.counters = counters
        self.at_ns = at_ns

    def rates(self, counters: list[int], at_ns: int) -> list[float]:
        """Return the rate of every counter since the last reading, per second, and make this reading the last one."""
        seconds = (at_ns - self.at_ns) / NS
        rates = [
            (now - before) / seconds if now > before else 0.0
            for now, before in zip(counters, self.counters, strict=True)
        ]
        self.counters, self.at_ns = counters, at_ns
        return rates


class Ports:
    """The state of all ports."""

    def __init__(self) -> None:
        self._ports: dict[tuple[str, str], PortState] = {}

    def read(self, samples: Samples) -> Iterator[bytes]:
        """Yield the answers for one message."""
        limited = [
            (column, LIMITS_PER_S[metric])
            for column, metric in enumerate(samples.counters.metric)
            if metric in LIMITS_PER_S
        ]
        for row, (name, counters) in enumerate(zip(samples.row, samples.counters.values.T.tolist(), strict=True)):
            port = self._ports.get((samples.device, name))
            if port is None:
                self._ports[samples.device, name] = PortState(counters, samples.sampled_at_ns)
                continue
            rates = port.rates(counters, samples.sampled_at_ns)
            for column, limit in limited:
                if rates[column] > limit:
                    yield answer(samples, row, column, rates[column])


async def consume(task: Task) -> Tally:
    """Read until every message is read."""
    tally, ports, sent = Tally(task), Ports(), []
    consumer = AIOKafkaConsumer(
        task.topic, bootstrap_servers=task.bootstrap, group_id=task.group, auto_offset_reset="earliest"
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=task.bootstrap, compression_type="snappy", linger_ms=20, enable_idempotence=True
    )
    async with consumer, producer:
        while not tally.full:
            for records in (await consumer.getmany(timeout_ms=200, max_records=1000)).values():
                for record in records:
                    samples = from_bytes(Samples, record.value)
                    key = samples.device.encode()
                    sent += [await producer.send(task.answers, found, key=key) for found in ports.read(samples)]
                    tally.add(samples)
        await asyncio.gather(*sent)
    return tally


def run(task: Task) -> Tally:
    """Run the task."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(consume(task))


if __name__ == "__main__":
    run_baseline(run)
