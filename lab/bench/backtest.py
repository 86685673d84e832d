"""Measures the speed of a backtest as a whole, and of its reading and its stages."""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.bench.processes import machine_info
from lab.bench.recording import write_recording
from streams.config.settings import Settings
from streams.detect.thresholds import ns
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.inventory_folder import write_folder
from streams.instrument.memory import relaxed_gc, retain_malloc_pages
from streams.replay import backtest as replay
from streams.replay.driver import Driver, batches
from streams.replay.recording import RejectedRows
from streams.replay.score import as_dict, read_findings, score

TARGET = 200_000
"""The target in port-samples per second and core; at this speed an hour of the largest fabric takes 24 minutes of one
core."""


@dataclass(frozen=True, slots=True)
class BacktestSpeeds:
    """The results of one run; speeds are in port-samples per second of CPU."""

    gpus: int
    ports: int
    seconds: float
    port_samples: int
    values: int
    messages: int
    file_bytes: int
    whole: float
    whole_wall: float
    reading: float
    stages: float
    peak_bytes: int
    injected: int
    found: int
    missed: tuple[str, ...]
    invented: tuple[str, ...]
    machine: str


def measure_backtest(folder: Path, gpus: int, seconds: float, cadence_s: float, seed: int) -> BacktestSpeeds:
    """Write a recording, run the backtest, and run reading and stages separately."""
    inventory = generate(GenerateParams(gpus=gpus))
    write_folder(inventory, folder / "inventory")
    made = write_recording(inventory, folder, seconds, cadence_s, seed)
    source = replay.Recording((made.samples,), (made.events,), None, made.status, None, folder / "inventory")
    topology, settings = replay.read_topology(source.inventory, RejectedRows()), Settings()

    def speed(work: Callable[[], Any]) -> tuple[float, float]:
        began_s, cpu_s = time.perf_counter(), time.process_time()
        with relaxed_gc():  # as the backtest itself runs
            work()
        spent_s = time.process_time() - cpu_s, time.perf_counter() - began_s
        return made.port_samples / spent_s[0], made.port_samples / spent_s[1]

    out = folder / "found.jsonl"
    retain_malloc_pages()  # as the command does
    whole, whole_wall = speed(lambda: replay.run(source, settings, out))
    # KiB on Linux; read after the whole run, before the stages alone load all messages into memory.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    reading, _ = speed(lambda: sum(len(batch) for batch in batches(replay.ordered_messages(source, RejectedRows()))))
    in_memory = list(batches(replay.ordered_messages(source, RejectedRows())))
    driver = Driver(replay.stages(settings), topology)

    def drive() -> None:
        for batch in in_memory:
            driver.process(batch)
        driver.end(ns(settings.detect.lateness_s))

    stages, _ = speed(drive)
    outcome = score(read_findings(out), made.truths)
    names = as_dict(outcome)
    return BacktestSpeeds(
        gpus, 2 * len(inventory.links), seconds, made.port_samples, made.values, made.messages,
        made.samples.stat().st_size, whole, whole_wall, reading, stages, peak, len(made.truths), len(outcome.found),
        tuple(names["missed"]), tuple(names["invented"]), machine_info(),
    )  # fmt: skip


def speed_lines(found: BacktestSpeeds, load_s: float = 1.0) -> list[str]:
    """Return the speeds as text; `/load` is the CPU time divided by the seconds of the reference load."""
    return [
        found.machine,
        f"{found.ports:,} ports for {found.seconds:g} s: {found.port_samples:,} port-samples in {found.messages:,}"
        f" readings, {found.values:,} values, {found.file_bytes / 1e6:,.0f} MB of Parquet",
        f"{'':18}{'port-samples/s per core':>23}{'CPU s per million':>17}{'/load':>8}",
        *(
            f"{name:<18}{value:>23,.0f}{1e6 / value:>17.2f}{1e6 / value / load_s:>8.2f}"
            for name, value in (
                ("backtest", found.whole), ("reading alone", found.reading), ("stages alone", found.stages),
            )
        ),
        f"target {TARGET:,}; by the clock {found.whole_wall:,.0f} port-samples/s",
        f"peak {found.peak_bytes / 2**20:,.0f} MiB",
        f"{found.found} of {found.injected} faults found",
        *(f"missed: {name}" for name in found.missed),
        *(f"invented: {name}" for name in found.invented),
    ]  # fmt: skip
