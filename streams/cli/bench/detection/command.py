"""`railsight bench detection`: faults of every condition in a simulated fabric, and how well they are found."""

from typing import Annotated

import typer

from streams.cli.options import AsJson, Config

Only = Annotated[list[str] | None, typer.Option(help="A condition, as link/flap; several times. Default: all.")]


def detection(
    gpus: Annotated[int, typer.Option(min=64, help="How many GPUs the fabric has.")] = 2048,
    seed: Annotated[int, typer.Option(help="Of all that happens.")] = 1,
    each: Annotated[int, typer.Option(min=1, help="Faults of each condition.")] = 50,
    days: Annotated[float, typer.Option(min=0, help="Instead: so many days at the published base rate.")] = 0,
    cadence: Annotated[float, typer.Option(min=1, help="Seconds between two readings of a device.")] = 10,
    only: Only = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Score the detectors in a simulated fabric; exit 1 unless each finds and invents what is promised."""
    import orjson

    from streams.cli.bench.detection.conditions import CONDITIONS
    from streams.cli.bench.detection.places import Full
    from streams.cli.bench.detection.shown import as_dict, lines
    from streams.cli.bench.detection.trial import Asked, run
    from streams.cli.options import settings_of
    from streams.replay.backtest import stages
    from streams.wire.errors import Misconfigured

    known = {condition.slug: condition for condition in CONDITIONS}
    if unknown := [name for name in only or () if name not in known]:
        raise Misconfigured(f"no such condition here: {', '.join(unknown)} (there are {', '.join(known)})")
    conditions = tuple(known[name] for name in only) if only else tuple(CONDITIONS)
    settings = settings_of(config)
    try:
        outcome = run(Asked(gpus, seed, each, days, cadence, conditions), settings, stages(settings))
    except Full as error:
        raise Misconfigured(str(error)) from error
    said = as_dict(outcome)
    if as_json:
        typer.echo(orjson.dumps(said))
    else:
        for line in lines(outcome):
            typer.echo(line)
    if not said["fine"]:
        raise typer.Exit(1)
