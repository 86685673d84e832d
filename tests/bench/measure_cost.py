"""Measures decoding and measuring samples, in CPU seconds per million port-samples, and the cost of the snapshot.

`python -m tests.bench.measure_cost [--devices 21504] [--rounds 2] [--json]`. The fabric is the largest one published in
miniature or whole: hosts of 8 ports and switches of 128, 16,384 to 5,120, each read once a round; 20 counters, of which
a third move much, and 4 gauges. All are healthy, and one collector sends the cadence, as in the real pipeline.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.wire import topics
from streams.wire.models import CollectorStatus, Message, RowKind, Samples, Source, Table

HOSTS_IN_21 = 16
"""Of 21 devices, 16 are hosts: 16,384 of 21,504."""

BATCHES = (1, 16, 64, 1000)
ROUND_NS = ns(10)
BEGIN_NS = 1_700_000_000 * 10**9
SCALARS = [metric for metric in Metric if metric.index is None]
WATCHED = (Metric.LINK_DOWN_EVENTS, Metric.LINK_TRANSITIONS)
COUNTERS = (*WATCHED, *(m for m in SCALARS if m.counter and m not in WATCHED))[:20]
GAUGES = (Metric.OPER_UP, Metric.ADMIN_UP, Metric.SPEED_BPS, Metric.MODULE_TEMPERATURE_C)


class Fabric:
    """Devices with their rows, and what they read in a round."""

    def __init__(self, devices: int) -> None:
        self.rows = [8 if number % 21 < HOSTS_IN_21 else 128 for number in range(devices)]
        self.ports = sum(self.rows)
        self._chance = np.random.default_rng(1)
        self._errors = self._chance.poisson(0.05, (13, 128)).astype(np.uint64)

    def reading(self, number: int, turn: int) -> Samples:
        """One device's reading: bytes and packets moved, errors and states did not."""
        rows = self.rows[number]
        counters = np.empty((20, rows), np.uint64)
        counters[13:] = np.uint64(1000 + turn) * np.uint64(1 << 32)
        counters[13:] += self._chance.integers(0, 1 << 32, (7, rows), np.uint64)
        counters[:13] = self._errors[:, :rows]
        gauges = np.ones((4, rows))
        gauges[2], gauges[3] = 4e11, 40 + number % 20
        at_ns = BEGIN_NS + turn * ROUND_NS + number * ROUND_NS // len(self.rows)
        return Samples(
            f"device-{number:05d}", Source.SOURCE_NIC if rows == 8 else Source.SOURCE_GNMI, "bench", 1, turn,
            at_ns, at_ns + 10**6, 1, RowKind.ROW_KIND_PORT, tuple(f"Ethernet{1 + port}/1" for port in range(rows)),
            rows, Table(COUNTERS, (-1,) * 20, counters), Table(GAUGES, (-1,) * 4, gauges),
        )  # fmt: skip

    def values(self, turn: int) -> Iterator[bytes]:
        """The records' values of one round."""
        for number in range(len(self.rows)):
            value = topics.encode(topics.SAMPLES, self.reading(number, turn)).value
            assert value is not None
            yield value

    def statuses(self) -> list[Message]:
        """Return one status per collector, with its cadence."""
        return [
            CollectorStatus(
                "bench", 1, Source.SOURCE_NIC if rows == 8 else Source.SOURCE_GNMI, f"device-{number:05d}",
                BEGIN_NS, True, cadence_ns=ROUND_NS,
            )
            for number, rows in enumerate(self.rows)
        ]  # fmt: skip


def cpu_s(work: Callable[[], Any]) -> float:
    """The CPU time of some work in this process."""
    before = time.process_time()
    work()
    return time.process_time() - before


def decode(values: Sequence[bytes]) -> list[Message]:
    """As the consumer does it."""
    return [topics.decode(topics.SAMPLES, value) for value in values]


def play(stage: Measure, values: Sequence[bytes], batch: int) -> tuple[float, float]:
    """Process all messages in batches, each freed before the next as in the worker; CPU time of (decode, process)."""
    decoding = folding = 0.0
    for first in range(0, len(values), batch):
        begun = time.process_time()
        messages = decode(values[first : first + batch])
        read = time.process_time()
        result = stage.process(messages)
        folding += time.process_time() - read
        decoding += read - begun
        assert all(output.topic is topics.PORT_STATES for output in result), result
    return decoding, folding


def measure(devices: int, rounds: int) -> dict[str, float]:
    """The figures, each the best of the rounds."""
    fabric, stage = Fabric(devices), Measure(DetectParams())
    stage.start_epoch(1)
    stage.process(fabric.statuses())
    play(stage, list(fabric.values(0)), 1000)
    best: dict[str, float] = {}
    for turn, batch in enumerate(BATCHES * rounds, 1):
        costs = play(stage, list(fabric.values(turn)), batch)
        for name, cost in zip(("decode", "process"), costs, strict=True):
            key, a_million = f"{name}_in_{batch}_s_per_million", cost / fabric.ports * 1e6
            best[key] = round(min(a_million, best.get(key, a_million)), 3)
    return {"devices": devices, "ports": fabric.ports, **dict(sorted(best.items())), **snapshot(stage)}


def snapshot(stage: Measure) -> dict[str, float]:
    """Dump and restore of all that, and the memory that the state takes."""
    other, state = Measure(DetectParams()), b""

    def dump() -> None:
        nonlocal state
        state = stage.snapshot()

    dumping = min(cpu_s(dump) for _ in range(3))
    before_mib = resident_mib()
    restoring = cpu_s(lambda: other.restore(state))
    state_mib = resident_mib() - before_mib
    assert other.snapshot() == state
    return {
        "dump_s": round(dumping, 3), "snapshot_bytes": len(state), "restore_s": round(restoring, 3),
        "state_mib": round(state_mib),
    }  # fmt: skip


def resident_mib() -> float:
    """The memory that this process holds, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--devices", type=int, default=21_504)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measure(given.devices, given.rounds)
    if given.json:
        print(json.dumps(found))  # noqa: T201 — this is its output
    else:
        for name, value in found.items():
            print(f"{name:30} {value:,}")  # noqa: T201 — this is its output


if __name__ == "__main__":
    main()
