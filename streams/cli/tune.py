"""`railsight tune`: settings of a detector for a wanted number of findings a week, from history or recordings."""

import json
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.options import TIMES, AsJson, Config, ns_of, settings_of
from streams.cli.printing import print_text

Files = Annotated[list[Path] | None, typer.Option(help="CSV or Parquet, gzip allowed; repeatable.")]


def tune(
    detector: Annotated[str, typer.Argument(help="The detector, as link/degrading.")],
    per_week: Annotated[float, typer.Option(min=0, help="The wanted number of findings a week.")],
    inventory: Annotated[Path, typer.Option(help="The inventory folder of that time.")],
    source: Annotated[
        str, typer.Option("--from", help="`history` for the last days in ClickHouse, or the time it begins (UTC).")
    ] = "",
    until: Annotated[
        datetime | None, typer.Option("--to", formats=TIMES, help="The end in ClickHouse, UTC. Default: now.")
    ] = None,
    days: Annotated[float, typer.Option(min=0.01, help="The days of `--from history`.")] = 7,
    samples: Files = None,
    events: Files = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Propose settings for so many findings a week, and show which findings would appear and disappear.

    Runs the backtest over the history with the present settings and with more and less sensitive ones; changes nothing.

    Example: `railsight tune link/degrading --per-week 5 --inventory fabric --from history`.
    """
    from streams.instrument.memory import retain_malloc_pages
    from streams.replay.backtest import Recording, history_of, recording_of
    from streams.replay.tuning import tune as tuned
    from streams.report.render_tuning import tuning_lines
    from streams.runtime.wall_clock import WallClock
    from streams.wire.errors import Misconfigured

    if bool(source) == bool(samples):
        raise Misconfigured("tune needs either --from, or --samples")
    retain_malloc_pages()
    settings = settings_of(config)
    if samples:
        opened = recording_of(Recording(tuple(samples), tuple(events or ()), None, None, None, inventory))
    else:
        end_ns = WallClock().now_ns() if until is None else ns_of(until)
        begin_ns = end_ns - round(days * 86_400e9) if source == "history" else ns_of(_time(source))
        opened = history_of(begin_ns, end_ns, inventory, settings)
    with opened as (messages, topology):
        result = tuned(detector, per_week, messages, topology, settings)
    if as_json:
        typer.echo(json.dumps(result.as_dict()))
    else:
        for line in tuning_lines(result):
            print_text(line)


def _time(text: str) -> datetime:
    from streams.wire.errors import Misconfigured

    for pattern in TIMES:
        try:
            return datetime.strptime(text, pattern)  # noqa: DTZ007 — without a zone it is UTC, see ns_of
        except ValueError:
            continue
    raise Misconfigured(f"--from {text}: neither `history` nor a time such as 2026-03-01T00:00:00")
