"""`railsight bench backtest`: how fast the past is run through the stages, and what reading and the stages cost apart.

Speeds are port-samples a second of CPU, all threads of the process counted, so that they are those of one core.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from streams.cli.options import AsJson

TARGET = 200_000
"""Port-samples a second and core; at this speed the largest fabric's hour takes 24 minutes of one core."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """One run; the speeds in port-samples a second of CPU."""

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


def backtest(
    gpus: Annotated[int, typer.Option(min=64, help="How many GPUs the fabric has.")] = 16384,
    seconds: Annotated[float, typer.Option(min=150, help="How long the recording is.")] = 180,
    cadence: Annotated[float, typer.Option(min=0.1, help="Seconds between two readings of a device.")] = 10,
    seed: Annotated[int, typer.Option(help="Of faults, rates and the order of reading.")] = 1,
    keep: Annotated[Path | None, typer.Option(help="Leave the recording in this new folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a backtest of a generated recording; exit 1 if it is slower than it should be, or finds anything else."""
    import orjson

    from streams.bench.whole import folder_of

    with folder_of(keep) as folder:
        found = measured(folder, gpus, seconds, cadence, seed)
    if as_json:
        typer.echo(orjson.dumps(asdict(found)))
    else:
        for line in lines(found):
            typer.echo(line)
    if found.whole < TARGET or found.missed or found.invented:
        raise typer.Exit(1)


def measured(folder: Path, gpus: int, seconds: float, cadence_s: float, seed: int) -> Speeds:
    """Record, run the backtest, and run its two halves apart."""
    import resource
    import time

    from streams.bench.machine import described
    from streams.bench.recorded import record
    from streams.config.settings import Settings
    from streams.detect.params import ns
    from streams.fabric.folder import write_folder
    from streams.instrument.garbage import sought_seldom
    from streams.instrument.pages import keep_pages
    from streams.replay import backtest as own
    from streams.replay.driver import Driver, batches
    from streams.replay.recording import RejectedRows
    from streams.replay.results import read_findings
    from streams.replay.score import score
    from streams.replay.score_report import as_dict
    from streams.simulation.clos import GenerateParams, generate

    inventory = generate(GenerateParams(gpus=gpus))
    write_folder(inventory, folder / "inventory")
    made = record(inventory, folder, seconds, cadence_s, seed)
    source = own.Recording((made.samples,), (made.events,), None, made.status, None, folder / "inventory")
    topology, settings = own.read_topology(source.inventory), Settings()

    def speed(work: Callable[[], Any]) -> tuple[float, float]:
        began_s, cpu_s = time.perf_counter(), time.process_time()
        with sought_seldom():  # as the whole does it by itself
            work()
        spent_s = time.process_time() - cpu_s, time.perf_counter() - began_s
        return made.port_samples / spent_s[0], made.port_samples / spent_s[1]

    out = folder / "found.jsonl"
    keep_pages()  # as the command does
    whole, whole_wall = speed(lambda: own.run(source, settings, out))
    # KiB on Linux; after the whole run, before all messages are held at once for the stages alone.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    reading, _ = speed(lambda: sum(len(batch) for batch in batches(own.ordered_messages(source, RejectedRows()))))
    held = list(batches(own.ordered_messages(source, RejectedRows())))
    driver = Driver(own.stages(settings), topology)

    def drive() -> None:
        for batch in held:
            driver.process(batch)
        driver.end(ns(settings.detect.lateness_s))

    stages, _ = speed(drive)
    outcome = score(read_findings(out), made.truths)
    names = as_dict(outcome)
    return Speeds(
        gpus, 2 * len(inventory.links), seconds, made.port_samples, made.values, made.messages,
        made.samples.stat().st_size, whole, whole_wall, reading, stages, peak, len(made.truths), len(outcome.found),
        tuple(names["missed"]), tuple(names["invented"]), described(),
    )  # fmt: skip


def lines(found: Speeds) -> list[str]:
    """What a person reads of it."""
    return [
        found.machine,
        f"{found.ports:,} ports for {found.seconds:g} s: {found.port_samples:,} port-samples in {found.messages:,}"
        f" readings, {found.values:,} values, {found.file_bytes / 1e6:,.0f} MB of Parquet",
        f"{'':18}{'port-samples/s a core':>23}{'CPU s a million':>17}",
        *(
            f"{name:<18}{value:>23,.0f}{1e6 / value:>17.2f}"
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
