"""Quix Streams: a StreamingDataFrame with the last reading in the library's own state.

Follows its documentation: a custom Deserializer for the values ("Serialization"), `apply(..., stateful=True)`
with `get_bytes` and `set_bytes`, which avoid JSON in the state, and no changelog topics ("Stateful Applications"),
`expand=True` for no or several outputs ("Processing"). State is RocksDB; with the changelog, which the documentation
recommends, each reading would be written to Kafka again.
"""

from typing import Any

import numpy as np
from quixstreams import Application, State
from quixstreams.models import Deserializer

from streams.bench.baselines.step import crossings
from streams.bench.baselines.task import Tally, Task, run_baseline
from streams.wire.codec import from_bytes
from streams.wire.models import Samples


class SamplesDeserializer(Deserializer):  # type: ignore[misc]
    """Decodes the value of a message."""

    def __call__(self, value: bytes, ctx: Any) -> Samples:
        """Decode one value; the library calls this for each message."""
        return from_bytes(Samples, value)


def run(task: Task) -> Tally:
    """Run the task."""
    tally = Tally(task)
    app = Application(
        broker_address=task.bootstrap,
        consumer_group=task.group,
        auto_offset_reset="earliest",
        state_dir=task.folder,
        use_changelog_topics=False,
        producer_extra_config={"compression.type": "snappy", "linger.ms": 20},
        loglevel="WARNING",
    )

    def rates(samples: Samples, state: State) -> list[bytes]:
        last = state.get_bytes("last")
        state.set_bytes("last", samples.sampled_at_ns.to_bytes(8, "little") + samples.counters.values.tobytes())
        if tally.add(samples):
            app.stop()
        if last is None:
            return []
        before = np.frombuffer(last, np.uint64, offset=8).reshape(samples.counters.values.shape)
        return crossings(samples, before, int.from_bytes(last[:8], "little"))

    readings = app.topic(task.topic, value_deserializer=SamplesDeserializer())
    answers = app.topic(task.answers, value_serializer="bytes")
    frame = app.dataframe(readings)
    frame = frame.apply(rates, stateful=True, expand=True)
    frame.to_topic(answers)
    app.run()
    return tally


if __name__ == "__main__":
    run_baseline(run)
