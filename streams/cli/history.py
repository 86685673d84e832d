"""Defines `railsight job` and `railsight lemons`: reports on jobs, links, hosts and parts from ClickHouse."""

import asyncio
import time
from contextlib import closing
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.options import TIMES, AsJson, Bootstrap, Config, ns_of, settings_of
from streams.cli.printing import Output, OutputForm, echo, fail, form_of, print_lines, print_rows, print_text
from streams.report.job import MIN_COVERAGE
from streams.wire.topics import OPERATOR

if TYPE_CHECKING:
    from streams.config.settings import Settings


Moment = datetime | None


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
    from streams.wire.errors import Misconfigured
    from streams.wire.topics import READER

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

    with closing(ClickHouse(settings.store)) as clickhouse:
        found = of_tenant(summaries(query_stays(clickhouse, *interval)), tenant)
    empty = "no job is known in that time"
    print_rows(form, found, orjson.dumps, COLUMNS, cells, empty)


def _print_verdict(
    settings: "Settings", identity: str, interval: tuple[int, int], enough: float, tenant: str | None, as_json: bool
) -> None:
    import orjson

    from streams.report.job.render_verdict import verdict_lines
    from streams.report.job.verdict import job_verdict
    from streams.store.clickhouse import ClickHouse

    with closing(ClickHouse(settings.store)) as clickhouse:
        verdict = job_verdict(clickhouse, settings.detect.stale, identity, interval, enough)
    is_foreign = tenant is not None and verdict is not None and not verdict.is_of_tenant(tenant)
    if verdict is None or is_foreign:
        of_tenant = f" of tenant {tenant}" if tenant is not None else ""
        fail("job", f"ClickHouse has no job {identity}{of_tenant} in that time")
    if as_json:
        echo(orjson.dumps(verdict.as_dict()))
    else:
        print_lines(verdict_lines(verdict))
    if not (verdict.is_clean and verdict.is_covered):
        raise typer.Exit(1)


_DAY_NS = 86_400_000_000_000


class Kind(StrEnum):
    """The kinds of subjects."""

    LINK = "link"
    HOST = "host"
    PART = "part"
    FIRMWARE = "firmware"


def lemons(
    config: Config = None,
    bootstrap: Bootstrap = None,
    kind: Annotated[Kind | None, typer.Option(help="Only subjects of this kind.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Number of subjects.")] = 20,
    days: Annotated[float, typer.Option(min=0.01, max=400, help="Days of faults that count.")] = 28,
    publish: Annotated[bool, typer.Option("--publish", help="Publish all scores on railsight.lemons.v1.")] = False,
    output: OutputForm = Output.TABLE,
    as_json: AsJson = False,
) -> None:
    """List the highest scores, from ClickHouse; a lemon has its whole interval above the rest of its kind.

    Examples: `railsight lemons --kind link --days 90`, `railsight lemons -o json`.
    """
    from streams.report.lemons.history import LEMON_COLUMNS, count_line, lemon_cells, publish_lemons, query_lemons
    from streams.store.clickhouse import ClickHouse
    from streams.wire import codec

    settings = settings_of(config, bootstrap, OPERATOR)
    now_ns = time.time_ns()
    with closing(ClickHouse(settings.store)) as clickhouse:
        found = query_lemons(clickhouse, now_ns - round(days * _DAY_NS), now_ns)
    if publish:
        asyncio.run(publish_lemons(settings.kafka, found))
    shown = [lemon for lemon in found if kind is None or lemon.kind.name == kind.name][:limit]
    form = form_of(output, as_json)
    is_cut = form is Output.TABLE
    print_rows(form, shown, codec.to_json, LEMON_COLUMNS, lambda lemon: lemon_cells(lemon, is_cut=is_cut))
    if form is not Output.JSON:
        print_text(count_line(shown, days))
