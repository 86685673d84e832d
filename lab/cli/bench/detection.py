"""`railsight bench detection`, `calibration` and `fabrics` measure the detection of faults in a simulated fabric."""

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.bench import measured, print_result
from streams.cli.options import AsJson, Config
from streams.cli.printing import echo

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
        str,
        typer.Option(
            help="all, planes, planes8, sprayed, snmp, slow, no-pause, infiniband or nic:"
            " the sources, and how often they read."
        ),
    ] = "all",
    killed: Annotated[
        list[float] | None, typer.Option(help="Kill a collector of switches for so many minutes; repeatable.")
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Score the detectors in a simulated fabric; exit 1 unless recall, precision and delays meet their goals.

    Examples: `railsight bench detection --gpus 256 --each 3`, `railsight bench detection --only link/flap`.
    """
    from lab.bench.detection.session import DetectionOptions, expected_s, run_detection
    from streams.cli.options import settings_of

    options = DetectionOptions(gpus, seed, each, days, cadence, nic_cadence, only or (), without, fabric, killed or ())
    with measured("bench detection", expected_s(options)) as run:
        result = run_detection(options, settings_of(config))
    print_result(result.values, result.lines, as_json=as_json, is_passed=result.values["fine"], speed=run.speed)


def calibration(
    results: Annotated[list[Path], typer.Argument(help="Results of `railsight bench detection --json`.")],
    plot: Annotated[Path | None, typer.Option(help="Write the plot to this SVG file.")] = None,
) -> None:
    """Print how many findings of each confidence are true, over detection trials, as a Markdown table.

    Example: `railsight bench calibration results.json --plot calibration.svg`.
    """
    from lab.bench.detection import results as own

    shares = own.summed(own.read_results(results))
    for line in own.table(shares):
        echo(line)
    if plot is not None:
        plot.write_text(own.plot(shares), encoding="utf-8")


def fabrics(
    results: Annotated[list[Path], typer.Argument(help="Results of `railsight bench detection --json`.")],
) -> None:
    """Print as Markdown tables what detection trials found on each fabric, and what its sources cannot show.

    Example: `railsight bench fabrics planes-504.json nic-504.json`.
    """
    from lab.bench.detection.results import effects_line, found_table, read_results, reasons_table

    read = read_results(results)
    for line in (*found_table(read), "", effects_line(read), "", *reasons_table(read)):
        echo(line)


def night(as_json: AsJson = False) -> None:
    """Play a night of faults, maintenance and a restart, and print every page; exit 1 unless they are the wanted ones.

    Example: `railsight bench night`.
    """
    from lab.bench.detection.night import night_lines, play_night

    with measured("bench night", 60):
        played = play_night()
    sent = [{"at_ns": one.at_ns, "kind": one.kind, "text": one.text} for one in played.sent]
    print_result({"sent": sent}, night_lines(played), as_json=as_json, is_passed=played.is_as_wanted)
