"""`railsight findings` and `railsight explain ID`: the open findings as a table, and one with its evidence."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import closing
from enum import StrEnum
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
from streams.instrument.text import format_duration, format_time
from streams.report.explanation import NoSuchFinding, explain_finding
from streams.report.open_findings import FindingFilter, acknowledgements
from streams.report.records import current_controls, follow_findings, open_findings
from streams.report.render import finding_line
from streams.store.clickhouse import ClickHouse
from streams.wire import codec
from streams.wire.models import Control, Finding, Severity
from streams.wire.topics import READER

ID_CHARACTERS = 12
"""Enough to be unique; `explain` and `ack` accept a prefix."""


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
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Select, explain, acknowledge and search on a terminal.")
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Continue with each revision as it arrives.")] = False,
    output: OutputForm = Output.TABLE,
    as_json: AsJson = False,
) -> None:
    """Print the open findings, newest first.

    Examples: `railsight findings --severity critical --unacked`, `railsight findings --device 'pod1-*' -o wide`,
    `railsight findings -o json | jq .summary`.
    """
    if interactive:
        from streams.cli.top import run_top

        run_top(config, bootstrap, "findings-tab")
        return
    kafka, form = settings_of(config, bootstrap, READER).kafka, form_of(output, as_json)
    least = Severity.SEVERITY_UNSPECIFIED if severity is None else Severity[severity.name]
    wanted = FindingFilter(least, condition, device, job, roots, unacked)
    now_ns = time.time_ns()
    acked = acknowledgements(asyncio.run(current_controls(kafka)), now_ns)
    found = asyncio.run(open_findings(kafka))
    _print_open([one for one in found if wanted.selects(one, one.id in acked)], len(found), acked, now_ns, form)
    if follow:
        asyncio.run(follow_findings(kafka, lambda value, one: _print_revision(value, one, wanted, form)))


def _print_revision(value: bytes, finding: Finding, wanted: FindingFilter, form: Output) -> None:
    if wanted.selects(finding):
        echo(value) if form is Output.JSON else print_text(finding_line(finding))


def _print_open(shown: list[Finding], total: int, acked: Mapping[str, Control], now_ns: int, form: Output) -> None:
    header = ["ID", "SEVERITY", "AGE", "CONDITION", "ACK"]
    header += ["STARTED", "SUBJECT", "PARENT", "SUMMARY"] if form is Output.WIDE else ["SUMMARY"]

    def cells(finding: Finding) -> list[Cell | str]:
        return _cells(finding, acked.get(finding.id), now_ns, form)

    if not total and form is not Output.JSON:
        typer.echo("nothing is open")
        return
    print_rows(form, shown, codec.to_json, header, cells)
    if form is Output.JSON:
        return
    if len(shown) < total:
        print_text(f"{total - len(shown)} more are open that these options do not select", err=True)


def _cells(finding: Finding, ack: Control | None, now_ns: int, form: Output) -> list[Cell | str]:
    summary = finding.summary or finding.subject.id
    cells: list[Cell | str] = [
        finding.id[:ID_CHARACTERS],
        Cell(finding.severity.name, SEVERITY_COLORS.get(finding.severity)),
        format_duration(now_ns - finding.started_at_ns),
        finding.condition.slug,
        "-" if ack is None else (ack.actor or "yes"),
    ]
    if form is Output.WIDE:
        cells += [format_time(finding.started_at_ns), finding.subject.id, finding.parent_id[:ID_CHARACTERS] or "-"]
        return [*cells, summary]
    return [*cells, f"↳ {summary}" if finding.parent_id else summary]


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
