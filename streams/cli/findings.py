"""Defines `railsight findings`, `explain`, `remediations` and `top`: open findings, as tables and on a terminal."""

import asyncio
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import orjson
import typer

from streams.cli.options import AsJson, Bootstrap, Config, settings_of
from streams.cli.printing import (
    SEVERITY_COLORS,
    Cell,
    Output,
    OutputForm,
    echo,
    fail,
    form_of,
    print_lines,
    print_rows,
    print_text,
)
from streams.config.settings import Settings
from streams.instrument.text import format_duration, format_time, in_past, parse_duration
from streams.report.explanation import NoSuchFinding, explain_finding
from streams.report.open_findings import FindingFilter, acknowledgements, is_planned
from streams.report.records import (
    NoSuchRemediation,
    current_controls,
    findings_since,
    follow_findings,
    follow_remediations,
    open_findings,
    open_remediations,
    remediation_revisions,
)
from streams.report.render import decision_reason, explanation, finding_line, remediation_line, state_name
from streams.report.source_status import read_statuses
from streams.store.clickhouse import ClickHouse
from streams.wire import codec
from streams.wire.errors import Misconfigured
from streams.wire.models import Control, ControlKind, Finding, Remediation, RemediationState, Severity
from streams.wire.topics import READER

ID_CHARACTERS = 12
"""The printed characters of an id, which suffice to be unique; `explain` and `ack` accept a prefix."""


