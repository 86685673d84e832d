"""Runs the load generator's process: `python -m lab.bench.load SPEC`, until SIGTERM."""

import asyncio
import gc
import os
import signal
import sys
from pathlib import Path

import numpy as np

from lab.bench.load import spec as arrays_file
from lab.bench.load.fault_plan import plan
from lab.bench.load.fleet import COLLECTORS, Fleet
from lab.bench.load.player import Player
from lab.bench.load.spec import read_spec


async def _run(path: Path) -> None:
    spec = read_spec(path)
    fabric = arrays_file.load(Path(spec.fabric_path))
    rng = np.random.default_rng(spec.seed)
    faults = [] if spec.is_healthy else plan(fabric, spec.warm_s, spec.seconds, spec.cadence_s, rng)
    runs = {source: int.from_bytes(os.urandom(8), "little") | 1 for source in COLLECTORS}
    fleet = Fleet(fabric, spec.cadence_s, rng, runs, faults)
    gc.freeze()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await Player(spec, fleet, fabric.devices).play(stop)


if __name__ == "__main__":
    asyncio.run(_run(Path(sys.argv[1])))
