"""`railsight bench detection`: faults of every condition in a simulated fabric, and how well they are detected."""

from typing import Annotated

import typer

from streams.cli.options import AsJson, Config
from streams.cli.progress import progress

Only = Annotated[list[str] | None, typer.Option(help="A condition, as link/flap; repeatable. Default: all.")]
Without = Annotated[str, typer.Option(help="Compare with the same day without a source, as gnmi.")]


def detection(
    gpus: Annotated[int, typer.Option(min=64, help="GPUs of the fabric.")] = 2048,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 1,
    each: Annotated[int, typer.Option(min=1, help="Faults of each condition.")] = 50,
    days: Annotated[float, typer.Option(min=0, help="Simulate so many days at the published base rate instead.")] = 0,
    cadence: Annotated[
        float | None, typer.Option(min=1, help="Seconds between two polls of a switch. Default: 10, over days 60.")
    ] = None,
    nic_cadence: Annotated[
        float | None, typer.Option(min=1, help="Seconds between two polls of a NIC. Default: 1, over days as a switch.")
    ] = None,
    only: Only = None,
    without: Without = "",
    fabric: Annotated[
        str, typer.Option(help="all, planes, snmp, slow or nic: which sources read it, and how often.")
    ] = "all",
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Score the detectors in a simulated fabric; exit 1 unless recall, precision and delays meet their goals.

    Examples: `railsight bench detection --gpus 256 --each 3`, `railsight bench detection --only link/flap`.
    """
    import orjson

    from lab.bench.detection.session import DetectionOptions, run_detection
    from streams.cli.options import settings_of

    options = DetectionOptions(gpus, seed, each, days, cadence, nic_cadence, only or (), without, fabric)
    with progress("bench detection"):
        result = run_detection(options, settings_of(config))
    if as_json:
        typer.echo(orjson.dumps(result.values))
    else:
        for line in result.lines:
            typer.echo(line)
    if not result.values["fine"]:
        raise typer.Exit(1)
