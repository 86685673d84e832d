"""`railsight bench pipeline`: everything from Kafka to ClickHouse under the load of a fabric of any size."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.options import AsJson
from streams.runtime.supervise import STEADY_S

if TYPE_CHECKING:
    from streams.bench.params import Compression

Cadence = Annotated[float, typer.Option(min=0.1, help="Seconds between two readings of a device.")]
Partitions = Annotated[int, typer.Option(min=1, help="Partitions of the telemetry topics.")]


def pipeline(
    gpus: Annotated[int, typer.Option(min=64, help="How many GPUs the fabric has.")] = 1024,
    cadence: Cadence = 10,
    seconds: Annotated[float, typer.Option(min=5, help="For how long it is measured, after a warm-up.")] = 60,
    partitions: Partitions = 8,
    workers: Annotated[int, typer.Option(min=1, help="How many processes run the stages.")] = 1,
    compression: Annotated[str, typer.Option(help="Of the load in Kafka: none, lz4, zstd, snappy or gzip.")] = "snappy",
    senders: Annotated[int, typer.Option(min=1, max=256, help="How many producers the devices are divided over.")] = 1,
    kill_every: Annotated[
        # Sooner than the supervisor forgets an end, it would give the worker up after a few.
        float | None, typer.Option(min=STEADY_S + 1, help="Kill a worker with SIGKILL every so many seconds.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of faults, rates and the order of reading.")] = 1,
    profile: Annotated[
        str | None, typer.Option(metavar="PART=FILE", help="Record where a Python part's time goes, with py-spy.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="Run in this new folder and leave it behind.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the whole pipeline under a fabric's load; exit 1 if anything was lost, missed, invented or late."""
    import orjson

    from streams.bench.lineup import SINK
    from streams.bench.lineup import workers as workers_of
    from streams.bench.params import Params
    from streams.bench.profiling import asked
    from streams.bench.shown import lines
    from streams.bench.whole import folder_of, measured

    with folder_of(keep) as folder:
        params = Params(
            folder, gpus, cadence, seconds, partitions, workers, _compression(compression), seed,
            kill_every_s=kill_every, senders=senders,
        )  # fmt: skip
        if profile is not None:
            params = replace(params, profile=asked(profile, [*workers_of(params), SINK]))
        report = measured(params)
    if as_json:
        typer.echo(orjson.dumps(report.as_dict()))
    else:
        for line in lines(report):
            typer.echo(line)
    if not report.fine:
        raise typer.Exit(1)


def _compression(given: str) -> "Compression":
    match given:
        case "none" | "lz4" | "zstd" | "snappy" | "gzip":
            return given
        case _:
            raise typer.BadParameter("none, lz4, zstd, snappy or gzip", param_hint="--compression")