class LeastSeverity(StrEnum):
    """The severities of findings."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


def findings(
    config: Config = None,
    bootstrap: Bootstrap = None,
    severity: Annotated[LeastSeverity | None, typer.Option(help="This severity or a higher one.")] = None,
    condition: Annotated[str, typer.Option(help="Condition, or a glob of it, as 'link/*'.")] = "",
    device: Annotated[str, typer.Option(help="Device at either end or affected host, or a glob.")] = "",
    job: Annotated[str, typer.Option(help="Affected job, or a glob.")] = "",
    roots: Annotated[bool, typer.Option("--roots", help="Only findings that no other one explains.")] = False,
    unacked: Annotated[bool, typer.Option("--unacked", help="Only findings without an acknowledgement.")] = False,
    since: Annotated[
        str, typer.Option(metavar="DURATION", help="Also findings that ended since then, as 90m, 12h or 2d.")
    ] = "",
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Select, explain, acknowledge and search on a terminal.")
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Continue with each revision as it arrives.")] = False,
    output: OutputForm = Output.TABLE,
    as_json: AsJson = False,
) -> None:
    """Print the open findings: causes first, the most severe on top; those of planned work are marked.

    Examples: `railsight findings --severity critical --unacked`, `railsight findings --device 'pod1-*' -o wide`,
    `railsight findings --since 12h`, `railsight findings -o json | jq .summary`.
    """
    if interactive:
        _run_top(config, bootstrap, "findings-tab")
        return
    kafka, form = settings_of(config, bootstrap, READER).kafka, form_of(output, as_json)
    least = Severity.SEVERITY_UNSPECIFIED if severity is None else Severity[severity.name]
    wanted = FindingFilter(least, condition, device, job, roots, unacked)
    now_ns = time.time_ns()
    controls = asyncio.run(current_controls(kafka))
    acked = acknowledgements(controls, now_ns)
    if since:
        found = asyncio.run(findings_since(kafka, now_ns - _duration(since)))
    else:
        found = asyncio.run(open_findings(kafka))
    shown = sorted(found, key=lambda one: (bool(one.parent_id), -one.severity, one.is_closed, -one.started_at_ns))
    planned = {one.id for one in found if is_planned(one, controls, now_ns)}
    marks = {identity: ack.actor or "yes" for identity, ack in acked.items()} | dict.fromkeys(planned, "maintenance")
    selected = [one for one in shown if wanted.selects(one, one.id in acked)]
    _print_open(selected, len(found), marks, now_ns, form, was_open=bool(since))
    if follow:
        asyncio.run(follow_findings(kafka, lambda value, one: _print_revision(value, one, wanted, form)))


def _duration(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--since") from error


def _print_revision(value: bytes, finding: Finding, wanted: FindingFilter, form: Output) -> None:
    if wanted.selects(finding):
        echo(value) if form is Output.JSON else print_text(finding_line(finding))


def _print_open(
    shown: list[Finding], total: int, marks: Mapping[str, str], now_ns: int, form: Output, *, was_open: bool
) -> None:
    header = ["ID", "SEVERITY", "AGE", "CONDITION", "ACK"]
    header += ["STARTED", "SUBJECT", "PARENT", "SUMMARY"] if form is Output.WIDE else ["SUMMARY"]

    def cells(finding: Finding) -> list[Cell | str]:
        return _cells(finding, marks.get(finding.id, "-"), now_ns, form)

    if not total and form is not Output.JSON:
        echo("nothing was open" if was_open else "nothing is open")
        return
    print_rows(form, shown, codec.to_json, header, cells)
    if form is Output.JSON:
        return
    if len(shown) < total:
        verb = "were" if was_open else "are"
        print_text(f"{total - len(shown)} more {verb} open that these options do not select", err=True)


def _cells(finding: Finding, mark: str, now_ns: int, form: Output) -> list[Cell | str]:
    summary = finding.summary or finding.subject.id
    summary = in_past(summary) if finding.resolved_at_ns is not None else summary
    cells: list[Cell | str] = [
        finding.id[:ID_CHARACTERS],
        Cell(finding.severity.name, SEVERITY_COLORS.get(finding.severity)),
        _age(finding, now_ns),
        finding.condition.slug,
        mark,
    ]
    if form is Output.WIDE:
        cells += [format_time(finding.started_at_ns), finding.subject.id, finding.parent_id[:ID_CHARACTERS] or "-"]
        return [*cells, summary]
    return [*cells, f"↳ {summary}" if finding.parent_id else summary]


def _age(finding: Finding, now_ns: int) -> str:
    """Return how long it has lasted, or how long it lasted and when it ended."""
    if finding.resolved_at_ns is None:
        return format_duration(now_ns - finding.started_at_ns)
    lasted = format_duration(finding.resolved_at_ns - finding.started_at_ns)
    return f"{lasted}, over for {format_duration(now_ns - finding.resolved_at_ns)}"


def explain(
    identity: Annotated[str, typer.Argument(metavar="ID", help="Id of a finding, or a prefix of it.")],
    config: Config = None,
    bootstrap: Bootstrap = None,
    samples: Annotated[bool, typer.Option(help="Print the samples behind the evidence, from ClickHouse.")] = True,
    as_json: AsJson = False,
) -> None:
    """Print one finding with its evidence; exit 1 if no finding, or more than one, has this id.

    Examples: `railsight explain 17f22e`, `railsight explain 17f22e --no-samples`.
    """
    settings = settings_of(config, bootstrap, READER)
    with closing(ClickHouse(settings.store)) as clickhouse:
        try:
            explanation = explain_finding(settings.kafka, clickhouse, identity, samples=samples)
        except NoSuchFinding as error:
            fail("explain", error)
    if explanation.no_samples:
        print_text(f"railsight explain: no samples: {explanation.no_samples}", err=True)
    if as_json:
        echo(orjson.dumps(explanation.as_dict()))
    else:
        print_lines(explanation.lines())


_STATE_COLORS = {
    RemediationState.WAITING: typer.colors.YELLOW,
    RemediationState.DENIED: typer.colors.RED,
    RemediationState.ESCALATED: typer.colors.RED,
}

remediations = typer.Typer(invoke_without_command=True, help="List the open remediations, explain or close one.")


@remediations.callback()
def list_open(
    context: typer.Context,
    config: Config = None,
    bootstrap: Bootstrap = None,
    follow: Annotated[bool, typer.Option("--follow", help="Continue with each revision as it arrives.")] = False,
    output: OutputForm = Output.TABLE,
    as_json: AsJson = False,
) -> None:
    """List the open remediations, newest first.

    Examples: `railsight remediations -o wide`, `railsight remediations explain ID`, then `railsight approve ID`.
    """
    if context.invoked_subcommand is not None:
        return
    kafka, form = settings_of(config, bootstrap, READER).kafka, form_of(output, as_json)
    found = asyncio.run(open_remediations(kafka))
    header = ["ID", "STATE", "ACTION", *(["DECIDED", "EXPIRES"] if form is Output.WIDE else []), "TARGET", "REASON"]
    print_rows(form, found, codec.to_json, header, lambda one: _remediation_cells(one, form), "no remediation is open")
    if follow:
        is_json = form is Output.JSON
        asyncio.run(
            follow_remediations(kafka, lambda value, one: echo(value) if is_json else print_text(remediation_line(one)))
        )


def _remediation_cells(one: Remediation, form: Output) -> list[Cell | str]:
    color = _STATE_COLORS.get(one.state)
    times = [format_time(one.decided_at_ns), format_time(one.expires_at_ns)] if form is Output.WIDE else []
    return [one.id[:12], Cell(state_name(one), color), one.action.name, *times, one.target.id, decision_reason(one)]


@remediations.command("explain")
def explain_remediation(
    identity: Annotated[str, typer.Argument(metavar="ID", help="Id of a remediation, or a prefix of it.")],
    config: Config = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Print the guard that binds one remediation, the condition that would satisfy it, and its history.

    Example: `railsight remediations explain 9a41c0`.
    """
    try:
        revisions = asyncio.run(remediation_revisions(settings_of(config, bootstrap, READER).kafka, identity))
    except NoSuchRemediation as error:
        fail("remediations explain", error)
    if as_json:
        for one in revisions:
            echo(codec.to_json(one))
        return
    print_lines(explanation(revisions))


