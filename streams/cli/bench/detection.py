"""`railsight bench detection`: faults of every condition in a simulated fabric, and how well they are detected."""

from typing import Annotated

import typer

from streams.cli.options import AsJson, Config

CADENCE_S, DAYS_CADENCE_S, NIC_CADENCE_S = 10.0, 60.0, 1.0
"""Defaults of the gNMI and the NIC collector; over days they are longer, because each day would take hours."""
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
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Score the detectors in a simulated fabric; exit 1 unless recall, precision and delays meet their goals."""
    from dataclasses import replace

    import orjson

    from streams.bench.detection.render import as_dict, lines
    from streams.bench.detection.source_ablation import SourceAblation
    from streams.bench.detection.sources import SOURCES
    from streams.bench.detection.trial import TrialSpec, run
    from streams.cli.options import settings_of
    from streams.replay.backtest import stages
    from streams.simulation.delivery_model import Cadence
    from streams.simulation.fault_placement import NoRoom
    from streams.simulation.faults import FAULT_OF, FAULTS
    from streams.wire.errors import Misconfigured

    if unknown := [name for name in only or () if name not in FAULT_OF]:
        raise Misconfigured(f"unknown condition: {', '.join(unknown)}; known: {', '.join(FAULT_OF)}")
    if without and without not in SOURCES:
        raise Misconfigured(f"unknown source: {without}; known: {', '.join(SOURCES)}")
    switch_s = cadence or (DAYS_CADENCE_S if days else CADENCE_S)
    nic_s = nic_cadence or (switch_s if days else min(switch_s, NIC_CADENCE_S))
    if switch_s % nic_s:
        raise Misconfigured(f"--cadence {switch_s:g} is not a multiple of --nic-cadence {nic_s:g}")
    settings = settings_of(config)
    faults = tuple(FAULT_OF[name] for name in only) if only else FAULTS
    spec = TrialSpec(gpus, seed, each, days, Cadence(switch_s, nic_s), faults)
    try:
        outcome = run(spec, settings, stages(settings))
        if without:
            ablation = SourceAblation(outcome, run(replace(spec, without=without), settings, stages(settings)))
            values, text = ablation.as_dict(), ablation.lines()
        else:
            values, text = as_dict(outcome), lines(outcome)
    except NoRoom as error:
        raise Misconfigured(str(error)) from error
    if as_json:
        typer.echo(orjson.dumps(values))
    else:
        for line in text:
            typer.echo(line)
    if not values["fine"]:
        raise typer.Exit(1)
