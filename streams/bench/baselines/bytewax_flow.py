"""Bytewax: a dataflow with batch operators from its Kafka source to its Kafka sink.

Follows its documentation: `KafkaSource` with its own batches and `KafkaSink` (bytewax.connectors.kafka),
`flat_map_batch` to decode whole batches at once, and `stateful_batch`, its lowest-level stateful operator, with one
logic per device (bytewax.operators). One worker, since workers of a process share one interpreter lock; no recovery
store, which is the default. `tail=False` lets the flow end at the end of the topic.
"""

from collections.abc import Iterable
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.operators import StatefulBatchLogic
from bytewax.run import cli_main

from streams.bench.baselines.step import Counters, crossings
from streams.bench.baselines.task import Tally, Task, run_baseline
from streams.wire.codec import from_bytes
from streams.wire.models import Samples

State = tuple[Counters, int]


class Device(StatefulBatchLogic):  # type: ignore[misc]
    """The last reading of one device."""

    def __init__(self, restored: State | None) -> None:
        self._last = restored

    def on_batch(self, values: list[Samples]) -> tuple[Iterable[bytes], bool]:
        """Return the answers for the device's messages of one batch; its state is retained."""
        found: list[bytes] = []
        for samples in values:
            if self._last is not None:
                found += crossings(samples, *self._last)
            self._last = (samples.counters.values, samples.sampled_at_ns)
        return found, StatefulBatchLogic.RETAIN

    def snapshot(self) -> State | None:
        """Return the state for recovery."""
        return self._last


def dataflow(task: Task, tally: Tally) -> Any:
    """Return the whole flow."""

    def decoded(messages: list[Any]) -> Iterable[tuple[str, Samples]]:
        read = [from_bytes(Samples, message.value) for message in messages]
        for samples in read:
            tally.add(samples)
        return [(samples.device, samples) for samples in read]

    def to_send(found: list[tuple[str, bytes]]) -> Iterable[Any]:
        return [KafkaSinkMessage(device.encode(), answer) for device, answer in found]

    brokers = task.bootstrap.split(",")
    flow = Dataflow("bench")
    messages = op.input("readings", flow, KafkaSource(brokers, [task.topic], tail=False, batch_size=1000))
    devices = op.flat_map_batch("decode", messages, decoded)
    found = op.stateful_batch("rates", devices, Device)
    to_kafka = op.flat_map_batch("encode", found, to_send)
    op.output("answers", to_kafka, KafkaSink(brokers, task.answers, {"compression.type": "snappy"}))
    return flow


def run(task: Task) -> Tally:
    """Run the task."""
    tally = Tally(task)
    cli_main(dataflow(task, tally))
    return tally


if __name__ == "__main__":
    run_baseline(run)
