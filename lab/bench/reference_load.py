"""Measures how fast this machine is now, by a fixed reference load, so that figures of two machines can be compared.

The load has four parts that the pipeline consists of too: Python byte code, copies in memory, zstd, and the decoding of
protobuf. Each takes a quarter of a second of CPU time on the machine of docs/benchmarks.md while nothing else runs, so
the whole load takes 1 s there. A figure divided by the seconds of the load is the figure of that machine, as far as
both machines differ by one factor.

`python -m lab.bench.reference_load` measures once and prints JSON. Benchmarks run it as a process of its own: the state
of the benchmark's interpreter does not change the result.
"""

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

import orjson

from lab.bench.processes import machine_and_own_cpu_s
from streams.wire.errors import Misconfigured

_DIFFERENCE = 1.1
"""Measurements of a machine without other work differ by less than this factor (40 in a row: 1.06)."""
_OTHERS = 0.1
"""The cores that other processes may use before a run counts as disturbed: daemons take a few percent of one."""
_EVERY_S = 20.0
_TIMEOUT_S = 300.0
_NICE = 10
"""The niceness of measurements during a run, so that they take no core from it; CPU time does not depend on it."""
_REPEATS = 4


@dataclass(frozen=True, slots=True)
class Speed:
    """One measurement: CPU seconds of each part of the load, and the duration of all."""

    python_s: float
    copy_s: float
    zstd_s: float
    protobuf_s: float
    wall_s: float

    @property
    def load_s(self) -> float:
        """The CPU seconds of the load: four times the geometric mean, so that no part dominates."""
        return 4 * statistics.geometric_mean((self.python_s, self.copy_s, self.zstd_s, self.protobuf_s))


@dataclass(slots=True)
class MachineSpeed:
    """The measurements of one run, and the cores that other processes used meanwhile."""

    before: Speed
    during: list[Speed] = field(default_factory=list)
    after: Speed | None = None
    others_cores: float = 0.0
    unfinished: int = 0
    """Measurements that did not end in time."""

    @property
    def load_s(self) -> float:
        """The median over all measurements of the run, in CPU seconds."""
        return statistics.median(speed.load_s for speed in self._all())

    @property
    def disturbance(self) -> str:
        """The reason why the figures of the run are not those of a quiet machine; empty if there is none."""
        reasons = []
        if self.others_cores > _OTHERS:
            reasons.append(f"other processes used {self.others_cores:.2f} cores")
        if self.unfinished:
            reasons.append(f"reference loads that did not end in {_TIMEOUT_S:.0f} s: {self.unfinished}")
        loads = [speed.load_s for speed in self._all()]
        if max(loads) > _DIFFERENCE * min(loads):
            reasons.append(f"the reference load took {min(loads):.2f} to {max(loads):.2f} s")
        return "; ".join(reasons)

    def _all(self) -> Sequence[Speed]:
        return [self.before, *self.during, *([] if self.after is None else [self.after])]

    def as_dict(self) -> dict[str, object]:
        """Return the measurements as JSON values."""
        return asdict(self) | {"load_s": self.load_s, "disturbance": self.disturbance}

    def lines(self) -> Iterator[str]:
        """Yield the result as text."""
        during = ", ".join(f"{speed.load_s:.2f}" for speed in self.during) or "-"
        after = "-" if self.after is None else f"{self.after.load_s:.2f}"
        yield (
            f"reference load: {self.before.load_s:.2f} s before, {during} during, {after} after; median"
            f" {self.load_s:.2f} s (1 on the machine of docs/benchmarks.md: divide CPU times by it to compare machines)"
        )
        if self.disturbance:
            yield f"DISTURBED: {self.disturbance}"


@contextmanager
def machine_speed() -> Iterator[MachineSpeed]:
    """Measure before, every 20 s during, and after the block; raises Misconfigured if the first one does not end.

    A later one that does not end marks the run as disturbed: the result of hours is not lost by it.
    """
    first = _measured()
    if first is None:
        raise Misconfigured(f"the machine is too busy: a load of 1 s did not end in {_TIMEOUT_S:.0f} s; end other work")
    speed = MachineSpeed(first)
    ended = threading.Event()
    sampler = threading.Thread(target=_sample, args=(speed, ended), name="reference load")
    began_s, began = time.monotonic(), machine_and_own_cpu_s()
    sampler.start()
    try:
        yield speed
    finally:
        ended.set()
        sampler.join()
    busy_s, own_s = (end - begin for end, begin in zip(machine_and_own_cpu_s(), began, strict=True))
    speed.others_cores = max(0.0, busy_s - own_s) / (time.monotonic() - began_s)
    speed.after = _measured()
    speed.unfinished += speed.after is None


def _sample(speed: MachineSpeed, ended: threading.Event) -> None:
    # The first measurement early, because many benchmarks take less than the interval.
    wait_s = _EVERY_S / 4
    while not ended.wait(wait_s):
        found = _measured(_NICE)
        speed.during += [] if found is None else [found]
        speed.unfinished += found is None
        wait_s = _EVERY_S


def _measured(niceness: int = 0) -> Speed | None:
    """Measure in a process of its own; None if it does not end in time."""
    command = [sys.executable, "-m", "lab.bench.reference_load", str(niceness)]
    try:
        printed = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=_TIMEOUT_S).stdout
    except subprocess.TimeoutExpired:
        return None
    return Speed(**orjson.loads(printed))


def _python() -> Callable[[], object]:
    def run() -> int:
        total = 0
        for number in range(1_750_000):
            total += number & 7
            if total > 1_000_000:
                total -= 1_000_000
        return total

    return run


def _copy() -> Callable[[], object]:
    import numpy as np

    source, target = np.ones(4 << 20, np.uint64), np.zeros(4 << 20, np.uint64)

    def run() -> None:
        for _ in range(24):
            np.copyto(target, source)

    return run


def _zstd() -> Callable[[], object]:
    import cramjam
    import numpy as np

    # Counters, as in the samples of a switch: eight bytes, of which about five are random.
    payload = np.random.default_rng(1).integers(0, 1 << 40, 2_500_000, np.uint64).tobytes()
    return lambda: cramjam.zstd.decompress(cramjam.zstd.compress(payload, 1))


def _protobuf() -> Callable[[], object]:
    from google.protobuf import descriptor_pb2

    # A message of the library itself, which does not change with the messages of railsight.
    payload = descriptor_pb2.DESCRIPTOR.serialized_pb

    def run() -> None:
        for _ in range(4000):
            descriptor_pb2.FileDescriptorProto.FromString(payload)

    return run


def measure() -> Speed:
    """Run the load on one core and return its CPU times."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    times = []
    began_s = time.perf_counter()
    for make in (_python, _copy, _zstd, _protobuf):
        run = make()
        run()
        repeats = []
        for _ in range(_REPEATS):
            cpu_s = time.thread_time()
            run()
            repeats.append(time.thread_time() - cpu_s)
        times.append(statistics.median(repeats) * _REPEATS)
    python_s, copy_s, zstd_s, protobuf_s = times
    return Speed(python_s, copy_s, zstd_s, protobuf_s, time.perf_counter() - began_s)


if __name__ == "__main__":
    os.nice(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    sys.stdout.write(orjson.dumps(measure()).decode())
