"""`railsight backtest`: the stages over recordings, in memory."""

import json
from pathlib import Path
from typing import Annotated

import typer

Files = Annotated[list[Path] | None, typer.Option(help="CSV or Parquet, gzip allowed; may be given several times.")]


def backtest(
    samples: Files = None,
    inventory: Annotated[Path | None, typer.Option(help="The inventory folder of the recording.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where every revision goes, as JSON lines.")] = None,
    events: Files = None,
    facts: Annotated[Path | None, typer.Option(help="JSON lines of Facts.")] = None,
    status: Annotated[Path | None, typer.Option(help="JSON lines of CollectorStatus.")] = None,
    controls: Annotated[Path | None, typer.Option(help="JSON lines of Control.")] = None,
    config: Annotated[Path | None, typer.Option(help="Thresholds and policy; the defaults without it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Run the stages over recordings and write every revision of findings and remediations."""
    from streams.cli.options import settings_of
    from streams.replay.backtest import Recording, run
    from streams.wire.errors import Misconfigured

    if not samples or inventory is None or out is None:
        raise Misconfigured("backtest needs --samples, --inventory and --out")
    recording = Recording(tuple(samples), tuple(events or ()), facts, status, controls, inventory)
    summary = run(recording, settings_of(config), out)
    for line in summary.refused:
        typer.echo(f"railsight: {line}", err=True)
    if as_json:
        typer.echo(json.dumps(summary.as_dict()))
    else:
        typer.echo(f"{summary.messages} messages, {summary.findings} findings, {summary.revisions} revisions: {out}")
