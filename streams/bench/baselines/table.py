"""Turns what the baselines used into cost per million port-samples, and into ratios to railsight.

Every baseline runs twice, on a small load and on the whole one. The difference is the cost of the port-samples
between them, which excludes the start of the interpreter and the join of a consumer group.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from streams.bench.baselines.comparison import BaselineRun
from streams.bench.baselines.registry import Baseline

MILLION = 1_000_000
_NOTES = (
    "CPU s: user and system of the baseline's process per million port-samples of 24 metrics; start-up subtracted.",
    "railsight's includes a snapshot of everything; server: ClickHouse, with its merges and a final merge of all rows.",
    "All baselines decode with railsight's codec, and all but the object per port compute the step with numpy.",
    "The answers of every line with a ratio were checked: each port that crossed a limit, once, and no other.",
)


@dataclass(frozen=True, slots=True)
class Line:
    """One baseline: CPU seconds and bytes per million port-samples; `ratio` is its CPU divided by railsight's."""

    name: str
    state_location: str
    port_samples: int
    cpu_s: float | None = None
    server_cpu_s: float | None = None
    ratio: float | None = None
    port_samples_per_s: int | None = None
    peak_mib: int | None = None
    bytes_per_port_sample: float | None = None
    bytes_ratio: float | None = None
    remark: str = ""
    is_wrong: bool = False

    @property
    def total_cpu_s(self) -> float:
        """CPU seconds of its own process and of the server."""
        return (self.cpu_s or 0.0) + (self.server_cpu_s or 0.0)

    def to_json(self) -> dict[str, Any]:
        """Return the line as `--json` prints it."""
        return asdict(self)


def table_lines(
    baselines: Sequence[Baseline], small: Sequence[BaselineRun], large: Sequence[BaselineRun], all_rows: int
) -> list[Line]:
    """Return the table in the order of the baselines; ratios are to the first of each kind."""
    table: list[Line] = []
    first: dict[bool, Line] = {}
    for baseline, before, after in zip(baselines, small, large, strict=True):
        line = _line(baseline, before, after, all_rows)
        first.setdefault(baseline.stores, line)
        table.append(_with_ratios(line, first[baseline.stores]))
    return table


def _line(baseline: Baseline, before: BaselineRun, after: BaselineRun, all_rows: int) -> Line:
    if missing := after.missing or before.missing:
        return Line(baseline.name, baseline.state_location, 0, remark=f"not installed: {missing}")
    if wrong := after.wrong or before.wrong:
        return Line(baseline.name, baseline.state_location, after.port_samples, remark=f"WRONG: {wrong}", is_wrong=True)
    rows = after.port_samples - before.port_samples
    if rows <= 0:
        return Line(baseline.name, baseline.state_location, 0, remark="too few messages to measure")
    seconds = after.wall_s - before.wall_s
    share = after.port_samples / all_rows
    return Line(
        baseline.name,
        baseline.state_location,
        after.port_samples,
        cpu_s=round((after.cpu_s - before.cpu_s) / rows * MILLION, 2),
        server_cpu_s=round((after.server_cpu_s - before.server_cpu_s) / rows * MILLION, 2) if baseline.stores else None,
        port_samples_per_s=round(rows / seconds) if seconds > 0 else None,
        peak_mib=after.peak_bytes >> 20,
        bytes_per_port_sample=round(after.disk_bytes / after.port_samples, 1) if baseline.stores else None,
        remark="" if after.port_samples == all_rows else f"measured on {share:.0%} of the data",
    )


def _with_ratios(line: Line, first: Line) -> Line:
    if line.cpu_s is None or not first.total_cpu_s > 0:
        return line
    size, reference = line.bytes_per_port_sample, first.bytes_per_port_sample
    return Line(
        **asdict(line)
        | {
            "ratio": round(line.total_cpu_s / first.total_cpu_s, 2),
            "bytes_ratio": round(size / reference, 2) if size and reference else None,
        }
    )


def render_table(table: Sequence[Line]) -> list[str]:
    """Return the table as text, with its notes."""
    rendered = [f"{'':28}{'CPU s':>8}{'server':>8}{'ratio':>8}{'rows/s':>10}{'MiB':>7}{'bytes/row':>11}{'ratio':>7}"]
    for line in table:
        numbers = (
            f"{_number(line.cpu_s, 2):>8}{_number(line.server_cpu_s, 2):>8}{_number(line.ratio, 2):>8}"
            f"{_number(line.port_samples_per_s, 0):>10}{_number(line.peak_mib, 0):>7}"
            f"{_number(line.bytes_per_port_sample, 1):>11}{_number(line.bytes_ratio, 2):>7}"
        )
        rendered.append(f"{line.name:28}{numbers}  {line.remark or line.state_location}")
    return [*rendered, *_NOTES]


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"
