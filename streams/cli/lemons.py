"""`railsight lemons`: lists links, hosts, part numbers and firmware with more faults than the rest of their kind."""

import asyncio
import time
from enum import StrEnum
from typing import Annotated

import typer

from streams.cli.options import AsJson, Bootstrap, Config, settings_of
from streams.cli.printing import echo, print_text
from streams.cli.tables import Output, OutputForm, form_of, print_table
from streams.wire.access import OPERATOR

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
    from streams.report.lemons.history import query_lemons
    from streams.report.lemons.publish import publish_lemons
    from streams.report.lemons.render import LEMON_COLUMNS, count_line, lemon_cells
    from streams.store.clickhouse import ClickHouse
    from streams.wire import codec

    settings = settings_of(config, bootstrap, OPERATOR)
    now_ns = time.time_ns()
    clickhouse = ClickHouse(settings.store)
    try:
        found = query_lemons(clickhouse, now_ns - round(days * _DAY_NS), now_ns)
    finally:
        clickhouse.close()
    if publish:
        asyncio.run(publish_lemons(settings.kafka, found))
    shown = [lemon for lemon in found if kind is None or lemon.kind.name == kind.name][:limit]
    form = form_of(output, as_json)
    if form is Output.JSON:
        for lemon in shown:
            echo(codec.to_json(lemon))
        return
    print_table(LEMON_COLUMNS, [lemon_cells(lemon, is_cut=form is Output.TABLE) for lemon in shown], form)
    print_text(count_line(shown, days))
