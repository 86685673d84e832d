"""Adds the demo's own tabs to the terminal program: its status, faults, pipeline and remediations."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lab.demo.acting import answer_lines, headline, outcome, shown
from lab.world.faults import FAULT_OF
from streams.detect.evidence.subjects import subject_ends
from streams.replay.score import Truth
from streams.report.top.state import SEVERITY_COLORS, TopState
from streams.runtime.supervise import PartState
from streams.wire.models import Finding, Severity, Status
from streams.wire.models import RemediationState as State

FOUND, WAITING, PLANNED = "found", "waiting", "planned"
_COLORS = {FOUND: "green", WAITING: "yellow", PLANNED: ""}
_LEGEND = "found: by a finding   waiting: begun, no finding yet   planned: begins later"
_ID_CHARACTERS = 12
_PLACE = 22
"""The width of a place, so that a row has 78 characters: a scroll bar takes two of 80."""


def fault_list(truths: Sequence[Truth], findings: Iterable[Finding], at_ns: int) -> RenderableType:
    """Return the legend, a row for each fault of this demo, and the conditions without a fault in it."""
    known = [one for one in findings if one.status is not Status.RETRACTED]
    head = f"{'STATE':<8} {'CONDITION':<22} {'PLACE':<{_PLACE}} {'SEVERITY':<9} FINDING"
    lines = [Text(_LEGEND, "dim"), Text(head, "bold"), *_rows(truths, known, at_ns)]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    absent = [slug for slug in FAULT_OF if slug not in {truth.condition.slug for truth in truths}]
    others = f"The simulation can also inject: {', '.join(absent)}" if absent else ""
    return Group(*lines, Text(""), Text(others, "dim"))


def _rows(truths: Sequence[Truth], findings: Sequence[Finding], at_ns: int) -> Iterator[Text]:
    for slug in FAULT_OF:
        injected = sorted((one for one in truths if one.condition.slug == slug), key=lambda one: one.start_ns)
        for truth in injected:
            finding = next((one for one in findings if _is_of(one, truth)), None)
            state = FOUND if finding else WAITING if at_ns >= truth.start_ns else PLANNED
            yield _row(state, slug, "/".join(filter(None, (truth.device, truth.port))), finding)


def _row(state: str, slug: str, place: str, finding: Finding | None) -> Text:
    place = place if len(place) <= _PLACE else f"{place[: _PLACE - 1]}…"
    severity = finding.severity if finding else Severity.SEVERITY_UNSPECIFIED
    return Text.assemble(
        (f"{state:<8} ", _COLORS[state]),
        f"{slug:<22} {place:<{_PLACE}} ",
        (f"{severity.name if finding else '-':<9} ", SEVERITY_COLORS.get(severity, "dim")),
        (finding.id[:_ID_CHARACTERS] if finding else "-", ""),
    )


def _is_of(finding: Finding, truth: Truth) -> bool:
    """Return True if a finding has the condition and the place of a fault, and started during the fault."""
    if finding.condition is not truth.condition:
        return False
    if not truth.is_during(finding.started_at_ns):
        return False
    if any(end.device == truth.device and truth.port in ("", end.port) for end in subject_ends(finding.subject)):
        return True
    return finding.subject.id == f"device:{truth.device}"


_STATE_COLORS = {
    State.WAITING: "yellow", State.ESCALATED: "bold red", State.DENIED: "red", State.CLOSED: "dim",
}  # fmt: skip


def tabs(
    state: TopState,
    parts: Callable[[], Iterable[PartState]],
    clock: Callable[[], tuple[float, int]],
    bootstrap: Callable[[], str],
    truths: Callable[[], Sequence[Truth]],
    *,
    acts: bool,
) -> dict[str, Callable[[], RenderableType]]:
    """Return the tabs of the demo by title; `clock` returns monotonic seconds and Unix ns."""
    found: dict[str, Callable[[], RenderableType]] = {
        "Faults": lambda: fault_list(truths(), state.findings.values(), clock()[1]),
        "Pipeline": lambda: pipeline(state, parts(), *clock()),
    }
    if acts:
        found["Remediations"] = lambda: remediations(state, bootstrap())
    return found


def remediations(state: TopState, bootstrap: str) -> RenderableType:
    """Return the remediations: those that wait for an approval first, with the command that answers them."""
    lines: list[Text] = []
    for remediation in shown(state.remediations.values()):
        lines.append(Text(headline(remediation), "bold", no_wrap=True, overflow="ellipsis"))
        lines.append(Text(f"  {outcome(remediation)}", _STATE_COLORS.get(remediation.state, ""), no_wrap=True,
                          overflow="ellipsis"))  # fmt: skip
        lines += [Text(f"  {line}", "yellow") for line in answer_lines(remediation, bootstrap)]
    return Group(*lines) if lines else Text("nothing decided yet", style="dim")


def pipeline(state: TopState, parts: Iterable[PartState], now_s: float, at_ns: int) -> RenderableType:
    """Return the stages with their rates and delays, the rows in ClickHouse, and the processes."""
    table = Table(box=None, pad_edge=False, expand=True)
    for name in ("stage", "records/s", "lag", "behind"):
        table.add_column(name, justify="left" if name == "stage" else "right")
    for stage, view in state.stages.items():
        behind = view.watermark_ns
        table.add_row(
            stage,
            f"{view.rate(now_s):.0f}",
            str(view.lag),
            "-" if behind is None else f"{max(0.0, (at_ns - behind) / 1e9):.1f} s",
        )
    rows = "  ".join(f"{name} {count}" for name, count in state.rows.items()) or "no rows yet"
    return Group(table, Text(f"ClickHouse: {rows}", style="dim"), _parts(parts))


def _parts(parts: Iterable[PartState]) -> Text:
    text = Text("parts: ", style="dim")
    for part in parts:
        times = f"×{part.restarts + 1}" if part.restarts else ""
        state = "" if part.running else " (ended)"
        text.append(f"{part.name}{times}{state} ", "green" if part.running else "bold red")
    return text
