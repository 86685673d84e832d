"""Measures the cost of event-time windows, minute by minute, under the load of the pipeline's benchmark, without Kafka.

`python -m tests.bench.windows_cost [--gpus 16384] [--minutes 4] [--cadence 10] [--json]`. The load of
`railsight bench pipeline` is encoded, decoded, measured and correlated in one process, with the output of
`measure` encoded and decoded in between. Prints a line per minute of event time: CPU seconds per million port-samples
of each step, the worst batch, emitted messages, size and time of both snapshots, and the memory of the process.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lab.bench.load.fleet import Fleet
from lab.world.fabric_arrays import fabric_arrays
from streams.detect.correlate.stage import Correlate
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.topology import Topology
from streams.wire import topics
from streams.wire.models import Message, Source
from streams.wire.stage import Output
from tests.bench.measure_cost import resident_mib

BEGIN_NS = 1_700_000_000 * 10**9
SLOT_S = 0.25
"""As the load generator gathers what it sends."""


@dataclass(slots=True)
class Chain:
    """Both stages, and what they cost since the last minute was shown."""

    topology: Topology
    measure: Measure = field(default_factory=lambda: Measure(DetectParams()))
    correlate: Correlate = field(default_factory=lambda: Correlate(DetectParams()))
    cost: Counter[str] = field(default_factory=Counter)
    emitted: Counter[str] = field(default_factory=Counter)
    worst_s: float = 0.0

    def begin(self) -> None:
        """As a worker does it."""
        for stage in (self.measure, self.correlate):
            stage.start_epoch(1)
            stage.set_topology(self.topology)

    def take(self, batch: list[tuple[topics.Topic, bytes]]) -> None:
        """One batch on its way through both."""
        begun = time.process_time()
        messages = [topics.decode(topic, value) for topic, value in batch]
        read = time.process_time()
        outputs = self.measure.process(messages)
        measured = time.process_time()
        result = [_carried(output) for output in outputs]
        carried = time.process_time()
        concluded = self.correlate.process(result)
        concluded += self.correlate.advance_watermark(self.measure.watermark_ns)
        over = time.process_time()
        for name, cost in (
            ("decode", read - begun), ("measure", measured - read), ("carry", carried - measured),
            ("correlate", over - carried),
        ):  # fmt: skip
            self.cost[name] += cost  # type: ignore[assignment] # seconds
        self.worst_s = max(self.worst_s, over - read)
        for message in result:
            self.emitted[type(message).__name__] += 1
        self.emitted["Episode"] += len(concluded)

    def shown(self, port_samples: int) -> dict[str, Any]:
        """The figures since the last time."""
        figures: dict[str, Any] = {
            f"{name}_s_per_million": round(cost / port_samples * 1e6, 3) for name, cost in self.cost.items()
        }
        figures |= {"worst_batch_s": round(self.worst_s, 3)} | dict(sorted(self.emitted.items()))
        for name, stage in (("measure", self.measure), ("correlate", self.correlate)):
            begun = time.process_time()
            state = stage.snapshot()
            figures |= {f"{name}_snapshot_kb": len(state) // 1000,
                        f"{name}_snapshot_s": round(time.process_time() - begun, 3)}  # fmt: skip
        self.cost.clear()
        self.emitted.clear()
        self.worst_s = 0.0
        return figures | {"resident_mib": round(resident_mib())}


def _carried(output: Output) -> Message:
    """As it comes out of Kafka."""
    assert output.message is not None
    record = topics.encode(output.topic, output.message, **({"key": output.key} if output.key else {}))
    assert record.value is not None
    return topics.decode(output.topic, record.value, record.headers)


def made(gpus: int, cadence_s: float) -> tuple[Chain, Fleet]:
    """Both stages, ready, and the devices of a fabric that they are to read."""
    inventory = generate(GenerateParams(gpus=gpus))
    runs = {Source.SOURCE_NIC: 1, Source.SOURCE_GNMI: 1}
    chain = Chain(Topology(inventory))
    chain.begin()
    return chain, Fleet(fabric_arrays(inventory), cadence_s, np.random.default_rng(1), runs)


def play(chain: Chain, fleet: Fleet, minute: int, slot_s: float = SLOT_S) -> int:
    """A minute of the load; answers how many ports were read."""
    rows, slots = 0, round(60 / slot_s)
    for slot in range(minute * slots + 1, (minute + 1) * slots + 1):
        until_s = slot * slot_s
        now_ns = BEGIN_NS + ns(until_s)
        read = list(fleet.readings(until_s, now_ns))
        batch = [(topics.SAMPLES, encoded.value) for encoded in read]
        rows += sum(encoded.rows for encoded in read)
        batch += [(topics.COLLECTOR_STATUS, status.value) for status in fleet.statuses(until_s, now_ns)]
        chain.take(batch)
    return rows


def played(gpus: int, cadence_s: float, minutes: int) -> Iterator[dict[str, Any]]:
    """The figures of each minute."""
    chain, fleet = made(gpus, cadence_s)
    before = resident_mib()
    for minute in range(minutes):
        rows = play(chain, fleet, minute)
        figures = chain.shown(rows)
        figures["held_mib"] -= round(before)
        yield {"minute": minute, "ports": round(rows * cadence_s / 60), **figures}


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--gpus", type=int, default=16_384)
    parser.add_argument("--cadence", type=float, default=10.0)
    parser.add_argument("--minutes", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    for found in played(given.gpus, given.cadence, given.minutes):
        if given.json:
            print(json.dumps(found), flush=True)  # noqa: T201 — this is its output
        else:
            print("  ".join(f"{name} {value:,}" for name, value in found.items()), flush=True)  # noqa: T201 — as above


if __name__ == "__main__":
    main()
