"""Draws the demo on a terminal: the fabric, the pipeline, and the findings as they open, update and resolve."""

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from streams.demo.remediation_lines import answer_lines, headline, outcome, shown
from streams.demo.state import SEVERITY_COLOURS, DemoState
from streams.fabric.inventory import Device
from streams.fabric.topology import Topology
from streams.instrument.time_format import format_time
from streams.runtime.supervise import PartState
from streams.wire.models import Finding, Severity, Status
from streams.wire.models import RemediationState as State

_TIERS = ("T2", "T1", "T0", "host")
_TIER_NAMES = {"T2": "cores", "T1": "spines", "T0": "leaves", "host": "hosts"}
_STATUS_COLOURS = {Status.OPEN: "bold red", Status.UPDATED: "yellow", Status.RESOLVED: "green"}
_HEALTHY = "green"
_STATE_COLOURS = {
    State.WAITING: "yellow", State.ESCALATED: "bold red", State.DENIED: "red", State.CLOSED: "dim",
}  # fmt: skip


def screen(
    state: DemoState,
    parts: Iterable[PartState],
    now_s: float,
    at_ns: int,
    status: str,
    acted: RenderableType | None = None,
) -> RenderableType:
    """Return the whole screen at one moment; `status` is the line at its top, `acted` the panel of remediations."""
    layout = Layout()
    rows = [
        Layout(Panel(Text(status, no_wrap=True, overflow="ellipsis"), title="railsight demo"), size=3),
        Layout(name="middle", ratio=3),
        Layout(Panel(_changes(state), title="findings"), ratio=4 if acted is None else 2),
    ]
    layout.split_column(*rows, *([] if acted is None else [Layout(acted, ratio=6)]))
    layout["middle"].split_row(
        Layout(Panel(_fabric(state), title="fabric"), ratio=3),
        Layout(Panel(_pipeline(state, parts, now_s, at_ns), title="pipeline"), ratio=2),
    )
    return layout


def acted_panel(state: DemoState, bootstrap: str) -> RenderableType:
    """Return the panel of remediations: what waits for a person first, with the command that answers it."""
    lines: list[Text] = []
    for remediation in shown(state.remediations.values()):
        lines.append(Text(headline(remediation), "bold", no_wrap=True, overflow="ellipsis"))
        lines.append(Text(f"  {outcome(remediation)}", _STATE_COLOURS.get(remediation.state, ""), no_wrap=True,
                          overflow="ellipsis"))  # fmt: skip
        lines += [Text(f"  {line}", "yellow") for line in answer_lines(remediation, bootstrap)]
    return Panel(Group(*lines) if lines else Text("nothing decided yet", style="dim"), title="remediations")


def _fabric(state: DemoState) -> RenderableType:
    if state.topology is None:
        return Text("no inventory yet", style="dim")
    worst = state.worst_by_device()
    return Group(
        *(
            Text.assemble((f"{pod or 'fabric':<10}", "bold"), *_row(devices, worst))
            for pod, devices in _by_pod(state.topology)
        )
    )


def _by_pod(topology: Topology) -> list[tuple[str, list[Device]]]:
    pods: dict[str, list[Device]] = {}
    for device in topology.devices.values():
        pods.setdefault(device.pod, []).append(device)
    return sorted(pods.items())


def _row(devices: list[Device], worst: dict[str, Finding]) -> list[tuple[str, str]]:
    tiers = [*_TIERS, *sorted({d.tier for d in devices} - set(_TIERS))]
    pieces: list[tuple[str, str]] = []
    for tier in tiers:
        names = sorted(device.name for device in devices if device.tier == tier)
        if names:
            pieces.append((f" {_TIER_NAMES.get(tier, tier)} ", "dim"))
            pieces += [("■", _colour(worst.get(name))) for name in names]
    return pieces


def _colour(finding: Finding | None) -> str:
    return _HEALTHY if finding is None else SEVERITY_COLOURS.get(finding.severity, _HEALTHY)


def _pipeline(state: DemoState, parts: Iterable[PartState], now_s: float, at_ns: int) -> RenderableType:
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
        text.append(f"{part.name}{times} ", "green" if part.running else "bold red")
    return text


def _changes(state: DemoState) -> RenderableType:
    table = Table(box=None, pad_edge=False, expand=True)
    for name, width in (("at", 8), ("", 9), ("condition", 22), ("what", None)):
        table.add_column(name, width=width, ratio=None if width else 1, no_wrap=True, overflow="ellipsis")
    for finding in reversed(state.changes):
        severity = SEVERITY_COLOURS.get(Severity(finding.severity), "")
        table.add_row(
            format_time(finding.observed_at_ns)[11:19],
            Text(finding.status.name.lower(), _STATUS_COLOURS.get(finding.status, "dim")),
            Text(finding.condition.slug, severity),
            Text(("↳ " if finding.parent_id else "") + (finding.summary or finding.subject.id)),
            style="dim" if finding.parent_id else "",
        )
    if not state.changes:
        return Text("nothing found yet", style="dim")
    return table
