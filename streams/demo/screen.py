"""The demo on a terminal: the fabric, the pipeline, and the findings as they open, update and resolve."""

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from streams.demo.state import SEVERITY_COLOURS, DemoState
from streams.fabric.inventory import Device
from streams.fabric.topology import Topology
from streams.instrument.time_format import format_time
from streams.runtime.supervise import PartState
from streams.wire.models import Finding, Severity, Status

_TIERS = ("T2", "T1", "T0", "host")
_TIER_NAMES = {"T2": "cores", "T1": "spines", "T0": "leaves", "host": "hosts"}
_STATUS_COLOURS = {Status.OPEN: "bold red", Status.UPDATED: "yellow", Status.RESOLVED: "green"}
_HEALTHY = "green"


def screen(board: DemoState, parts: Iterable[PartState], now_s: float, at_ns: int, where: str) -> RenderableType:
    """The whole screen at one moment; `where` says how far the demo is."""
    layout = Layout()
    layout.split_column(
        Layout(Panel(Text(where, no_wrap=True, overflow="ellipsis"), title="railsight demo"), size=3),
        Layout(name="middle", ratio=3),
        Layout(Panel(_changes(board), title="findings"), ratio=4),
    )
    layout["middle"].split_row(
        Layout(Panel(_fabric(board), title="fabric"), ratio=3),
        Layout(Panel(_pipeline(board, parts, now_s, at_ns), title="pipeline"), ratio=2),
    )
    return layout


def _fabric(board: DemoState) -> RenderableType:
    if board.topology is None:
        return Text("no inventory yet", style="dim")
    worst = board.worst_by_device()
    return Group(
        *(
            Text.assemble((f"{pod or 'fabric':<10}", "bold"), *_row(devices, worst))
            for pod, devices in _by_pod(board.topology)
        )
    )


def _by_pod(topology: Topology) -> list[tuple[str, list[Device]]]:
    pods: dict[str, list[Device]] = {}
    for device in topology.devices.values():
        pods.setdefault(device.pod, []).append(device)
    return sorted(pods.items())


def _row(devices: list[Device], worst: dict[str, Finding]) -> list[tuple[str, str]]:
    shown_tiers = [*_TIERS, *sorted({d.tier for d in devices} - set(_TIERS))]
    pieces: list[tuple[str, str]] = []
    for tier in shown_tiers:
        names = sorted(device.name for device in devices if device.tier == tier)
        if names:
            pieces.append((f" {_TIER_NAMES.get(tier, tier)} ", "dim"))
            pieces += [("■", _colour(worst.get(name))) for name in names]
    return pieces


def _colour(finding: Finding | None) -> str:
    return _HEALTHY if finding is None else SEVERITY_COLOURS.get(finding.severity, _HEALTHY)


def _pipeline(board: DemoState, parts: Iterable[PartState], now_s: float, at_ns: int) -> RenderableType:
    table = Table(box=None, pad_edge=False, expand=True)
    for name in ("stage", "records/s", "lag", "behind"):
        table.add_column(name, justify="left" if name == "stage" else "right")
    for stage, view in board.stages.items():
        behind = view.watermark_ns
        table.add_row(
            stage,
            f"{view.rate(now_s):.0f}",
            str(view.lag),
            "-" if behind is None else f"{max(0.0, (at_ns - behind) / 1e9):.1f} s",
        )
    rows = "  ".join(f"{name} {count}" for name, count in board.rows.items()) or "no rows yet"
    return Group(table, Text(f"ClickHouse: {rows}", style="dim"), _parts(parts))


def _parts(parts: Iterable[PartState]) -> Text:
    said = Text("parts: ", style="dim")
    for part in parts:
        times = f"×{part.restarts + 1}" if part.restarts else ""
        said.append(f"{part.name}{times} ", "green" if part.running else "bold red")
    return said


def _changes(board: DemoState) -> RenderableType:
    table = Table(box=None, pad_edge=False, expand=True)
    for name, width in (("at", 8), ("", 9), ("condition", 22), ("what", None)):
        table.add_column(name, width=width, ratio=None if width else 1, no_wrap=True, overflow="ellipsis")
    for finding in reversed(board.changes):
        severity = SEVERITY_COLOURS.get(Severity(finding.severity), "")
        table.add_row(
            format_time(finding.observed_at_ns)[11:19],
            Text(finding.status.name.lower(), _STATUS_COLOURS.get(finding.status, "dim")),
            Text(finding.condition.slug, severity),
            ("↳ " if finding.parent_id else "") + (finding.summary or finding.subject.id),
            style="dim" if finding.parent_id else "",
        )
    if not board.changes:
        return Text("nothing found yet", style="dim")
    return table
