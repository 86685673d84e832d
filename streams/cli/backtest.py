"""Defines `railsight backtest`, `score` and `tune`, which run the stages in memory over recordings or history."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.options import TIMES, AsJson, Config, ns_of, settings_of
from streams.cli.printing import Bar, echo, print_text, progress
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
        datetime | None, typer.Option("--from", formats=TIMES, help="Read ClickHouse from this time.")
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
    if (samples or events) and since is None and until is None:
        recording = Recording(tuple(samples or ()), tuple(events or ()), facts, status, controls, inventory)
        with progress("backtest") as bar:
            summary = run(recording, settings, out, other, policies=policy is not None, on_messages=_counter(bar))
    elif since is not None and until is not None and not (samples or events or facts or status or controls):
        interval = ns_of(since), ns_of(until)
        with progress("backtest") as bar:
            summary = run_history(
                *interval, inventory, settings, out, other, policies=policy is not None, on_messages=_counter(bar)
            )
    else:
        raise Misconfigured("backtest needs either --samples or --events, or --from and --to without files")
    _print_summary(summary, out, as_json)


def _print_summary(summary: "Summary", out: Path, as_json: bool) -> None:
    from streams.report import render_backtest

    for line in (*summary.rejected, *summary.warnings):
        print_text(f"railsight: {line}", err=True)
    if as_json:
        echo(json.dumps(summary.as_dict()))
    else:
        print_text(f"{summary.messages} messages, {summary.findings} findings, {summary.revisions} revisions: {out}")
        if summary.differences is not None:
            for line in render_backtest.difference_lines(summary.differences):
                print_text(line)
        if summary.policies is not None:
            for line in render_backtest.policy_lines(summary.policies):
                print_text(line)


def _counter(bar: Bar) -> Callable[[int], None]:
    return lambda count: bar.step(f"{count} messages")


def with_policy(config: Path | None, policy: Path) -> Settings:
    """Return the settings with another policy in the mode `act`, because nothing is published."""
    load_policy(policy)
    settings = settings_of(config)
    decide = settings.decide.model_copy(update={"policy": policy, "mode": "act"})
    return settings.model_copy(update={"decide": decide})


def score(
    findings: Annotated[Path, typer.Option(help="Output of `backtest` or `demo --out`.")],
    truth: Annotated[Path, typer.Option(help="Ground truth, as CSV.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Print precision, recall and time to detect per condition; exit 1 unless both are 1 and nothing is repeated.

    Example: `railsight score --findings findings.jsonl --truth truth.csv`.
    """
    from streams.replay.score import as_dict, as_table, read_findings, read_truth
    from streams.replay.score import score as compare

    outcome = compare(read_findings(findings), read_truth(truth))
    if as_json:
        echo(json.dumps(as_dict(outcome)))
    else:
        print_text(as_table(outcome))
    if not outcome.perfect:
        raise typer.Exit(1)


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
    from streams.report.render_backtest import tuning_lines
    from streams.runtime.foreground import WallClock
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
        echo(json.dumps(result.as_dict()))
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
