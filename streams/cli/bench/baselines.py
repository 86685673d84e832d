"""`railsight bench baselines`: compares railsight with other frameworks and clients on the same data in one run."""

import logging
from typing import Annotated

import orjson
import typer

from streams.cli.options import AsJson
from streams.cli.progress import progress


def baselines(
    messages: Annotated[int, typer.Option(min=1000, help="Messages in Kafka: 36.6 port-samples each.")] = 40_000,
    only: Annotated[
        list[str] | None, typer.Option(help="Only baselines whose program name contains this; repeatable.")
    ] = None,
    install: Annotated[
        bool, typer.Option(help="Install the environment of Quix Streams and Bytewax in the cache folder.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Compare with stock Faust, aiokafka, Quix Streams, Bytewax and gnmic's rows; each as a ratio.

    Example: `railsight bench baselines --messages 10000 --no-install`.
    """
    from streams.bench.baselines.session import compare_baselines
    from streams.bench.baselines.table import render_table

    # A broker that has just started reports no leader for a second; the client retries, and logs each attempt.
    logging.getLogger("aiokafka").setLevel(logging.ERROR)
    with progress("bench baselines") as bar:
        table = compare_baselines(messages, only or (), install=install, report_progress=bar.step)
    for line in [orjson.dumps(line.to_json()).decode() for line in table] if as_json else render_table(table):
        typer.echo(line)
    if any(line.is_wrong for line in table):
        raise typer.Exit(1)
