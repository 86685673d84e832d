"""`railsight job ID`: was the network clean for this job from then to then, what hurt it, how much of it was seen."""

import time
from datetime import datetime
from typing import Annotated

import typer

from streams.cli.options import TIMES, AsJson, Config, ns_of, settings_of

Moment = datetime | None

ENOUGH = 0.95
"""Of the time of all ports: a collector's restart of a minute an hour is within it, a rail that nobody reads is not
where a host has eight."""


def job(
    identity: Annotated[str, typer.Argument(metavar="ID", help="The job, as its placement names it.")],
    config: Config = None,
    since: Annotated[Moment, typer.Option("--from", formats=TIMES, help="From then on; default: its start.")] = None,
    until: Annotated[Moment, typer.Option("--to", formats=TIMES, help="Until then, UTC; default: its end.")] = None,
    enough: Annotated[float, typer.Option(min=0, max=1, help="The share that must have been seen.")] = ENOUGH,
    as_json: AsJson = False,
) -> None:
    """Say whether the network was clean for a job, from what ClickHouse holds.

    Exit 0 if it was and enough of it was seen to tell; else 1.
    """
    import orjson

    from streams.report.job.shown import lines
    from streams.report.job.verdict import verdict_of
    from streams.store.clickhouse import ClickHouse
    from streams.wire.errors import Misconfigured

    begin, end = 0 if since is None else ns_of(since), time.time_ns() if until is None else ns_of(until)
    if end <= begin:
        raise Misconfigured("--to must be later than --from")
    settings = settings_of(config)
    clickhouse = ClickHouse(settings.store)
    try:
        verdict = verdict_of(clickhouse, settings.detect.stale, identity, (begin, end), enough)
    finally:
        clickhouse.close()
    if verdict is None:
        typer.echo(f"railsight job: no job {identity} ran then, as far as ClickHouse was told", err=True)
        raise typer.Exit(1)
    if as_json:
        typer.echo(orjson.dumps(verdict.as_dict()))
    else:
        for line in lines(verdict):
            typer.echo(line)
    if not (verdict.clean and verdict.enough_seen):
        raise typer.Exit(1)
