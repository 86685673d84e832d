"""`railsight bench pipeline`: measures everything from Kafka to ClickHouse under the load of a fabric of any size."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.options import AsJson
from streams.cli.progress import progress
from streams.runtime.foreground import INTERRUPTED
from streams.runtime.supervise import STEADY_S

if TYPE_CHECKING:
    from lab.bench.params import Compression

Cadence = Annotated[float, typer.Option(min=0.1, help="Seconds between two readings of a device.")]
Partitions = Annotated[int, typer.Option(min=1, help="Partitions of the telemetry topics.")]


def pipeline(
    gpus: Annotated[int, typer.Option(min=64, help="Number of GPUs of the fabric.")] = 1024,
    cadence: Cadence = 10,
    seconds: Annotated[float, typer.Option(min=5, help="Duration of the measurement, after a warm-up.")] = 60,
    partitions: Partitions = 8,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes that run the stages.")] = 1,
    compression: Annotated[str, typer.Option(help="Of the load in Kafka: none, lz4, zstd, snappy or gzip.")] = "snappy",
    senders: Annotated[int, typer.Option(min=1, max=256, help="Number of producers that share the devices.")] = 1,
    kill_every: Annotated[
        # At shorter intervals the supervisor would count the kills as one crash loop and give the worker up.
        float | None, typer.Option(min=STEADY_S + 1, help="Kill a worker with SIGKILL at this interval, in seconds.")
    ] = None,
    secure: Annotated[
        bool, typer.Option("--secure", help="Kafka with TLS, a user for each part, and ACLs; default: none of them.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of faults, rates and the order of reading.")] = 1,
    profile: Annotated[str | None, typer.Option(metavar="PART=FILE", help="Profile a Python part with py-spy.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Run in this new folder and do not remove it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the whole pipeline under a fabric's load; exit 1 if anything was lost, missed, invented or late.

    Examples: `railsight bench pipeline --gpus 64 --seconds 10`, `railsight bench pipeline --gpus 1024 --json`.
    """
    import orjson

    from lab.bench.params import Params
    from lab.bench.process_specs import SINK, worker_names
    from lab.bench.profiling import parse_profile
    from lab.bench.render_report import report_lines
    from lab.bench.session import run_benchmark, run_folder

    with run_folder(keep) as folder:
        params = Params(
            folder, gpus, cadence, seconds, partitions, workers, _compression(compression), seed,
            kill_every_s=kill_every, senders=senders, security="tls" if secure else "none",
        )  # fmt: skip
        if profile is not None:
            params = replace(params, profile=parse_profile(profile, [*worker_names(params), SINK]))
        with progress("bench pipeline") as bar:
            bar.step(f"about {params.expected_s:.0f} s in all")
            report = run_benchmark(params, bar.step)
    if report is None:
        raise typer.Exit(INTERRUPTED)
    if as_json:
        typer.echo(orjson.dumps(report.as_dict()))
    else:
        for line in report_lines(report):
            typer.echo(line)
    if not report.is_passed:
        raise typer.Exit(1)


def _compression(given: str) -> "Compression":
    match given:
        case "none" | "lz4" | "zstd" | "snappy" | "gzip":
            return given
        case _:
            raise typer.BadParameter("none, lz4, zstd, snappy or gzip", param_hint="--compression")
