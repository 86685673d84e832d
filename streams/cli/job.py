"""`railsight job ID`: reports whether the network was clean for a job, what affected it, and how much was observed."""

import time
from datetime import datetime
from typing import Annotated

import typer

from streams.cli.options import TIMES, AsJson, Config, ns_of, settings_of
from streams.cli.printing import echo

Moment = datetime | None

MIN_COVERAGE = 0.95
"""Share of the time of all ports. A collector restart of a minute per hour stays within it; a rail of eight that no
source reads does not."""


def job(
    identity: Annotated[str, typer.Argument(metavar="ID", help="The job's name in the inventory.")],
    config: Config = None,
    since: Annotated[Moment, typer.Option("--from", formats=TIMES, help="Start; default: the job's start.")] = None,
    until: Annotated[Moment, typer.Option("--to", formats=TIMES, help="End in UTC; default: the job's end.")] = None,
    enough: Annotated[float, typer.Option(min=0, max=1, help="Required share of observed time.")] = MIN_COVERAGE,
    as_json: AsJson = False,
) -> None:
    """Report whether the network was clean for a job, from ClickHouse.

    Exit 0 if it was and enough of it was observed to conclude that; else 1.
    """
    import orjson

    from streams.report.job.render_verdict import verdict_lines
    from streams.report.job.verdict import job_verdict
    from streams.store.clickhouse import ClickHouse
    from streams.wire.access import READER
    from streams.wire.errors import Misconfigured

    begin, end = 0 if since is None else ns_of(since), time.time_ns() if until is None else ns_of(until)
    if end <= begin:
        raise Misconfigured("--to must be later than --from")
    settings = settings_of(config, None, READER)
    clickhouse = ClickHouse(settings.store)
    try:
        verdict = job_verdict(clickhouse, settings.detect.stale, identity, (begin, end), enough)
    finally:
        clickhouse.close()
    if verdict is None:
        typer.echo(f"railsight job: ClickHouse has no job {identity} in that time", err=True)
        raise typer.Exit(1)
    if as_json:
        echo(orjson.dumps(verdict.as_dict()))
    else:
        for line in verdict_lines(verdict):
            echo(line)
    if not (verdict.is_clean and verdict.is_covered):
        raise typer.Exit(1)