@remediations.command()
def close(
    identity: Annotated[str, typer.Argument(metavar="ID", help="Id of a remediation, or a prefix of it.")],
    because: Annotated[str, typer.Option("--because", help="Reason; required, because nothing is restored.")],
    config: Config = None,
    bootstrap: Bootstrap = None,
    actor: Annotated[str | None, typer.Option("--actor", help="Person or program; default: the login name.")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="File of the private key that signs.")] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait for the answer of `decide`.")] = False,
) -> None:
    """End one remediation in any state; a target that is out of service counts as such until `railsight returned`.

    Example: `railsight remediations close 9a41c0 --because 'the host was scrapped'`.
    """
    from streams.cli.controls import actor_name, answer

    control = Control("", ControlKind.CLOSE, reason=because, actor=actor_name(actor))
    answer("remediations close", identity, control, (config, bootstrap, key, no_wait))


def top(config: Config = None, bootstrap: Bootstrap = None) -> None:
    """Show the fabric, the open findings, links and jobs, and follow them.

    Keys: f, o, l, j select a view; the arrows a row; Enter or e explains it, a acknowledges it; / searches; q quits.

    Example: `railsight top`, on the machine of `railsight up`; `railsight top --config FILE` elsewhere, also over ssh.
    """
    _run_top(config, bootstrap, "fabric-tab")


def _run_top(config: Path | None, bootstrap: str | None, first_tab: str) -> None:
    """Run the program until a person quits; raises Misconfigured without a terminal, Retry without Kafka's answer."""
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise Misconfigured("this needs a terminal; use `railsight findings` and `railsight status` in a pipe")
    asyncio.run(_run_until_quit(settings_of(config, bootstrap, READER), first_tab))


async def _run_until_quit(settings: Settings, first_tab: str) -> None:
    from streams.report.top.app import TopApp, actions, run_until_cancelled
    from streams.report.top.state import TopState, follow_state

    state = TopState()
    # Reads before the screen opens, so that unavailable brokers are reported on one line.
    await read_statuses(settings.kafka)
    following = asyncio.ensure_future(follow_state(settings.kafka, state))
    try:
        await run_until_cancelled(TopApp(state, actions(lambda: settings), first_tab=first_tab))
    finally:
        following.cancel()
        await asyncio.wait([following])
