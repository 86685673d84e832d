"""A report by hand: a run of which everything holds."""

from dataclasses import replace
from typing import Any

from streams.bench.figures import Spread
from streams.bench.report import Found, LoadFacts, PartCost, Report, StageRate, Stored
from streams.bench.stored import Size
from streams.bench.verdicts import verdicts

LOAD = LoadFacts(100, 3200, 1600, 22.0, 80_000.0, 4_800_000, 130_000, 129_000, 40, 0, 212.0, 0.1, 0.02, 5.0)


def report(**other: Any) -> Report:
    """Two cores for 60 s, 4.8 M port-samples, 24 CPU s: 5 a million and a fifth of the machine."""
    made = Report(
        gpus=1024, cadence_s=10, seconds=60.0, partitions=8, workers=1, compression="lz4", cores=2, warm_up_s=22.0,
        start_s=9.0, port_samples=4.8, load=LOAD,
        parts=(PartCost("broker", 4.0, 300 << 20, 0.0), PartCost("process", 20.0, 200 << 20, 1024.0)),
        bench_cpu_s=3.0, stages=(StageRate("measure", 2150.0, 10.0, 40.0, 5.0, grows=False),),
        sample_to_row_s=Spread(4_800_000, 0.7, 1.2, 1.9), flap_to_finding_s=Spread(24, 0.03, 0.2, 0.2),
        down_to_finding_s=Spread(0), faults=Found(30, 30, (), (), 0),
        stored=Stored(4_800_000, 130_000, 129_000, 40, (Size("samples", 4_800_000, 1 << 28, 9),), {"t": 1 << 28}),
        kills=(), restarts={}, lags={}, memory={}, problems=(),
    )  # fmt: skip
    made = replace(made, **other)
    return replace(made, verdicts=tuple(verdicts(made)))
