"""`railsight job [ID]`: lists jobs, or reports whether the network was clean for one, and how much was observed."""

import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.options import TIMES, AsJson, Config, ns_of, settings_of
from streams.cli.printing import echo, print_text
from streams.cli.tables import Output, OutputForm, form_of, print_table

if TYPE_CHECKING:
    from streams.config.settings import Settings

Moment = datetime | None

MIN_COVERAGE = 0.95
"""Share of the time of all ports. A collector restart of a minute per hour stays within it; a rail of eight that no
source reads does not."""


def job(
    identity: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The job: its id in Slurm, namespace/name in Kubernetes.")
    ] = None,
    config: Config = None,
    since: Annotated[Moment, typer.Option("--from", formats=TIMES, help="Start; default: the job's start.")] = None,
    until: Annotated[Moment, typer.Option("--to", formats=TIMES, help="End in UTC; default: the job's end.")] = None,
    enough: Annotated[float, typer.Option(min=0, max=1, help="Required share of observed time.")] = MIN_COVERAGE,
    tenant: Annotated[str | None, typer.Option(help="Only jobs of this tenant; default: of all.")] = None,
    output: OutputForm = Output.TABLE,
    as_json: AsJson = False,
) -> None:
    """Report whether the network was clean for a job, from ClickHouse; without ID, list the jobs that run.

    Exit 0 if it was and enough of it was observed to conclude that; else 1.

    Examples: `railsight job`, `railsight job 4711`, `railsight job 4711 -o json`.
    """
    from streams.wire.access import READER
    from streams.wire.errors import Misconfigured

    begin, end = 0 if since is None else ns_of(since), time.time_ns() if until is None else ns_of(until)
    if end <= begin:
        raise Misconfigured("--to must be later than --from")
    settings, form = settings_of(config, None, READER), form_of(output, as_json)
    if identity is None:
        _print_jobs(settings, (begin if since is not None else end - 1, end), tenant, form)
    else:
        _print_verdict(settings, identity, (begin, end), enough, tenant, form is Output.JSON)


def _print_jobs(settings: "Settings", interval: tuple[int, int], tenant: str | None, form: Output) -> None:
    import orjson

    from streams.report.job.summary import COLUMNS, cells, of_tenant, summaries
    from streams.store.clickhouse import ClickHouse
    from streams.store.queries.jobs import query_stays

    clickhouse = ClickHouse(settings.store)
    try:
        found = of_tenant(summaries(query_stays(clickhouse, *interval)), tenant)
    finally:
        clickhouse.close()
    if form is Output.JSON:
        for each in found:
            echo(orjson.dumps(each.as_dict()))
    elif found:
        print_table(COLUMNS, map(cells, found), form)
    else:
        typer.echo("no job is known in that time")


def _print_verdict(
    settings: "Settings", identity: str, interval: tuple[int, int], enough: float, tenant: str | None, as_json: bool
) -> None:
    import orjson

    from streams.report.job.render_verdict import verdict_lines
    from streams.report.job.verdict import job_verdict
    from streams.store.clickhouse import ClickHouse

    clickhouse = ClickHouse(settings.store)
    try:
        verdict = job_verdict(clickhouse, settings.detect.stale, identity, interval, enough)
    finally:
        clickhouse.close()
    is_foreign = tenant is not None and verdict is not None and not verdict.is_of_tenant(tenant)
    if verdict is None or is_foreign:
        of_tenant = f" of tenant {tenant}" if tenant is not None else ""
        print_text(f"railsight job: ClickHouse has no job {identity}{of_tenant} in that time", err=True)
        raise typer.Exit(1)
    if as_json:
        echo(orjson.dumps(verdict.as_dict()))
    else:
        for line in verdict_lines(verdict):
            print_text(line)
    if not (verdict.is_clean and verdict.is_covered):
        raise typer.Exit(1)
