"""`railsight backtest`: runs the stages over recordings or stored history, in memory."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.options import TIMES, ns_of, settings_of
from streams.cli.printing import print_text
from streams.cli.progress import Bar, progress
from streams.config.settings import Settings
from streams.decide.policy import load_policy

if TYPE_CHECKING:
    from streams.replay.backtest import Summary

Files = Annotated[list[Path] | None, typer.Option(help="CSV or Parquet, gzip allowed; repeatable.")]


def backtest(
    samples: Files = None,
    inventory: Annotated[Path | None, typer.Option(help="The inventory folder of that time.")] = None,
    out: Annotated[Path | None, typer.Option(help="Output file of every revision, as JSON lines.")] = None,
    events: Files = None,
    facts: Annotated[Path | None, typer.Option(help="JSON lines of Facts.")] = None,
    status: Annotated[Path | None, typer.Option(help="JSON lines of CollectorStatus.")] = None,
    controls: Annotated[Path | None, typer.Option(help="JSON lines of Control.")] = None,
    since: Annotated[
        datetime | None,
        typer.Option("--from", formats=TIMES, help="Read ClickHouse from this time."),
    ] = None,
    until: Annotated[
        datetime | None, typer.Option("--to", formats=TIMES, help="Read ClickHouse to this time, UTC.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Thresholds and policy; default: the defaults.")] = None,
    policy: Annotated[Path | None, typer.Option(help="A policy whose decisions are counted.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="Another configuration to compare with; with --policy, another policy.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Run the stages over recordings, or over the history in ClickHouse, and write every revision of their findings.

    With --against, runs both configurations over the same messages and prints the findings that appear with --config,
    those that disappear, and those that change; the output file has the findings of --config. With --policy, an
    automation in memory carries out what is approved, and --against is another policy: prints the decisions of each,
    and the lowest capacity that each leaves.

    Example: `railsight backtest --samples samples.csv.gz --inventory fabric --out findings.jsonl`.
    """
    from streams.instrument.memory import retain_malloc_pages
    from streams.replay.backtest import Recording, run, run_history
    from streams.wire.errors import Misconfigured

    if inventory is None or out is None:
        raise Misconfigured("backtest needs --inventory and --out")
    retain_malloc_pages()
    if policy is None:
        settings, other = settings_of(config), None if against is None else settings_of(against)
    else:
        settings, other = with_policy(config, policy), None if against is None else with_policy(config, against)
    if samples and since is None and until is None:
        recording = Recording(tuple(samples), tuple(events or ()), facts, status, controls, inventory)
        with progress("backtest") as bar:
            summary = run(recording, settings, out, other, policies=policy is not None, on_messages=_counter(bar))
    elif since is not None and until is not None and not (samples or events or facts or status or controls):
        interval = ns_of(since), ns_of(until)
        with progress("backtest") as bar:
            summary = run_history(
                *interval, inventory, settings, out, other, policies=policy is not None, on_messages=_counter(bar)
            )
    else:
        raise Misconfigured("backtest needs either --samples, or --from and --to without files")
    _print_summary(summary, out, as_json)


def _print_summary(summary: "Summary", out: Path, as_json: bool) -> None:
    from streams.report import render_differences, render_policies

    for line in (*summary.rejected, *summary.warnings):
        print_text(f"railsight: {line}", err=True)
    if as_json:
        typer.echo(json.dumps(summary.as_dict()))
    else:
        print_text(f"{summary.messages} messages, {summary.findings} findings, {summary.revisions} revisions: {out}")
        if summary.differences is not None:
            for line in render_differences.difference_lines(summary.differences):
                print_text(line)
        if summary.policies is not None:
            for line in render_policies.policy_lines(summary.policies):
                print_text(line)


def _counter(bar: Bar) -> Callable[[int], None]:
    return lambda count: bar.step(f"{count} messages")


def with_policy(config: Path | None, policy: Path) -> Settings:
    """Return the settings with another policy, in the mode `act`: nothing is published."""
    load_policy(policy)
    settings = settings_of(config)
    decide = settings.decide.model_copy(update={"policy": policy, "mode": "act"})
    return settings.model_copy(update={"decide": decide})
