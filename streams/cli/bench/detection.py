"""`railsight bench detection`: faults of every condition in a simulated fabric, and how well they are found."""

from typing import Annotated

import typer

from streams.cli.options import AsJson, Config

CADENCE_S, DAYS_CADENCE_S, NIC_CADENCE_S = 10.0, 60.0, 1.0
"""Of the gNMI and the NIC collector, unless their settings say otherwise; days at these would take hours each."""
Only = Annotated[list[str] | None, typer.Option(help="A condition, as link/flap; several times. Default: all.")]
Without = Annotated[str, typer.Option(help="Instead: compare with the same day without a source, as gnmi.")]


def detection(
    gpus: Annotated[int, typer.Option(min=64, help="How many GPUs the fabric has.")] = 2048,
    seed: Annotated[int, typer.Option(help="Of all that happens.")] = 1,
    each: Annotated[int, typer.Option(min=1, help="Faults of each condition.")] = 50,
    days: Annotated[float, typer.Option(min=0, help="Instead: so many days at the published base rate.")] = 0,
    cadence: Annotated[
        float | None, typer.Option(min=1, help="Seconds between two readings of a switch. Default: 10, over days 60.")
    ] = None,
    nic_cadence: Annotated[
        float | None, typer.Option(min=1, help="Of a NIC. Default: 1, over days as a switch.")
    ] = None,
    only: Only = None,
    without: Without = "",
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Score the detectors in a simulated fabric; exit 1 unless each finds and invents what is promised."""
    from dataclasses import replace

    import orjson

    from streams.bench.detection.render import as_dict, lines
    from streams.bench.detection.source_ablation import SourceAblation
    from streams.bench.detection.sources import SOURCES
    from streams.bench.detection.trial import TrialSpec, run
    from streams.cli.options import settings_of
    from streams.replay.backtest import stages
    from streams.simulation.conditions import CONDITIONS
    from streams.simulation.delivery_model import Cadence
    from streams.simulation.fault_placement import NoRoom
    from streams.wire.errors import Misconfigured

    known = {condition.slug: condition for condition in CONDITIONS}
    if unknown := [name for name in only or () if name not in known]:
        raise Misconfigured(f"no such condition here: {', '.join(unknown)} (there are {', '.join(known)})")
    conditions = tuple(known[name] for name in only) if only else tuple(CONDITIONS)
    if without and without not in SOURCES:
        raise Misconfigured(f"no such source here: {without} (there are {', '.join(SOURCES)})")
    seldom = cadence or (DAYS_CADENCE_S if days else CADENCE_S)
    often = nic_cadence or (seldom if days else min(seldom, NIC_CADENCE_S))
    if seldom % often:
        raise Misconfigured(f"--cadence {seldom:g} is no whole number of times --nic-cadence {often:g}")
    settings = settings_of(config)
    asked = TrialSpec(gpus, seed, each, days, Cadence(seldom, often), conditions)
    try:
        outcome = run(asked, settings, stages(settings))
        lack = (
            SourceAblation(outcome, run(replace(asked, without=without), settings, stages(settings)))
            if without
            else None
        )
    except NoRoom as error:
        raise Misconfigured(str(error)) from error
    said = lack.as_dict() if lack is not None else as_dict(outcome)
    if as_json:
        typer.echo(orjson.dumps(said))
    else:
        for line in lack.lines() if lack is not None else lines(outcome):
            typer.echo(line)
    if not said["fine"]:
        raise typer.Exit(1)
