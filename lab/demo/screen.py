"""Adds to the terminal program what only a demo has: its status, faults, pipeline and remediations."""

from collections.abc import Callable, Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lab.demo.fault_list import fault_list
from lab.demo.remediation_lines import answer_lines, headline, outcome, shown
from streams.replay.score import Truth
from streams.report.top.state import TopState
from streams.runtime.supervise import PartState
from streams.wire.models import RemediationState as State

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
    """Return the remediations: what waits for a person first, with the command that answers it."""
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
