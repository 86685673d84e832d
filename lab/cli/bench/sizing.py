"""`railsight bench sizing`: computes the capacity that many fabrics need from the cost of one run."""

from pathlib import Path
from typing import Annotated

import typer

from streams.cli.options import AsJson


def sizing(
    report: Annotated[Path, typer.Argument(help="Output of `railsight bench pipeline --json`.", exists=True)],
    fabrics: Annotated[str, typer.Option(help="Numbers of such fabrics, separated by commas.")] = "1,10,100,1000",
    used: Annotated[float, typer.Option(min=0.1, max=1.0, help="Share of a core that may be used.")] = 0.6,
    as_json: AsJson = False,
) -> None:
    """Compute the brokers, partitions, workers and ClickHouse cores of many such fabrics from one run's cost.

    Example: `railsight bench sizing report.json --fabrics 1,10`.
    """
    import orjson

    from lab.bench.sizing import Terms, capacity_needs, table_lines
    from streams.wire.topics import SAMPLES

    measured = orjson.loads(report.read_bytes())
    needs = [capacity_needs(measured, int(count), Terms(used=used), SAMPLES) for count in fabrics.split(",")]
    if as_json:
        typer.echo(orjson.dumps(needs))
    else:
        for line in table_lines(needs):
            typer.echo(line)
